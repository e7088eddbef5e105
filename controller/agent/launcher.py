"""Starts and stops executors beside the control loop, so that a slow engine never delays a quota.

Starts are done one at a time on one thread, stops on another: a start may have to wait for an image or a class archive.
Level-triggered: the loop says each period what should start or stop; what is under way is not begun twice. Whatever goes
wrong with one executor is that executor's: it is told, counted and tried again. Keeps a 0600 record of every executor started
(without its environment), so that a restarted agent can adopt it and tell its driver's fate.
"""

from __future__ import annotations

import logging
import math
import re
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue

import msgspec
from msgspec import structs

from controller.agent.class_archive import ClassArchives
from controller.agent.launch import Site, make_directories, make_launch, python_binds
from controller.agent.threads import Beat
from controller.files import write_whole
from controller.runtime.base import ExecutorKey, Program, Runtime, full_image_name
from controller.wire.driver import PythonEnvironment
from controller.wire.worker import ExecutorSpec
from stage_model.decoding import UNREADABLE
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger("sparkpace.agent")

FIRST_RETRY_S, LAST_RETRY_S = 1.0, 30.0
STOP_GRACE_S = 2.0
VERSION_PROGRAM = 'import sys; print("%d.%d" % sys.version_info[:2])'


@dataclass(frozen=True, slots=True)
class Start:
    """`memory_mb` is the container's limit; `credentials` go into the executor's own file, None: it needs none, or nobody has
    told them yet."""

    key: ExecutorKey
    spec: ExecutorSpec
    cores: float
    memory_mb: int
    credentials: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _Retry:
    """A start that failed `tries` times in a row, the last time for this `reason`; not before `at_s` again."""

    at_s: float
    wait_s: float
    tries: int
    reason: str


NEVER_TRIED = _Retry(-math.inf, 0.0, 0, "")


class Launcher:
    """`state(key)` is "starting" until the runtime shows the executor, "refused" when it can never start here."""

    def __init__(self, runtime: Runtime, site: Site, record_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.runtime, self.site, self.record_dir, self.clock = runtime, site, record_dir, clock
        self._archives = ClassArchives(runtime, site.archive_root)
        self._lock = threading.Lock()
        self._starts: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._stops: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._under_way: set[ExecutorKey] = set()
        self._withdrawn: set[ExecutorKey] = set()
        self._cores: dict[ExecutorKey, float] = {}
        self._stopping: set[ExecutorKey] = set()
        self._refused: dict[ExecutorKey, str] = {}
        self._retry: dict[ExecutorKey, _Retry] = {}
        self._versions: dict[tuple[str | None, str, int], str] = {}
        self.images: tuple[str, ...] = ()
        """Those that were here when last looked."""
        record_dir.mkdir(parents=True, exist_ok=True, mode=0o700)

    def run_starts(self, wake: Callable[[], None], stop: threading.Event, beat: Beat) -> None:
        """The thread of starts: works them off until `stop`; `wake` tells the loop that something changed."""
        self._look_for_images()
        self._run(self._starts, wake, stop, beat)

    def run_stops(self, wake: Callable[[], None], stop: threading.Event, beat: Beat) -> None:
        """The thread of stops, and of what is removed after them."""
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
            # a start may wait long behind others: it then begins with the newest grant, not with that of the first asking
            self._cores[start.key] = start.cores
            self._withdrawn.discard(start.key)
            if start.key in self._under_way or start.key in self._refused:
                return
            if self._retry.get(start.key, NEVER_TRIED).at_s > self.clock():
                return
            self._under_way.add(start.key)
        self._starts.put(lambda: self._start(start))

    def withdraw(self, key: ExecutorKey) -> None:
        """It is not wanted any more: a start that still waits is left out."""
        with self._lock:
            if key in self._under_way:
                self._withdrawn.add(key)

    def stop(self, key: ExecutorKey) -> None:
        with self._lock:
            if key in self._stopping:
                return
            self._stopping.add(key)
        self._stops.put(lambda: self._stop(key))

    def state(self, key: ExecutorKey) -> str:
        return "refused" if key in self._refused else "starting"

    def reason(self, key: ExecutorKey) -> str:
        """Why it is refused, or did not start at the last try; empty if nothing speaks against it."""
        retry = self._retry.get(key, NEVER_TRIED)
        return self._refused.get(key) or (f"it did not start (try {retry.tries}): {retry.reason}" if retry.tries else "")

    def busy(self, key: ExecutorKey) -> bool:
        return key in self._under_way or key in self._stopping

    def forget(self, key: ExecutorKey, *, application_over: bool = False) -> None:
        """Drops what was kept of an executor; with the application over, its local directory, too."""
        if application_over:
            local = self.site.local_dir(key)
            self._stops.put(lambda: shutil.rmtree(local, ignore_errors=True))
        self._refused.pop(key, None)
        self._retry.pop(key, None)
        self._cores.pop(key, None)
        self._record(key).unlink(missing_ok=True)

    def remembered(self, key: ExecutorKey) -> ExecutorSpec | None:
        """The spec (without environment) of an executor started by an earlier life of this agent."""
        try:
            return msgspec.json.decode(self._record(key).read_bytes(), type=ExecutorSpec)
        except (FileNotFoundError, *UNREADABLE):
            return None

    def _record(self, key: ExecutorKey) -> Path:
        return self.record_dir / f"{key.application_id}.{key.executor_id}.json"

    def _start(self, start: Start) -> None:
        key, spec = start.key, start.spec
        try:
            if not self._wanted(key):
                return
            self._check_python(spec)
            java = self.runtime.java(spec.java_home, spec.image)
            launch = make_launch(spec, self.site, java.program, self._cores[key], start.memory_mb)
            launch = self._archives.add_to(launch, java)
            if not self._wanted(key):  # an image or an archive may have taken minutes
                return
            make_directories(spec, self.site, start.credentials)
            self._remember(key, spec)
            self.runtime.start(replace(launch, cores=self._cores[key]))
            self._retry.pop(key, None)
            if spec.image and full_image_name(spec.image) not in self.images:
                self._look_for_images()
            log.info("started executor %s of %s with %.2f cores, %d MiB", *key[::-1], self._cores[key], start.memory_mb)
        except RuntimeRefused as error:
            log.error("executor %s of %s is refused: %s", key.executor_id, key.application_id, error)
            self._refused[key] = str(error)
        except (RuntimeFailed, OSError) as error:
            log.warning("executor %s of %s did not start, next try in %.0f s: %s", *key[::-1], self._later(key, error), error)
        except Exception as error:
            # what nobody thought of is this executor's trouble, not that of all those after it
            wait_s = self._later(key, error)
            log.exception("executor %s of %s did not start, next try in %.0f s", *key[::-1], wait_s)
        finally:
            with self._lock:
                self._under_way.discard(key)
                self._withdrawn.discard(key)

    def _wanted(self, key: ExecutorKey) -> bool:
        with self._lock:
            return key not in self._withdrawn

    def _later(self, key: ExecutorKey, error: Exception) -> float:
        """Notes a failed start; returns the seconds to the next try."""
        before = self._retry.get(key, NEVER_TRIED)
        wait_s = min(LAST_RETRY_S, max(FIRST_RETRY_S, 2 * before.wait_s))
        self._retry[key] = _Retry(self.clock() + wait_s, wait_s, before.tries + 1, (str(error) or type(error).__name__)[:300])
        return wait_s

    def _look_for_images(self) -> None:
        try:
            self.images = self.runtime.images()
        except RuntimeFailed as error:
            log.warning("%s", error)

    def _stop(self, key: ExecutorKey) -> None:
        try:
            self.runtime.stop(key, STOP_GRACE_S)
        except RuntimeFailed as error:
            log.warning("executor %s of %s did not stop and will be tried again: %s", *key[::-1], error)
        except Exception:
            log.exception("executor %s of %s did not stop and will be tried again", *key[::-1])
        finally:
            with self._lock:
                self._stopping.discard(key)

    def _remember(self, key: ExecutorKey, spec: ExecutorSpec) -> None:
        write_whole(self._record(key), msgspec.json.encode(structs.replace(spec, environment={})), lasting=False)

    def _check_python(self, spec: ExecutorSpec) -> None:
        """Spark's Python workers must be of the driver's minor version; found out before anything starts."""
        if spec.python is None:
            return
        known = (spec.image, spec.python.executable, spec.uid)
        if known not in self._versions:
            self._versions[known] = self._python_version(spec, spec.python)
        if self._versions[known] != spec.python.version:
            raise RuntimeRefused(
                f"{spec.python.executable} is Python {self._versions[known]} on the executors but {spec.python.version} "
                f"on the driver; accepted: the same minor version (--image or --python names another)"
            )

    def _python_version(self, spec: ExecutorSpec, python: PythonEnvironment) -> str:
        """Minor version ("3.11") of the Python that executors would run, asked of itself. Raises `RuntimeRefused`."""
        binds = python_binds(spec, self.site)
        argv = [python.executable, "-I", "-c", VERSION_PROGRAM]
        try:
            answer = self.runtime.run_program(Program(argv, spec.uid, spec.gid, binds, spec.image)).strip()
        except RuntimeRefused as error:
            raise RuntimeRefused(
                f"Python {error}; mount its environment with --mount, or name another with spark.pace.python"
            ) from error
        if not re.fullmatch(r"\d+\.\d+", answer):
            raise RuntimeRefused(
                f"{python.executable} answered {answer[:200]!r} when asked for its version; a Python is needed"
            )
        return answer
