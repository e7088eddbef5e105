"""Background work for the engine: keyed jobs on a few threads, tried again until they succeed.

A key waits once, however often it is asked for, and is never under way twice; if it is asked for while it is under way, its
job is done once more. A job that fails is tried again with back-off. When a job raises `NoAnswer` the engine is away: all
jobs wait while one thread knocks, with back-off, and go on together once the engine answers. So an engine that hangs is not
buried under requests which it would carry out later. An unforeseen error is logged with its stack, and the job is tried
again: no thread ends because of an error.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from controller.machine.back_off import BackOff

BACK_OFF = BackOff(first_s=0.25, most_s=30.0)
KNOCKING = BackOff(first_s=0.25, most_s=2.0)
"""Waits between two knocks. The longest wait bounds how soon the engine, once it answers again, gets all updates."""

log = logging.getLogger(__name__)


class NoAnswer(Exception):
    """A job got no answer in time. The job may still be carried out later."""


class NotYet(Exception):
    """A job was refused, or its time has not come; it is tried again."""


@dataclass(slots=True)
class _Chore:
    job: Callable[[], None]
    due_s: float


class Chores:
    """Jobs and the threads that do them. `knock` asks whether the engine answers and raises `NoAnswer` if not.

    Threads start with the first chore. `threads` 0: `turn` does the work, on the caller's thread.
    """

    def __init__(self, knock: Callable[[], None], *, threads: int = 4, clock: Callable[[], float] = time.monotonic) -> None:
        self._knock, self._clock = knock, clock
        self._lock = threading.Lock()
        self._work, self._quiet = threading.Condition(self._lock), threading.Condition(self._lock)
        """Conditions: `_work` wakes a thread when there is something to do, `_quiet` wakes `settle` when nothing is under
        way."""
        self._waiting: dict[Hashable, _Chore] = {}
        self._under_way: set[Hashable] = set()
        self._tries: dict[Hashable, int] = {}
        self._knock_at = math.inf
        self._knocks = 0
        self._knocking = False
        self._away_since: float | None = None
        self._closed = False
        self._then: Callable[[], None] | None = None
        self._threads = [threading.Thread(target=self._run, name=f"chores-{n}", daemon=True) for n in range(threads)]
        self._started = False

    @property
    def away(self) -> bool:
        """True if the engine did not answer the last time."""
        return self._away_since is not None

    @property
    def alive(self) -> bool:
        """True if the jobs that wait will be done: a watchdog's question."""
        return not self._started or all(thread.is_alive() for thread in self._threads)

    def ask(self, key: Hashable, job: Callable[[], None], *, delay_s: float = 0.0) -> None:
        """Add a job and return at once. The newest `job` of a key counts; a key that waits keeps the earlier of the two
        times, and a key that failed keeps its back-off."""
        with self._lock:
            if self._closed:
                return
            waiting = self._waiting.get(key)
            due_s = self._clock() + delay_s
            if waiting is not None:
                due_s = waiting.due_s if key in self._tries else min(due_s, waiting.due_s)
            self._waiting[key] = _Chore(job, due_s)
            if not self._started:
                self._started = True
                for thread in self._threads:
                    thread.start()
            self._work.notify()

    def settle(self, timeout_s: float) -> bool:
        """Wait until nothing is due or under way, but not for an engine that is away; return True if nothing is left."""
        end_s = time.monotonic() + timeout_s
        with self._lock:
            while not self.away and (self._under_way or self._next_s() <= self._clock()):
                left_s = end_s - time.monotonic()
                if left_s <= 0:
                    break
                self._quiet.wait(min(left_s, 0.1))
            return not self._waiting and not self._under_way

    def close(self, then: Callable[[], None]) -> None:
        """Drop the jobs that wait, and return at once. `then` is called when the jobs under way have ended."""
        with self._lock:
            self._closed = True
            self._then = then
            self._waiting.clear()
            self._work.notify_all()
        self._end()

    def _end(self) -> None:
        with self._lock:
            if not self._closed or self._under_way or self._knocking:
                return
            then, self._then = self._then, None
        if then is not None:
            then()

    def turn(self) -> bool:
        """Do one thing that is due; return False when nothing is."""
        with self._lock:
            found = self._take()
        if found is None:
            return False
        key, chore = found
        if chore is None:
            self._ask_whether_there()
        else:
            self._do(key, chore)
        return True

    # ---------------------------------------------------------------- a thread

    def _run(self) -> None:
        while not self._closed:
            try:
                if not self.turn():
                    self._sleep()
            except Exception:
                log.exception("a background thread failed and goes on")
                time.sleep(BACK_OFF.first_s)

    def _sleep(self) -> None:
        with self._lock:
            wait_s = self._next_s() - self._clock()
            if not self._closed and wait_s > 0:
                self._work.wait(None if math.isinf(wait_s) else wait_s)

    def _next_s(self) -> float:
        """Return the time when something can be done; inf: not before something changes."""
        if self.away:
            return math.inf if self._knocking else self._knock_at
        return min((chore.due_s for key, chore in self._waiting.items() if key not in self._under_way), default=math.inf)

    def _take(self) -> tuple[Hashable, _Chore | None] | None:
        """Return the next thing to do, taken from what waits; without a chore: to knock."""
        now_s = self._clock()
        if self._closed or self._next_s() > now_s:
            return None
        if self.away:
            self._knocking = True
            return None, None
        key = next(key for key, chore in self._waiting.items() if key not in self._under_way and chore.due_s <= now_s)
        self._under_way.add(key)
        return key, self._waiting.pop(key)

    def _do(self, key: Hashable, chore: _Chore) -> None:
        error: Exception | None = None
        try:
            chore.job()
        except Exception as raised:  # noqa: BLE001 - see the module: logged, tried again
            error = raised
        with self._lock:
            self._under_way.discard(key)
            if error is None:
                self._tries.pop(key, None)
                self._knocks = 0
            elif not self._closed:  # a job that was under way at the end may fail because its connection went
                self._tell(key, error)
                self._retry(key, chore)
            if not self._under_way:
                self._quiet.notify_all()
        self._end()

    def _retry(self, key: Hashable, chore: _Chore) -> None:
        self._tries[key] = self._tries.get(key, 0) + 1
        newest = self._waiting.get(key, chore)
        self._waiting[key] = _Chore(newest.job, self._clock() + BACK_OFF.wait_s(self._tries[key]))

    def _tell(self, key: Hashable, error: Exception) -> None:
        match error:
            case NoAnswer():
                self._go_away(error)
            case NotYet():
                log.warning("%s; tried again", error)
            case _:
                log.error("%s failed in an unforeseen way and is tried again", key, exc_info=error)

    # ---------------------------------------------------------------- an engine that is away

    def _go_away(self, error: Exception) -> None:
        if not self.away:
            self._away_since = self._clock()
            log.warning("%s; going on without the engine, which gets all changes once it answers", error)
        self._knocks += 1
        self._knock_at = self._clock() + KNOCKING.wait_s(self._knocks)

    def _ask_whether_there(self) -> None:
        error: Exception | None = None
        try:
            self._knock()
        except Exception as raised:  # noqa: BLE001 - see `_do`
            error = raised
        with self._lock:
            self._knocking = False
            if error is None:
                away_s = self._clock() - (self._away_since or 0.0)
                log.warning("the engine answers again after %.1f s", away_s)
                self._away_since, self._knock_at = None, math.inf
            else:
                if not isinstance(error, NoAnswer):
                    log.error("knocking failed in an unforeseen way and is tried again", exc_info=error)
                self._go_away(error)
            self._work.notify_all()
        self._end()
