"""Limits of how much calls may bring and how fast, before their content is looked at: a master has one memory and one loop
for all.

`Allowance` is pure; `Bodies` reads by it. A body's type says what may be in it (`controller.wire`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request

from controller.wire.command import PlanRequest, StartRequest
from controller.wire.driver import DriverSync, Registration
from controller.wire.hosting import HostRequest
from controller.wire.message import Message
from controller.wire.worker import WorkerSync
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput, TooLarge, TooMuch, TooSlow

M = TypeVar("M", bound=Message)

MIB = 1 << 20
MOST = MIB // 16
"""Most bytes of a body that is not of a `LARGE` type."""
LARGE: dict[type[Message], int] = {
    Registration: 4 * MIB,
    DriverSync: 64 * MIB,  # 2,000 events, and a job's start names all its stages
    WorkerSync: 32 * MIB,
    PlanRequest: 16 * MIB,  # a profile from a file
    StartRequest: 16 * MIB,  # has a plan's request
    HostRequest: MIB // 4,  # a command line and an environment
}
"""Most bytes of a body by its type."""
BODY_S = 20.0
"""The time within which all of a body must be there; clients have less patience."""
AT_ONCE, EACH_S = 64 * MIB, 4 * MIB
"""Bytes that each owner of connections (`connections`) may bring at once, and bytes per second in the long run: some 7,000
ended tasks."""
OWNERS = 1000
"""Number of remembered owners above which owners that may bring `AT_ONCE` again are forgotten."""


class Allowance:
    """Bytes that each owner may still bring."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, owner: str, size: int, now_s: float) -> bool:
        """Return True if `owner` may bring `size` more bytes at `now_s`; then they count."""
        left = self._left_of(owner, now_s)
        if size > left:
            return False
        if len(self._left) > OWNERS:
            self._left = {one: kept for one, kept in self._left.items() if self._left_of(one, now_s) < AT_ONCE}
        self._left[owner] = left - size, now_s
        return True

    def _left_of(self, owner: str, now_s: float) -> float:
        left, at_s = self._left.get(owner, (AT_ONCE, now_s))
        return min(float(AT_ONCE), left + EACH_S * (now_s - at_s))


class Bodies:
    """The reader of the bodies of calls. `clock` is monotonic seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._allowance = clock, Allowance()

    async def read(self, request: Request, kind: type[M]) -> M:
        """Return the body of a call, which counts for its `state.owner`. Raise `BadInput`, `TooLarge`, `TooMuch` and
        `TooSlow`."""
        try:
            async with asyncio.timeout(BODY_S):
                data = await self._read(request, LARGE.get(kind, MOST))
        except TimeoutError:
            raise TooSlow(f"the body of {path_called(request)} took over {BODY_S:g} s; send it faster, or less") from None
        except ClientDisconnect:
            raise TooSlow(
                f"the connection closed before the body of {path_called(request)} was complete; send it again"
            ) from None
        try:
            return msgspec.json.decode(data, type=kind)
        except UNREADABLE as error:
            raise BadInput(f"the body of {path_called(request)} is not a valid {kind.__name__}: {error}") from error

    async def _read(self, request: Request, most: int) -> bytearray:
        announced, owner = int(request.headers.get("content-length", 0)), request.state.owner
        if announced > most:
            raise TooLarge(f"the body of {path_called(request)} is over {most} bytes; send less")
        self._allow(owner, announced)  # all at once, so that a refusal takes nothing of what the next try needs
        data = bytearray()
        async for chunk in request.stream():
            data += chunk
            if len(data) > most:
                raise TooLarge(f"the body of {path_called(request)} is over {most} bytes; send less")
            if not announced:
                self._allow(owner, len(chunk))
        return data

    def _allow(self, owner: str, size: int) -> None:
        if not self._allowance.take(owner, size, self._clock()):
            raise TooMuch(
                f"{owner} has exceeded the upload limit ({AT_ONCE >> 20} MiB, then {EACH_S >> 20} MiB/s); retry shortly"
            )


def path_called(request: Request) -> str:
    """Return the path of a call in a form that can be shown."""
    return ascii(request.url.path[:200])[1:-1]
