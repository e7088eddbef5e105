"""What takes its time and needs nothing of the master's state is done beside its loop, so that agents are answered meanwhile.

Who says `await beside(work)` has the state of another moment afterwards. Tests do it `at_once`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Beside(Protocol):
    """Does the work and gives what came of it, or raises what it raised."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


async def at_once(work: Callable[[], T]) -> T:
    """Here and now."""
    return work()
