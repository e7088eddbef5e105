"""The runtime `adopt`: it paces executors that other services have started, and neither starts nor ends an executor.

Spark standalone, YARN or Kubernetes starts an executor; from then on, this runtime writes its CPU quota. Where the executor
has a control group of its own (YARN, a pod), only that group's quota is written: groups below it would keep its owner from
removing it. Elsewhere it gets a child group only for CPU below its owner's group, which goes with it, so whatever holds its
owner holds it, too. Where neither is possible it is paced by signals if the operator allows that, else refused with the
reason. A record for each executor lets the next agent go on. Not here: which process it is (`claimed_process`), files of
groups (`cgroup`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from controller.machine import proc, process_tree
from controller.machine.process import Process
from controller.runtime import ending, executor_record, launching
from controller.runtime.base import Adopter, Adoption, ExecutorKey, Observed
from controller.runtime.cgroup.group import ROUNDS, Group, OpenFiles, quota_us, with_usage
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.claimed_process import find_claimed
from controller.runtime.executor_record import AdoptedRecord
from controller.runtime.pacer import Pacer
from controller.runtime.table import Owner
from stage_model.errors import RuntimeFailed, RuntimeRefused


@dataclass(slots=True)
class _Known:
    path: Path
    record: AdoptedRecord
    last: Observed
    written: float | None = None
    """The quota that was written last, to notice another writer's."""
    files: OpenFiles = field(default_factory=OpenFiles)


class AdoptRuntime(Adopter):
    """Runtime for executors that other services start. `state_dir` holds the records. `signals`: pacing by SIGSTOP and
    SIGCONT is allowed where no group can be used."""

    def __init__(
        self,
        cluster_id: str,
        worker_id: str,
        state_dir: Path,
        *,
        signals: bool = False,
        cgroups: CgroupTree | None = None,
    ) -> None:
        self._cluster_id, self._worker_id, self._state_dir, self._signals = cluster_id, worker_id, state_dir, signals
        self._cgroups = cgroups or CgroupTree()
        self._pacer = Pacer(process_tree.descendants)
        self._known: dict[ExecutorKey, _Known] = {}
        for path, record in executor_record.read_all(state_dir, AdoptedRecord, cluster_id, worker_id):
            self._take(path, record)

    def _take(self, path: Path, record: AdoptedRecord) -> None:
        self._known[record.key] = _Known(path, record, Observed(record.key, True, None, 0.0, 0, pid=record.process.pid))
        if record.group is None and not record.watched and record.process.is_alive():
            self._pacer.set_cores(record.key, record.process, record.quota_cores)

    # ---------------------------------------------------------------- taking over and letting go

    def adopt(self, adoption: Adoption) -> None:
        """Take an executor over; do nothing if it is known. Raise `RuntimeRefused` for an executor that is not what it says
        or cannot be paced here, `RuntimeFailed` when a later try may work."""
        launching.checked_cores(adoption.cores)
        key = adoption.key
        if key in self._known and self._look(self._known[key]).running:
            return
        process = find_claimed(adoption.claim, adoption.serves)
        for other in self._known.values():
            if other.record.process == process and other.record.key != key and self._look(other).running:
                raise RuntimeRefused(f"its process is paced as executor {other.record.key.text} already")
        outer = self._cgroups.group_of(process.pid)
        outer = None if outer is None else self._cgroups.undivided(outer)
        record = AdoptedRecord(
            cluster_id=self._cluster_id,
            worker_id=self._worker_id,
            application_id=key.application_id,
            executor_id=key.executor_id,
            process=process,
            quota_cores=adoption.cores,
            before_cpu_s=process_tree.usage(process_tree.descendants(process))[0],
            watched=adoption.watched,
        )
        path = self._state_dir / f"{launching.unique_name(self._cluster_id, self._worker_id, key)}.json"
        try:
            if adoption.watched:
                pass  # its processes are counted where they are
            elif outer is not None and self._is_its_own(outer.cpu, process):
                record = self._own(record, outer)
            elif outer is not None and self._cgroups.delegated(outer):
                record = self._child(record, outer, path, adoption.slots)
            elif not self._signals:
                raise RuntimeRefused(self._why_not(outer))
            elif not process_tree.may_signal(process):
                raise RuntimeRefused("this agent may not stop and continue it; run the agent as its user, or as root")
            executor_record.write(path, record)
            self._take(path, record)
            self.set_quota(key, adoption.cores)
        except OSError as error:
            raise RuntimeFailed(f"executor {key.text} was not taken over ({error}); tried again later") from error

    def _child(self, record: AdoptedRecord, outer: Group, path: Path, slots: int) -> AdoptedRecord:
        """Make a child group with the executor's processes in it; the record is written first, so that the group is never
        forgotten."""
        group = self._cgroups.create_below(outer, path.stem, slots)
        record = msgspec.structs.replace(record, group=group, outer=outer)
        executor_record.write(path, record)
        for _ in range(ROUNDS):
            inside = set(self._cgroups.pids(group))
            missing = [pid for pid in process_tree.descendants(record.process) if pid not in inside]
            if not missing:
                break
            for pid in missing:
                self._cgroups.add(group, pid)
        return record

    def _own(self, record: AdoptedRecord, group: Group) -> AdoptedRecord:
        """Return the record of an executor that has a group of its own for its quota. YARN makes no group for memory, and
        none to count CPU by where the kernel counts in a separate hierarchy."""
        memory = group.memory if group.memory and self._is_its_own(group.memory, record.process) else None
        counted = self._is_its_own(group.cpuacct, record.process)
        return msgspec.structs.replace(
            record,
            group=Group(group.cpu, group.cpuacct, memory),
            own=True,
            counted=counted,
            before_cores=self._owners_quota(record.process, group),
            before_cpu_s=0.0,
        )

    def _owners_quota(self, process: Process, group: Group) -> float | None:
        """Return the quota that the executor's owner gave it. An agent of another cluster may have paced the executor and
        left its own quota there, which is never more: then that agent's record has the owner's quota."""
        found = self._cgroups.read_quota(group)
        recorded = [
            math.inf if record.before_cores is None else record.before_cores  # JSON has no infinity
            for _, record in executor_record.read_everybodys(self._state_dir, AdoptedRecord)
            if record.own and record.process == process and record.group is not None and record.group.cpu == group.cpu
        ]
        return None if found is None else max([found, *recorded])

    def _is_its_own(self, directory: Path, process: Process) -> bool:
        """Return True if the executor's group holds only what the executor has started, and what has started the executor and
        is not Java (an init of a container, the shell of YARN; a standalone Worker is Java and may start others)."""
        # the group first: processes that begin later are not in it, and processes that have ended by then belong to no other
        # executor
        inside = self._cgroups.pids_in(directory)
        its = set(process_tree.descendants(process))
        others = [pid for pid in inside if pid not in its and proc.start_ticks(pid, zombie=False) is not None]
        above = set(process_tree.ancestors(process))
        return (
            process.pid in inside
            and not self._cgroups.is_root(directory)
            and all(pid in above and not _is_java(pid) for pid in others)
        )

    def _why_not(self, outer: Group | None) -> str:
        if outer is None:
            return (
                "its control group cannot be seen here, and pacing by signals is not allowed; start the agent with --signals"
            )
        if self._cgroups.version == 2:
            return (
                f"its control group {outer.cpu} may not be divided, and pacing by signals is not allowed; set "
                "Delegate=yes in the unit of the service that starts executors (from a shell, start that service by "
                "systemd-run --scope -p Delegate=yes), or start the agent with --signals"
            )
        return (
            f"this agent may not write to its control group {outer.cpu}, and pacing by signals is not allowed; run the "
            "agent as root, or start it with --signals"
        )

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:  # noqa: ARG002 - nothing is ended
        """Let the executor go: it gets back its former quota and goes on, and here it counts as ended."""
        known = self._known.get(key)
        if known is not None and self._look(known).running:
            self._let_go(known, "it is no longer paced")

    def _let_go(self, known: _Known, reason: str) -> None:
        """Let the executor go. Raise `RuntimeFailed` when its group stays; an ended executor's group is tried again by
        `remove`."""
        record, alive = known.record, known.record.process.is_alive()
        self._pacer.forget(record.key)
        try:
            if record.own and alive and record.group is not None:
                before = record.before_cores or math.inf  # JSON has no infinity
                self._cgroups.write_quota(
                    record.group, before if math.isinf(before) else self._most_cores(record, record.group)
                )
            else:
                self._gone(record)
        except OSError as error:
            raise RuntimeFailed(f"executor {record.key.text} was not let go ({error}); tried again later") from error
        known.last = replace(
            known.last, running=False, quota_cores=None, memory_bytes=0, memory_limit_bytes=None, pid=None, reason=reason
        )

    def _gone(self, record: AdoptedRecord) -> bool:
        """Return True if no group was made for the executor, or if that group is gone."""
        return record.group is None or record.outer is None or self._cgroups.dissolve(record.group, record.outer)

    def remove(self, key: ExecutorKey) -> None:
        known = self._known.get(key)
        if known is None:
            return
        if self._look(known).running:
            raise launching.still_runs(key)
        record = known.record
        if not self._gone(record):
            raise RuntimeFailed(f"the control group of executor {key.text} is not empty yet; try later")
        known.path.unlink(missing_ok=True)
        self._known.pop(key, None)

    # ---------------------------------------------------------------- pacing and observing

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        launching.checked_cores(cores)
        known = self._known.get(key)
        if known is None or not self._look(known).running:
            return False
        record = known.record
        if record.watched:
            return True
        if record.group is None:
            self._pacer.set_cores(key, record.process, cores)
            known.record = executor_record.with_quota(known.path, record, cores)
            return True
        cores = min(cores, self._most_cores(record, record.group))
        try:
            written = self._cgroups.write_quota(record.group, cores)
        except OSError as error:
            raise RuntimeFailed(f"the quota of executor {key.text} was not written ({error}); try later") from error
        known.written = cores if written else known.written
        return written

    def _most_cores(self, record: AdoptedRecord, group: Group) -> float:
        """Return the most cores that may be written: what the executor's owner gave it, and no more than the groups above
        have."""
        given = record.before_cores if record.own and record.before_cores is not None else math.inf
        return min(given, self._cgroups.quota_above(group))

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:  # noqa: ARG002 - memory is its owner's affair
        launching.checked_memory(memory_bytes)
        return False

    def observe(self) -> dict[ExecutorKey, Observed]:
        return {key: self._look(known) for key, known in list(self._known.items())}

    def _look(self, known: _Known) -> Observed:
        if not known.last.running:
            return known.last
        if not known.record.process.is_alive():
            self._let_go(known, "it ended")
            return known.last
        record, last = known.record, known.last
        cpu_s, resident = last.cpu_s, 0
        if record.group is None or not record.counted:
            own_s, resident = process_tree.usage(process_tree.descendants(record.process))
            cpu_s = max(cpu_s, own_s)
        if record.group is None:
            known.last = replace(
                last,
                quota_cores=self._pacer.cores(record.key),
                cpu_s=cpu_s,
                memory_bytes=resident,
                throttled_s=None if record.watched else self._pacer.stopped_s(record.key),
            )
            return known.last
        used = self._cgroups.read(record.group, known.files.text)
        if used is None:  # its owner has removed it: the process has ended, or is about to
            return last
        known.last = replace(
            with_usage(last, used),
            cpu_s=record.before_cpu_s + used.cpu_s if record.counted else cpu_s,
            memory_bytes=used.memory_bytes if used.memory_bytes is not None else process_tree.resident(record.process),
            remark=self._other_writer(known, used.quota_cores),
            most_cores=self._most_cores(record, record.group),
        )
        return known.last

    def _other_writer(self, known: _Known, quota: float | None) -> str:
        """Return a sentence if the quota is not what was written last, else "". The quota is written again with the next
        change."""
        written = known.written
        if written is None or (quota is not None and quota_us(quota) == quota_us(written)):
            return ""
        there = "no quota is there" if quota is None else f"{quota:.2f} are there"
        return (
            f"another program writes its quota: {written:.2f} cores were written and {there}; run one agent on a machine, "
            "and let no other program resize its executors"
        )

    def alive(self) -> bool:
        return self._pacer.alive

    def close(self) -> None:
        self._pacer.close()


def check(namespace: str | None) -> str:  # noqa: ARG001 - Kubernetes' only
    """Return nothing: `adopt` works everywhere. Each executor shows for itself whether `adopt` can pace it."""
    return ""


def make(owner: Owner) -> AdoptRuntime:
    return AdoptRuntime(owner.cluster_id, owner.worker_id, records_of(owner.folder), signals=owner.signals)


def records_of(folder: Path) -> Path:
    """Return the folder of the records of executors, within a worker's folder."""
    return folder / "adopted"


def end_all(owner: Owner) -> int:
    return ending.end_recorded(make(owner))


def _is_java(pid: int) -> bool:
    """Return True if the process is Java, or cannot be looked at: it might then start other executors."""
    words = proc.command_line(pid)
    return not words or Path(words[0]).name == "java"
