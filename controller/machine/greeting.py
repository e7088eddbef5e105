"""A check that one machine reaches another: one machine listens at a port for some seconds and says agreed words, the other
machine looks for them there."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from controller.machine.addresses import bound_socket

REACH_S = 3.0
"""Time within which a machine is reached: a firewall that drops packets says nothing."""


class Greeter:
    """A listener at a free port of `host` that says `words` on each connection, until it is closed or `lasts_s` are over."""

    def __init__(self, host: str, words: str, lasts_s: float) -> None:
        """Listen. Raise `Unavailable` where no program can."""
        self._listening, self._words = bound_socket(host, 0), words.encode()
        self._listening.listen(4)
        self.port = int(self._listening.getsockname()[1])
        self._timer = threading.Timer(lasts_s, self.close)
        self._timer.daemon = True
        self._timer.start()
        threading.Thread(target=self._greet, daemon=True).start()

    def close(self) -> None:
        """Close the port; a second call does nothing."""
        self._timer.cancel()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # it ends an accept that waits
        self._listening.close()

    def _greet(self) -> None:
        with suppress(OSError):
            while True:
                calling, _ = self._listening.accept()
                with calling, suppress(OSError):
                    calling.settimeout(REACH_S)
                    calling.sendall(self._words)


def is_greeted(host: str, port: int, words: str, within_s: float = REACH_S) -> bool:
    """Return True if a listener that says `words` is reached there."""
    try:
        with socket.create_connection((host, port), timeout=within_s) as calling:
            calling.settimeout(within_s)
            return calling.recv(len(words) + 1) == words.encode()
    except (OSError, ValueError):  # ValueError: a name that no resolver takes
        return False
