"""The process runtime: executors as plain processes, for machines without a Docker engine.

Each executor is a session of its own, paced and counted by a control group where those are writable, else by `pacer`.
It outlives the agent; a record per executor lets the next agent adopt it (its exit code is then unknown). Weaker than
docker: no file system of its own, so nothing is masked; no memory limit without control groups. The whole tree ends
with its first process, as in a container; without control groups, only the processes that stayed in its session end. Linux
only. One thread may start and stop while another observes, paces and removes. Not here: record files (`executor_record`),
signals (`pacer`, `process_tree`).
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from controller.machine import process_tree
from controller.machine.class_sharing import java_identity
from controller.machine.process import find_process
from controller.runtime import ending, executor_record, launching
from controller.runtime.base import ExecutorKey, JavaProgram, Launch, Observed, Program, Starter, TrafficPlace
from controller.runtime.cgroup.group import Group, OpenFiles, with_usage
from controller.runtime.cgroup.tree import PARENT, CgroupTree
from controller.runtime.pacer import Pacer
from controller.runtime.table import Owner
from stage_model.errors import RuntimeFailed, RuntimeRefused

GATE_SCRIPT = f"read -r _ || exit 125\n{launching.LOG_SCRIPT}"
"""Script of the child, which waits for a line; that comes when the child's record is on disk and its quota is set: no
executor runs unrecorded or unpaced, and if the agent dies in between, the child reads end-of-file and ends."""
PATH = "/usr/local/bin:/usr/bin:/bin"


@dataclass(slots=True)
class _Known:
    path: Path
    record: executor_record.Record
    last: Observed
    child: subprocess.Popen[bytes] | None = None
    kill_at: float = float("inf")
    files: OpenFiles = field(default_factory=OpenFiles)


class ProcessRuntime(Starter):
    """Runtime for plain processes. `state_dir` holds the records."""

    def __init__(self, cluster_id: str, worker_id: str, state_dir: Path, *, cgroups: CgroupTree | None = None) -> None:
        self._cluster_id = cluster_id
        self._worker_id = worker_id
        self._state_dir = state_dir
        self._cgroups = cgroups or CgroupTree()
        self._pacer = Pacer()
        self._known: dict[ExecutorKey, _Known] = {}
        for path, record in executor_record.read_all(state_dir, executor_record.Record, cluster_id, worker_id):
            self._adopt(path, record)

    def _adopt(self, path: Path, record: executor_record.Record) -> None:
        self._known[record.key] = _Known(path, record, _starting(record))
        if record.group is None and record.process.is_alive():
            self._pacer.set_cores(record.key, record.process, record.quota_cores)

    # ---------------------------------------------------------------- starting and ending

    def start(self, launch: Launch) -> None:
        launching.checked_cores(launch.cores)
        known = self._known.get(launch.key)
        if known is not None:
            if self._look(known).running:
                return
            self.remove(launch.key)
        self._refuse(launch)
        launching.ensure_log_dir(launch)
        self._refuse_closed(launch)
        name = launching.unique_name(self._cluster_id, self._worker_id, launch.key)
        group = self._cgroups.create(f"{PARENT}/{name}")
        child: subprocess.Popen[bytes] | None = None
        try:
            child = _spawn(launch)
            known = self._register(launch, child, group, self._state_dir / f"{name}.json")
            assert child.stdin is not None
            child.stdin.write(b"\n")
            child.stdin.close()
        except OSError as error:
            if child is not None:
                child.kill()
                child.communicate()  # a record, if it was written, names a dead process: an ended executor
            self._pacer.forget(launch.key)
            if group is not None:
                self._cgroups.remove(group)
            executor = launch.key.text
            if isinstance(error, PermissionError) and child is None:
                raise RuntimeRefused(f"executor {executor} cannot start ({error}); is its directory open to it?") from error
            raise RuntimeFailed(f"executor {executor} was not started ({error}); processes or disk may be short") from error
        self._known[launch.key] = known

    def _refuse(self, launch: Launch) -> None:
        """Raise `RuntimeRefused` for a fault that no later try can mend."""
        reason: str | None = None
        program = Path(launch.argv[0])
        if program.is_absolute() and not (program.is_file() and os.access(program, os.X_OK)):
            reason = f"program {program} does not exist or is not executable; an executable file is needed"
        if not launch.working_dir.is_dir():
            reason = f"working directory {launch.working_dir} does not exist; an existing directory is needed"
        for bind in launch.binds:
            if not bind.path.exists():
                reason = f"path {bind.path} to be mounted does not exist; existing paths are accepted"
        if os.geteuid() not in (0, launch.uid):
            mine = os.geteuid()
            reason = f"it belongs to uid {launch.uid}, the agent to uid {mine}; run the agent as {launch.uid} or root"
        if reason is not None:
            raise RuntimeRefused(f"executor {launch.key.text} cannot start: {reason}")

    def _refuse_closed(self, launch: Launch) -> None:
        """Raise `RuntimeRefused` where another user may not enter the log directory: the executor could say nothing."""
        if not _identity(launch.uid, launch.gid):
            return
        try:
            self.run_program(Program(("/bin/sh", "-c", 'cd "$0"', str(launch.log_dir)), launch.uid, launch.gid))
        except RuntimeRefused as error:
            raise RuntimeRefused(
                f"executor {launch.key.text} cannot start: user {launch.uid} may not enter folder {launch.log_dir} or one "
                "above it; use runtime docker, or a cluster that this user has started"
            ) from error

    def _register(self, launch: Launch, child: subprocess.Popen[bytes], group: Group | None, path: Path) -> _Known:
        """Give the waiting child its quota and its record."""
        identity = find_process(child.pid)
        if identity is None:
            raise OSError("its process ended at once")
        if group is not None:
            self._cgroups.write_quota(group, launch.cores)
            self._cgroups.write_memory_limit(group, launch.memory_bytes)
            self._cgroups.add(group, child.pid)
        record = executor_record.Record(
            cluster_id=self._cluster_id,
            worker_id=self._worker_id,
            application_id=launch.key.application_id,
            executor_id=launch.key.executor_id,
            process=identity,
            quota_cores=launch.cores,
            group=group,
        )
        executor_record.write(path, record)
        if group is None:
            self._pacer.set_cores(launch.key, identity, launch.cores)
        return _Known(path, record, _starting(record), child)

    def stop(self, key: ExecutorKey, grace_s: float = 0.0) -> None:
        """Stop as the protocol says; return at once: SIGKILL after the grace is sent by `observe`."""
        known = self._known.get(key)
        if known is None or not self._look(known).running:
            return
        known.kill_at = min(known.kill_at, time.monotonic() + grace_s)
        if grace_s <= 0:
            self._kill(known)
        elif known.record.process.is_alive():
            process_tree.signal_all((known.record.process.pid,), signal.SIGTERM)

    def _kill(self, known: _Known) -> None:
        if known.record.group is not None:
            self._cgroups.kill_all(known.record.group)
        process_tree.kill(known.record.process)

    def remove(self, key: ExecutorKey) -> None:
        known = self._known.get(key)
        if known is None:
            return
        if self._look(known).running:
            raise launching.still_runs(key)
        if known.record.group is not None and not self._cgroups.remove(known.record.group):
            raise RuntimeFailed(f"executor {key.text} ended, but some of its processes are still going; try later")
        known.path.unlink(missing_ok=True)
        self._known.pop(key, None)

    def images(self) -> tuple[str, ...]:
        return ()

    def alive(self) -> bool:
        return self._pacer.alive

    def close(self) -> None:
        self._pacer.close()
        for known in self._known.values():
            if known.child is not None:
                known.child.returncode = 0  # else Popen warns that it still runs, which is what we want

    # ---------------------------------------------------------------- pacing and observing

    def set_quota(self, key: ExecutorKey, cores: float) -> bool:
        launching.checked_cores(cores)
        known = self._known.get(key)
        if known is None or not self._look(known).running:
            return False
        if known.record.group is not None:
            return self._cgroups.write_quota(known.record.group, cores)
        self._pacer.set_cores(key, known.record.process, cores)
        known.record = executor_record.with_quota(known.path, known.record, cores)
        return True

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:
        """Set the limit as the protocol says; without a control group there is no limit, and `Observed` says so."""
        launching.checked_memory(memory_bytes)
        known = self._known.get(key)
        if known is None or not self._look(known).running or known.record.group is None:
            return False
        if known.last.memory_bytes > memory_bytes:
            raise launching.in_use(key, known.last.memory_bytes, memory_bytes)
        try:
            return self._cgroups.write_memory_limit(known.record.group, memory_bytes)
        except OSError as error:  # v1: EBUSY while more is in use than can be dropped
            raise RuntimeFailed(f"the memory limit of executor {key.text} was not set ({error}); try later") from error

    def place(self, key: ExecutorKey) -> TrafficPlace | None:
        known = self._known.get(key)
        if known is None or known.record.group is None or not known.last.running:
            return None
        return TrafficPlace(known.record.process.pid, known.record.group.io)

    def observe(self) -> dict[ExecutorKey, Observed]:
        seen: dict[ExecutorKey, Observed] = {}
        for key, known in list(self._known.items()):
            seen[key] = self._look(known)
            if seen[key].running and time.monotonic() >= known.kill_at:
                self._kill(known)
        return seen

    def _look(self, known: _Known) -> Observed:
        if not known.last.running:
            return known.last
        alive = known.record.process.is_alive()
        known.last = self._measured(known)
        if known.child is not None:
            alive = known.child.poll() is None
        if not alive:
            self._end(known)
        return known.last

    def _measured(self, known: _Known) -> Observed:
        """Return the state with what moves, counters never backwards."""
        if known.record.group is not None:
            used = self._cgroups.read(known.record.group, known.files.text)
            return known.last if used is None else with_usage(known.last, used)
        cpu_s, resident = process_tree.usage(process_tree.members(known.record.process))
        return replace(
            known.last,
            quota_cores=self._pacer.cores(known.record.key),
            cpu_s=max(cpu_s, known.last.cpu_s),
            memory_bytes=resident,
            throttled_s=self._pacer.stopped_s(known.record.key),
        )

    def _end(self, known: _Known) -> None:
        """End the rest of the tree: its first process has ended."""
        if known.record.process.is_this_boot():
            self._kill(known)
        self._pacer.forget(known.record.key)
        if known.record.group is not None:
            self._cgroups.remove(known.record.group)  # may need a moment; `remove` tries again
        code = known.child.returncode if known.child is not None else None
        known.last = replace(
            known.last,
            running=False,
            quota_cores=None,
            memory_bytes=0,
            memory_limit_bytes=None,
            pid=None,
            exit_code=128 - code if code is not None and code < 0 else code,  # as shells and docker count signals
            reason="" if code is not None else "it ended while no agent watched, or after one restarted",
        )

    # ---------------------------------------------------------------- programs

    def java(self, java_home: str, image: str | None) -> JavaProgram:  # noqa: ARG002 - plain processes have no image
        """Return the driver's Java; its files show when it is replaced."""
        return JavaProgram(str(Path(java_home, "bin/java")), java_identity(Path(java_home)))

    def run_program(self, program: Program) -> str:
        """Run the program as the protocol says: here, as it is, without limits."""
        try:
            done = subprocess.run(
                program.argv,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=program.timeout_s,
                cwd="/",
                env={"PATH": PATH},
                **_identity(program.uid, program.gid),
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise launching.does_not_run(program, "on this worker", str(error)) from error
        if done.returncode != 0:
            said = (done.stdout + done.stderr).decode(errors="replace")
            raise launching.does_not_run(program, "on this worker", f"exit code {done.returncode}: {said}")
        return str(done.stdout.decode(errors="replace"))[-launching.OUTPUT_LIMIT :]


def check(namespace: str | None) -> str:  # noqa: ARG001 - Kubernetes' only
    """Return nothing: `process` works everywhere."""
    return ""


def make(owner: Owner) -> ProcessRuntime:
    return ProcessRuntime(owner.cluster_id, owner.worker_id, process_records(owner.folder))


def process_records(folder: Path) -> Path:
    """Return the folder of the records of executors, within a worker's folder."""
    return folder / "processes"


def end_all(owner: Owner) -> int:
    return ending.end_recorded(make(owner))


def _spawn(launch: Launch) -> subprocess.Popen[bytes]:
    """Start the gate: a shell that starts the executor when a line arrives. Raise OSError."""
    environment: Mapping[str, str] = {"PATH": PATH, **_home(launch.uid), **launch.environment}
    return subprocess.Popen(
        ["/bin/sh", "-c", launching.with_umask(GATE_SCRIPT, launch), str(launch.log_dir), *launch.argv],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=launch.working_dir,
        env=environment,
        start_new_session=True,
        **_identity(launch.uid, launch.gid, launch.groups),
    )


def _home(uid: int) -> dict[str, str]:
    """Return the variable HOME of a user; empty for a user that this machine does not know."""
    try:
        return {"HOME": pwd.getpwuid(uid).pw_dir}
    except KeyError:
        return {}


def _identity(uid: int, gid: int, groups: Sequence[int] = ()) -> dict[str, Any]:
    """Return Popen's arguments to become the submitter; empty when this process runs as that user already."""
    if os.geteuid() != 0 or uid == os.geteuid():
        return {}
    return {"user": uid, "group": gid, "extra_groups": groups}


def _starting(record: executor_record.Record) -> Observed:
    return Observed(record.key, True, record.quota_cores, 0.0, 0, pid=record.process.pid)
