"""A connection to the master that is kept open, over which made-up drivers and agents speak."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from controller.machine.http import to_master
from controller.wire.version import HEADER, SPOKEN

T = TypeVar("T")


class KeptConnection:
    """A connection to the master at `url`, whose CA is `ca`."""

    def __init__(self, url: str, ca: Path) -> None:
        self._connection = to_master(url, ca, 30.0)

    def post(self, path: str, token: str, body: msgspec.Struct, kind: type[T]) -> T:
        """Return the master's answer. Raise `OSError` when the master refuses."""
        return msgspec.json.decode(self._asked("POST", path, token, msgspec.json.encode(body)), type=kind)

    def get(self, path: str, token: str) -> bytes:
        """Return the answer's body. Raise `OSError`."""
        return self._asked("GET", path, token, None)

    def close(self) -> None:
        self._connection.close()

    def _asked(self, method: str, path: str, token: str, body: bytes | None) -> bytes:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", HEADER: SPOKEN}
        answer = self._connection.ask(method, path, body, headers)
        if answer.status != 200:
            raise OSError(f"{path}: status {answer.status}, {answer.body[:200].decode(errors='replace')}")
        return answer.body
