"""The world outside of the master's core: its shell feeds the core with what happens, and carries out the effects."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from controller.master.core.changes import Changes
from controller.master.core.effects import Effect, Level, Log, Wake
from controller.master.core.lifecycle import Lifecycle
from controller.master.storage.store import Store

log = logging.getLogger("sparkpace.master")

LEVELS: dict[Level, int] = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Outside:
    """The carrier of effects. `wake` is called with the ids of workers whose agents should look again."""

    def __init__(self, lifecycle: Lifecycle, store: Store, wake: Callable[[Collection[str]], None]) -> None:
        self.lifecycle, self.store, self._wake = lifecycle, store, wake

    @contextmanager
    def changing(self, now_s: float) -> Iterator[Changes]:
        """Run a block that feeds the core. Then let the core follow the changes up, and carry the effects out. After an
        exception the next block's end does it."""
        yield self.lifecycle.registry.changes
        self.carry_out(self.lifecycle.follow_up(now_s))

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Log(level, line, error):
                    log.log(LEVELS[level], "%s", line, exc_info=error)
                case Wake(worker_ids):
                    self._wake(worker_ids)
        self.store.catch_up()
