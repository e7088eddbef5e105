"""The agent's threads besides its loop: none of them ends or hangs without a word.

An exception in a thread's work is reported to the master and counted, and the work begins again with back-off. `check`, the
watchdog's look, is called every period: it starts threads again that have ended all the same, and names those that have hung
for longer than their patience. Python cannot end a thread, so for a hung one the agent's child has to end and be started
again (`child`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from controller.machine.back_off import BackOff

log = logging.getLogger("sparkpace.agent")

BACK_OFF = BackOff(first_s=1.0, most_s=30.0)

Beat = Callable[[], None]
"""Sign of life that a thread's work gives at least once in its patience."""


@dataclass(slots=True)
class _Watched:
    name: str
    work: Callable[[Beat], None]
    patience_s: float
    beat_s: float
    failures: int = 0
    thread: threading.Thread | None = None


class Threads:
    """Threads that run until `stop` is set. `note` takes a line for the master; `clock` is monotonic seconds."""

    def __init__(
        self, stop: threading.Event, note: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stop, self._note, self._clock = stop, note, clock
        self._all: list[_Watched] = []

    def add(self, name: str, work: Callable[[Beat], None], *, patience_s: float) -> None:
        """Begin `work`, which should go on until `stop` is set."""
        watched = _Watched(name, work, patience_s, self._clock())
        self._all.append(watched)
        self._begin(watched)

    def check(self) -> list[str]:
        """Start ended threads again; return the names of those that hang."""
        for watched in self._all:
            if watched.thread is not None and not watched.thread.is_alive() and not self._stop.is_set():
                self._failed(watched, "its thread ended")
                self._begin(watched)
        return [watched.name for watched in self._all if self._clock() - watched.beat_s > watched.patience_s]

    def _begin(self, watched: _Watched) -> None:
        self._beat(watched)
        watched.thread = threading.Thread(target=self._run, args=(watched,), name=watched.name, daemon=True)
        watched.thread.start()

    def _run(self, watched: _Watched) -> None:
        failures = 0
        while not self._stop.is_set():
            begun_s = self._clock()
            try:
                watched.work(lambda: self._beat(watched))
                if self._stop.is_set():
                    return
                reason = "it returned"
            except Exception as error:
                log.exception("the agent's thread %s failed", watched.name)
                reason = f"{type(error).__name__}: {error}"
            if self._clock() - begun_s > BACK_OFF.most_s:
                failures = 0
            failures += 1
            self._failed(watched, reason)
            self._beat(watched)
            self._stop.wait(BACK_OFF.wait_s(failures))

    def _failed(self, watched: _Watched, reason: str) -> None:
        watched.failures += 1
        self._note(
            f"the agent's thread {watched.name} failed and is begun again (failure {watched.failures}): {reason[:300]}"
        )

    def _beat(self, watched: _Watched) -> None:
        watched.beat_s = self._clock()
