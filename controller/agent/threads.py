"""The agent's threads besides its loop: no thread ends or hangs without a report.

An exception in a thread's work is reported to the master and counted, and the work begins again with back-off. `check`, the
watchdog's look, is called every period: it names the threads that have hung for longer than their patience, or have ended all
the same. Python cannot end a thread, so for such a thread the agent's child has to end and be started again (`child`).
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
    patience_s: float
    beat_s: float
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
        watched = _Watched(name, patience_s, self._clock())
        watched.thread = threading.Thread(target=self._run, args=(watched, work), name=name, daemon=True)
        self._all.append(watched)
        watched.thread.start()

    def check(self) -> list[str]:
        """Return the names of the threads that hang or have ended."""
        return [watched.name for watched in self._all if self._is_lost(watched)]

    def _is_lost(self, watched: _Watched) -> bool:
        ended = watched.thread is not None and not watched.thread.is_alive() and not self._stop.is_set()
        return ended or self._clock() - watched.beat_s > watched.patience_s

    def _run(self, watched: _Watched, work: Callable[[Beat], None]) -> None:
        in_a_row = failures = 0
        while not self._stop.is_set():
            begun_s = self._clock()
            try:
                work(lambda: self._beat(watched))
                if self._stop.is_set():
                    return
                reason = "it returned"
            except BaseException as error:  # SystemExit, too: the thread goes on
                log.exception("the agent's thread %s failed", watched.name)
                reason = f"{type(error).__name__}: {error}"
            if self._clock() - begun_s > BACK_OFF.most_s:
                in_a_row = 0
            in_a_row, failures = in_a_row + 1, failures + 1
            self._note(f"the agent's thread {watched.name} failed and is begun again (failure {failures}): {reason[:300]}")
            self._beat(watched)
            self._stop.wait(BACK_OFF.wait_s(in_a_row))

    def _beat(self, watched: _Watched) -> None:
        watched.beat_s = self._clock()
