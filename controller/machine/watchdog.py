"""Proof of life for systemd, by its protocol sd_notify(3): a service that stays silent for longer than its unit's
WatchdogSec is ended and started again."""

from __future__ import annotations

import socket
from collections.abc import MutableMapping
from contextlib import suppress


class Watchdog:
    """The watchdog of a service manager; without one, nothing is sent. The manager's variables are taken out of
    `environment`, because they are not meant for the programs that this process starts."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
            environment.pop(name, None)
        self._address = f"\0{address[1:]}" if address.startswith("@") else address  # of the abstract namespace

    def beat(self) -> None:
        """Say that the service is ready and lives."""
        if self._address:
            # a manager that does not listen ends the service by itself
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sending:
                sending.sendto(b"READY=1\nWATCHDOG=1", self._address)
