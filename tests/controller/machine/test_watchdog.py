"""Proof of life for a service manager: the messages that it gets, and the variables that are taken out of the environment."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from controller.machine.watchdog import Watchdog


@pytest.mark.parametrize("abstract", [False, True])
def test_the_manager_learns_that_the_service_is_ready_and_lives(tmp_path: Path, abstract: bool) -> None:
    name = f"@{tmp_path}/notify" if abstract else f"{tmp_path}/notify"
    environment = {"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "7", "PATH": "/bin"}
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as manager:
        manager.bind(name.replace("@", "\0", 1))
        watchdog = Watchdog(environment)
        watchdog.beat()
        manager.settimeout(60)
        assert manager.recv(100) == b"READY=1\nWATCHDOG=1"
    assert environment == {"PATH": "/bin"}
    watchdog.beat()  # the manager has gone


def test_without_a_manager_nothing_is_sent() -> None:
    environment = {"PATH": "/bin"}
    Watchdog(environment).beat()
    assert environment == {"PATH": "/bin"}
