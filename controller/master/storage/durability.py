"""No answer leaves the master before the data that it rests on are on the disk.

A commit by itself reaches the kernel, and a loss of power takes that with it. One thread brings commits to the disk, all that
there are by then at once, and answers wait for it off the loop: a thousand applications cost no more syncs than the disk can
do.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from controller.master.storage.store import Store

log = logging.getLogger("sparkpace.master")

LONGEST_S = 2.0
"""The longest wait of an answer: a disk that hangs must not stop control."""
APART_S = 0.005
"""The time from the end of a sync to the next, so that many answers share one; an answer by itself does not wait for it."""


class Durability:
    """The wait of answers for the disk, used on one loop. `longest_s` is the longest wait of an answer."""

    def __init__(self, store: Store, longest_s: float = LONGEST_S) -> None:
        self._store, self._longest_s = store, longest_s
        self._thread = ThreadPoolExecutor(1, "durability")
        self._under_way: asyncio.Task[None] | None = None
        self._reached = store.commits
        self._complained = False
        self._next_s = 0.0
        """The time of the loop's clock before which no sync begins."""

    async def wait(self) -> None:
        """Return once all that is committed by now is on the disk, or cannot be brought there."""
        wanted = self._store.commits
        try:
            async with asyncio.timeout(self._longest_s):
                while self._reached < wanted:
                    if self._under_way is None or self._under_way.done():
                        self._under_way = asyncio.create_task(self._sync())
                    await asyncio.shield(self._under_way)
        except TimeoutError:
            self._complain(f"it has not answered for {self._longest_s:g} s")

    async def _sync(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next_s - loop.time())
        number = self._store.commits
        try:
            await loop.run_in_executor(self._thread, self._store.sync)
        except OSError as error:
            self._complain(str(error))
        else:
            self._complained = False
        self._reached, self._next_s = number, loop.time() + APART_S

    def _complain(self, why: str) -> None:
        """Log once per trouble. Answers go out all the same: a loss of power may take what they promise."""
        if not self._complained:
            log.error("the disk does not take the commits of master.db (%s): a loss of power now would lose them", why)
        self._complained = True
