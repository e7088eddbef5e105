"""The guard of a pass: each part that belongs to no application is tried again with the next pass, whatever went wrong."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from controller.master.core.guard import Caught

log = logging.getLogger("sparkpace.master")


class Parts:
    """Guards for the parts of a pass that belong to no application: each part is tried again with the next pass."""

    def __init__(self) -> None:
        self.failures: Counter[str] = Counter()
        """The number of failures of each part since it last worked."""

    def do(self, doing: str, part: Callable[[float], None], now_s: float) -> None:
        with self.guarded(doing):
            part(now_s)

    @contextmanager
    def guarded(self, doing: str) -> Iterator[None]:
        """Run a part of a pass; log when it begins to fail, and when it works again."""
        with Caught() as problem:
            yield
        if problem.error is not None:
            self.failures[doing] += 1
            if self.failures[doing] == 1:
                log.error("%s failed and will be tried again", doing, exc_info=problem.error)
        elif count := self.failures.pop(doing, 0):
            log.warning("%s works again, after %d failures", doing, count)
