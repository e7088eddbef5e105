"""Starts and stops of executors outside of the control loop, so that a slow engine never delays a quota.

Starts are done one at a time on one thread, stops on another: a start may have to wait for an image or a class archive. The
way in which an executor starts is `starting`'s. Level-triggered: the loop says each period which executors should start or
stop; a start or stop under way is not begun twice. An error with one executor concerns only that executor: it is reported,
counted and tried again. The launcher keeps a 0600 record of every executor started (without its environment), so that a
restarted agent can adopt it and tell its driver's fate.
"""

from __future__ import annotations

import logging
import math
import shutil
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue

from controller.agent.core.arbitrate import LEAST_CORES
from controller.agent.executors.starting import AdoptingStarter, LaunchingStarter, Spec, Start, kept_spec
from controller.agent.site import Site
from controller.agent.threads import Beat
from controller.machine.back_off import BackOff
from controller.machine.files import write_whole
from controller.runtime.base import ExecutorKey, Runtime
from controller.wire.states import ExecutorState
from stage_model.decoding import UNREADABLE
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger("sparkpace.agent")

BACK_OFF = BackOff(first_s=1.0, most_s=30.0)
STOP_GRACE_S = 2.0


@dataclass(frozen=True, slots=True)
class _Retry:
    """A start that failed `tries` times in a row, the last time for this `reason`; the next try is not before `at_s`."""

    at_s: float
    tries: int
    reason: str


NEVER_TRIED = _Retry(-math.inf, 0, "")


def record_file(record_dir: Path, key: ExecutorKey) -> Path:
    return record_dir / f"{key.file_stem}.json"


class Launcher:
    """The launcher. `state(key)` is `STARTING` until the runtime shows the executor, `REFUSED` when it can never start
    here."""

    def __init__(
        self,
        runtime: Runtime,
        starter: LaunchingStarter | AdoptingStarter,
        site: Site,
        record_dir: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runtime, self.site, self.record_dir, self.clock = runtime, site, record_dir, clock
        self._starter = starter
        self._lock = threading.Lock()
        self._starts: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stops: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._under_way: set[ExecutorKey] = set()
        self._grants: dict[ExecutorKey, float] = {}
        """The newest grant of each executor whose start is wanted."""
        self._given: dict[ExecutorKey, float] = {}
        """The cores with which the newest start of each executor went to the runtime, until the executor is seen."""
        self._stopping: set[ExecutorKey] = set()
        self._refused: dict[ExecutorKey, str] = {}
        self._retry: dict[ExecutorKey, _Retry] = {}
        self.images: tuple[str, ...] = ()
        """Images that were here at the last look."""
        record_dir.mkdir(parents=True, exist_ok=True, mode=0o700)

    def run_starts(self, wake: Callable[[], None], stop: threading.Event, beat: Beat) -> None:
        """Run the thread of starts: work them off until `stop`; `wake` tells the loop that something changed."""
        self.images = self._starter.images()
        self._run(self._starts, wake, stop, beat)

    def run_stops(self, wake: Callable[[], None], stop: threading.Event, beat: Beat) -> None:
        """Run the thread of stops, and of removals after them."""
        self._run(self._stops, wake, stop, beat)

    @staticmethod
    def _run(jobs: SimpleQueue[Callable[[], None]], wake: Callable[[], None], stop: threading.Event, beat: Beat) -> None:
        while not stop.is_set():
            beat()
            try:
                job = jobs.get(timeout=0.5)
            except Empty:
                continue
            try:
                job()
            finally:
                wake()

    def start(self, start: Start) -> None:
        with self._lock:
            # a start may wait long behind other starts: it then begins with the newest grant, not with the first one
            self._grants[start.key] = start.cores
            if start.key in self._under_way or start.key in self._refused:
                return
            if self._retry.get(start.key, NEVER_TRIED).at_s > self.clock():
                return
            self._under_way.add(start.key)
        self._starts.put(lambda: self._start(start))

    def seen(self, keys: Iterable[ExecutorKey]) -> None:
        """Note that these executors have shown up, so that their quotas are known."""
        with self._lock:
            for key in keys:
                self._given.pop(key, None)

    def withdraw(self, key: ExecutorKey) -> None:
        """Leave out a waiting start of an executor that is no longer wanted."""
        self._grants.pop(key, None)

    def stop(self, key: ExecutorKey) -> None:
        with self._lock:
            if key in self._stopping:
                return
            self._stopping.add(key)
        self._stops.put(lambda: self._stop(key))

    def state(self, key: ExecutorKey) -> ExecutorState:
        return ExecutorState.REFUSED if key in self._refused else ExecutorState.STARTING

    def reason(self, key: ExecutorKey) -> str:
        """Return the reason why the executor is refused, or did not start at the last try; empty without a reason."""
        retry = self._retry.get(key, NEVER_TRIED)
        return self._refused.get(key) or (f"it did not start (try {retry.tries}): {retry.reason}" if retry.tries else "")

    def most_cores(self, key: ExecutorKey) -> float:
        """Return the most cores with which a start of this executor that is under way, or just over, can show up."""
        return max(self._given.get(key, 0.0), self._grants.get(key, 0.0))

    def busy(self, key: ExecutorKey) -> bool:
        return key in self._under_way or key in self._stopping

    def forget(self, key: ExecutorKey, *, application_over: bool = False) -> None:
        """Drop everything kept of an executor; with the application over, its local directory, too."""
        if application_over:
            local = self.site.local_dir(key)
            self._stops.put(lambda: shutil.rmtree(local, ignore_errors=True))
        self._refused.pop(key, None)
        self._retry.pop(key, None)
        self._grants.pop(key, None)
        self._given.pop(key, None)
        self._record(key).unlink(missing_ok=True)

    def remembered(self, key: ExecutorKey) -> Spec | None:
        """Return the spec (without environment) of an executor that began in an earlier life of this agent."""
        try:
            return self._starter.read_spec(self._record(key).read_bytes())
        except (FileNotFoundError, *UNREADABLE):
            return None

    def _record(self, key: ExecutorKey) -> Path:
        return record_file(self.record_dir, key)

    def _start(self, start: Start) -> None:
        key = start.key

        def cores() -> float:
            with self._lock:
                self._given[key] = max(LEAST_CORES, self._left(start))
                return self._given[key]

        try:
            # a start for which there is no room yet is asked for again in the next period
            if key not in self._grants or self._left(start) < LEAST_CORES:
                return
            write_whole(self._record(key), kept_spec(start.spec), lasting=False)
            self._starter.start(start, cores, lambda: key in self._grants)
            self.images = self._starter.images()
            self._retry.pop(key, None)
            log.info("executor %s has started with %.2f cores", key.text, self._grants.get(key, start.cores))
        except RuntimeRefused as error:
            log.error("executor %s is refused: %s", key.text, error)
            self._refused[key] = str(error)
            self._given.pop(key, None)
        except (RuntimeFailed, OSError) as error:
            log.warning("executor %s did not start, next try in %.0f s: %s", key.text, self._later(key, error), error)
        except Exception as error:
            # an unforeseen error concerns this executor, and not the executors after it
            wait_s = self._later(key, error)
            log.exception("executor %s did not start, next try in %.0f s", key.text, wait_s)
        finally:
            with self._lock:
                self._under_way.discard(key)

    def _left(self, start: Start) -> float:
        """Return the cores that a start may take: its newest grant, less the cores that other executors, which are not seen
        yet, have taken beyond their newest grants."""
        others = [given - self._grants.get(key, 0.0) for key, given in list(self._given.items()) if key != start.key]
        return self._grants.get(start.key, start.cores) - math.fsum(max(0.0, beyond) for beyond in others)

    def _later(self, key: ExecutorKey, error: Exception) -> float:
        """Note a failed start; return the seconds to the next try."""
        self._given.pop(key, None)
        tries = self._retry.get(key, NEVER_TRIED).tries + 1
        wait_s = BACK_OFF.wait_s(tries)
        self._retry[key] = _Retry(self.clock() + wait_s, tries, (str(error) or type(error).__name__)[:300])
        return wait_s

    def _stop(self, key: ExecutorKey) -> None:
        try:
            self.runtime.stop(key, STOP_GRACE_S)
        except RuntimeFailed as error:
            log.warning("executor %s did not stop and will be tried again: %s", key.text, error)
        except Exception:
            log.exception("executor %s did not stop and will be tried again", key.text)
        finally:
            with self._lock:
                self._stopping.discard(key)
