"""Work that takes its time and needs nothing of the master's state is done on another thread: agents are answered meanwhile.

After `await off_loop(work)` the master's state may have changed. Tests hand in an `OffLoop` that says when work is done."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Protocol, TypeVar

T = TypeVar("T")


class OffLoop(Protocol):
    """A function that does the work and returns its result, or raises its error; `asyncio.to_thread` is one."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


async def in_turns(work: Generator[None, None, T]) -> T:
    """Return the result of work that pauses; other tasks have their turn at each pause."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
        await asyncio.sleep(0)
