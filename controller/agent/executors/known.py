"""An agent's knowledge of its executors besides that of runtime and core, and the executors' own reports.

An executor reports in a file, or through its driver where another cluster manager has started it. Its report is user code's
word: it is checked, and errors in it are noted, not obeyed.

The file comes from a container, so it is hostile input. It is opened without following links, and must be a regular file of
the executor's user, at most `progress.MAX_BYTES` and `progress.MAX_STAGES`, of the schema, for that executor; counters may
not be negative. Any other file counts as no progress, and the reason is noted. Claimed progress is bounded further at its
use: by tasks (`stage_model.live`) and by container CPU (`accounting`).
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from controller.agent.core.estimates import ClaimedCpu
from controller.agent.executors.launcher import Launcher
from controller.agent.executors.starting import Spec
from controller.machine.process import Process
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.worker import Desired, ExecutorSpec, WorkerInfo
from stage_model.decoding import UNREADABLE
from stage_model.progress import MAX_BYTES, MemoryProgress, Progress, what_is_wrong

COMPLAINT_S = 60.0
"""Shortest time between two notes about one executor's progress file."""
PROGRESS_FILE = "progress.json"
_decoder = msgspec.json.Decoder(Progress)


@dataclass(slots=True)
class KnownExecutor:
    """One executor."""

    slots: int
    spec: ExecutorSpec | None = None
    adopted: bool = False
    """True if another cluster manager has started the executor."""
    remark: str = ""
    """The runtime's last remark on the executor."""
    progress: Progress | None = None
    """The executor's report in this period."""
    heard: tuple[int, float] | None = None
    """Number of the last report through the driver and the time when it was new; None without such a report."""
    claimed_cpu: ClaimedCpu = field(default_factory=ClaimedCpu)
    """The executor's CPU as reported, where the runtime cannot count it."""
    memory: MemoryProgress | None = None
    """The executor's last report on its off-heap memory."""
    complaint: str = ""
    complained_s: float = -math.inf


class KnownExecutors:
    """The executors of a worker. `node_cores` are the cores of each of its nodes; `note` takes a line for the master."""

    def __init__(self, worker: WorkerInfo, launcher: Launcher, note: Callable[[str], None]) -> None:
        self._worker, self._launcher, self._note = worker, launcher, note
        self.node_cores = worker.cores / worker.nodes
        self.by_key: dict[ExecutorKey, KnownExecutor] = {}
        self._drivers: dict[Process, bool] = {}
        """True for drivers found alive in this period: executors of one application share the answer."""

    def begin_period(self) -> None:
        self._drivers.clear()

    def take(self, key: ExecutorKey, spec: Spec) -> None:
        """Take the master's description of an executor."""
        known = self.by_key.get(key)
        if known is None:
            self.by_key[key] = self._know(spec.slots, spec)
        elif known.spec is None and isinstance(spec, ExecutorSpec):
            known.spec, known.slots = spec, spec.slots

    def read(self, key: ExecutorKey, seen: Observed, desired: Desired) -> None:
        """Read the executor's current report; take over an unknown executor. Note errors in the report, raise none."""
        known = self.by_key.get(key) or self._adopt(key, seen)
        known.progress = None
        if seen.remark and seen.remark != known.remark:
            self._note(f"executor {key.executor_id} of {key.application_id}: {seen.remark}")
        known.remark = seen.remark or known.remark
        try:
            known.progress = self._relayed_progress(key, desired) if known.adopted else self._written_progress(key, known)
            known.complaint = ""
        except (ProgressRefused, OSError) as error:
            now_s = self._launcher.clock()
            # a file with a new error each time must not fill the logs
            if str(error) != known.complaint and seen.running and now_s - known.complained_s > COMPLAINT_S:
                known.complaint, known.complained_s = str(error), now_s
                self._note(f"{error}; its container CPU is used instead")
        known.memory = known.progress.memory if known.progress else known.memory

    def count_claims(self, observed: dict[ExecutorKey, Observed]) -> None:
        """Put in each executor's own report of its CPU, within its quota, where the runtime cannot count it."""
        for key, seen in observed.items():
            known = self.by_key.get(key)
            if seen.counted or known is None:
                continue
            claimed_s = known.progress.cpu_s if known.progress else None
            quota = self.node_cores if seen.quota_cores is None else seen.quota_cores
            known.claimed_cpu = known.claimed_cpu.after(self._launcher.clock(), claimed_s, quota)
            observed[key] = replace(seen, cpu_s=known.claimed_cpu.cpu_s)

    def places(self) -> dict[str, list[Path]]:
        """Return the folders of each application's files on this worker; may be called on any thread."""
        places: dict[str, list[Path]] = {}
        site = self._launcher.site
        for key in list(self.by_key):
            places.setdefault(key.application_id, [site.local_dir(key)]).append(site.log_dir(key))
        return places

    def _written_progress(self, key: ExecutorKey, known: KnownExecutor) -> Progress | None:
        directory = self._launcher.site.control_dir(key)
        uid = known.spec.uid if known.spec else directory.stat().st_uid
        return read_progress(directory, key.executor_id, uid)

    def _relayed_progress(self, key: ExecutorKey, desired: Desired) -> Progress | None:
        """Return the executor's report through its driver. Raise `ProgressRefused`."""
        progress = desired.progress.get(key.text)
        known = self.by_key[key]
        if progress is not None and (known.heard is None or known.heard[0] != progress.sequence):
            known.heard = progress.sequence, self._launcher.clock()
        if progress is not None and (wrong := what_is_wrong(progress, key.executor_id)):
            raise ProgressRefused(f"the report of executor {key.executor_id} {wrong}")
        return progress

    def orphaned(self, key: ExecutorKey) -> bool:
        """Return True if the executor's driver provably died here; silence makes no orphan."""
        known = self.by_key.get(key)
        spec = known.spec if known else None
        driver = spec.driver if spec else None
        if driver is None or not driver.is_this_boot() or not driver.is_numbered_here():
            return False
        if driver not in self._drivers:
            self._drivers[driver] = driver.is_alive()
        return not self._drivers[driver]

    def _adopt(self, key: ExecutorKey, seen: Observed) -> KnownExecutor:
        """Take over an executor found here: its slots are the worker's until the master describes it again."""
        spec = self._launcher.remembered(key)
        slots = spec.slots if spec else max(1, round(self.node_cores + 0.49))
        known = self.by_key[key] = self._know(slots, spec)
        what = "running" if seen.running else "ended"
        self._note(f"adopted {what} executor {key.executor_id} of {key.application_id}")
        return known

    def _know(self, slots: int, spec: Spec | None) -> KnownExecutor:
        return KnownExecutor(slots, spec if isinstance(spec, ExecutorSpec) else None, adopted=self._worker.adopts)


class ProgressRefused(Exception):
    """The file is there but cannot be believed; the message says why."""


def read_progress(directory: Path, executor_id: str, uid: int) -> Progress | None:
    """Return the executor's progress, None when there is no file yet. Raise `ProgressRefused`."""
    try:
        descriptor = os.open(f"{directory}/{PROGRESS_FILE}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProgressRefused(f"progress file of executor {executor_id} cannot be opened: {error.strerror}") from error
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise ProgressRefused(f"progress file of executor {executor_id} is not a regular file")
        if info.st_uid != uid:
            raise ProgressRefused(f"progress file of executor {executor_id} belongs to uid {info.st_uid}, not {uid}")
        if info.st_size > MAX_BYTES:
            raise ProgressRefused(f"progress file of executor {executor_id} has {info.st_size} bytes, over {MAX_BYTES}")
        data = os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)
    try:
        progress = _decoder.decode(data)
    except UNREADABLE as error:
        raise ProgressRefused(f"progress file of executor {executor_id} does not fit its schema: {error}") from error
    if wrong := what_is_wrong(progress, executor_id):
        raise ProgressRefused(f"progress file of executor {executor_id} {wrong}")
    return progress
