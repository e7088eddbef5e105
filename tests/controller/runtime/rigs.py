"""Rigs by which the contract suite makes runtimes, starts programs in them and lets time pass; that of docker is in
`docker/rig.py`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import psutil
import pytest
from msgspec import structs

from controller.machine import proc
from controller.machine.process import find_process
from controller.runtime.adopt.runtime import AdoptRuntime
from controller.runtime.base import Adoption, ExecutorKey, Launch, Observed, Runtime, Starter
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.claimed_process import BACKENDS, ProcessClaim, Serves
from controller.runtime.kubernetes.api import KubernetesApi
from controller.runtime.kubernetes.pod_resize import PacedPod, differs
from controller.runtime.kubernetes.runtime import KubernetesRuntime
from controller.runtime.process.runtime import ProcessRuntime
from stage_model.errors import RuntimeFailed
from tests.controller.runtime.kubernetes.kube_worlds import CLAIM, adopted
from tests.fakes.kube_api import kube_server
from tests.fakes.kube_pods import executor_pod
from tests.fakes.kube_state import KubeState
from tests.fakes.runtime import FakeHost, FakeRuntime

KEY = ExecutorKey("app-1", "1")

BUSY = "while :; do :; done"
IDLE = "while :; do sleep 1; done"
EXITS_WITH_3 = "exit 3"
STUBBORN = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
"""A program that says so once it ignores SIGTERM."""
FORKING = "sleep 1000 & sleep 1000 & wait"
TALKING = 'echo "to stdout $1"; echo to stderr >&2; while :; do sleep 1; done'

HOARDING = "a=$(head -c 12000000 /dev/zero | tr '\\0' a); b=$a$a; while :; do sleep 1; done"
"""A shell with 36 MB of text."""

DEADLINE_S = 120.0
"""Time until an expected event counts as missing; a busy machine may need long."""
MEMORY_BYTES = 64 * 1024 * 1024
HOARD_BYTES = 30 * 1024 * 1024
"""Less than `HOARDING` holds."""

T = TypeVar("T")
R = TypeVar("R", bound=Runtime)
S = TypeVar("S", bound=Starter)


class Rig(ABC, Generic[R]):
    """A machine with one kind of runtime. Everything started through it is gone after `close`."""

    runs_programs = True
    starts = True
    """True if the rig's runtime starts executors and ends them; else it adopts them and lets them go."""
    knows_exit_of_adopted = True
    limits_memory = True
    sees_processes = True
    counts_throttled = True
    uses_groups = True
    """True if control groups pace; else signals do."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cluster = f"test-{uuid.uuid4().hex[:8]}"
        self._open: list[R] = []
        self._throttled = 0

    @abstractmethod
    def make(self, worker: str) -> R:
        """Make a new runtime."""

    def runtime(self, worker: str = "w1") -> R:
        made = self.make(worker)
        self._open.append(made)
        return made

    def restart(self, runtime: R) -> R:
        """End the agent of `runtime` and let another come."""
        runtime.close()
        self._open.remove(runtime)
        return self.runtime()

    def launch(
        self, program: str, *, key: ExecutorKey = KEY, cores: float = 0.5, environment: Mapping[str, str] | None = None
    ) -> Launch:
        return Launch(
            key=key,
            argv=["/bin/sh", "-c", program, "sh", "with spaces; $HOME"],
            environment=dict(environment or {}),
            binds=[],
            working_dir=self.directory,
            log_dir=self.directory / "logs" / key.executor_id,
            memory_bytes=MEMORY_BYTES,
            cores=cores,
            uid=os.getuid(),
            gid=os.getgid(),
        )

    @abstractmethod
    def start(self, runtime: R, program: str, *, cores: float = 0.5) -> ExecutorKey:
        """Start a program that runs and that `runtime` knows."""

    @abstractmethod
    def again(self, runtime: R) -> None:
        """Repeat the last `start` of `IDLE` on a runtime."""

    def cgroups(self) -> CgroupTree:
        """Return this machine's control groups, or a tree without any."""
        return CgroupTree() if self.uses_groups else CgroupTree(self.directory / "no-groups")

    def now(self) -> float:
        return time.monotonic()

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def until(self, found: Callable[[], T | None]) -> T:
        """Return the first truthy answer of `found`; fail after a deadline."""
        end = self.now() + DEADLINE_S
        while self.now() < end:
            answer = found()
            if answer:
                return answer
            self.pass_time(0.02)
        raise AssertionError(f"not within {DEADLINE_S} s")

    def ended(self, runtime: R, key: ExecutorKey) -> Observed:
        """Wait for the end of an executor."""
        return self.until(lambda: None if runtime.observe()[key].running else runtime.observe()[key])

    def said(self, key: ExecutorKey) -> str:
        """Return all that an executor's program has written to stdout so far."""
        file = self.directory / "logs" / key.executor_id / "stdout"
        return file.read_text() if file.exists() else ""

    def held_back(self, runtime: Runtime, key: ExecutorKey) -> bool:
        """Check that an executor's quota keeps its program from running, since the last look or right now."""
        seen = runtime.observe()[key]
        if not self.uses_groups:
            return psutil.Process(seen.pid).status() == psutil.STATUS_STOPPED
        group = CgroupTree().group_of(seen.pid or 0)
        assert group is not None
        counts = dict(line.split() for line in Path(group.cpu, "cpu.stat").read_text().splitlines())
        before, self._throttled = self._throttled, int(counts["nr_throttled"])
        return self._throttled > before

    def close(self) -> None:
        for runtime in self._open:
            for key in runtime.observe():
                runtime.stop(key)
            for key in list(runtime.observe()):
                self.until(lambda runtime=runtime, key=key: _removed(runtime, key))  # type: ignore[misc]
            runtime.close()


AnyRig = Rig[Any]


def output(rig: AnyRig, runtime: Starter, launch: Launch) -> str:
    """Run a program to its end; return what it has written to stdout."""
    runtime.start(launch)
    rig.ended(runtime, launch.key)
    return (launch.log_dir / "stdout").read_text()


def _removed(runtime: Runtime, key: ExecutorKey) -> bool:
    runtime.observe()
    try:
        runtime.remove(key)
    except RuntimeFailed:
        return False
    return True


class StartingRig(Rig[S]):
    """A rig of a runtime that starts executors itself."""

    def start(self, runtime: S, program: str, *, cores: float = 0.5) -> ExecutorKey:
        launch = self.launch(program, cores=cores)
        runtime.start(launch)
        self.behave(launch.key, program)
        return launch.key

    def again(self, runtime: S) -> None:
        runtime.start(self.launch(IDLE))

    def behave(self, key: ExecutorKey, program: str) -> None:
        """Act as `program` would, in rigs that run no programs."""


class FakeRig(StartingRig[FakeRuntime]):
    runs_programs = False

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._now = 1000.0
        self.host = FakeHost(self.now)

    def make(self, worker: str) -> FakeRuntime:
        return FakeRuntime(self.host, self.cluster, worker)

    def behave(self, key: ExecutorKey, program: str) -> None:
        self.host.set_demand(key, 1.0 if program == BUSY else 0.0)
        if program == EXITS_WITH_3:
            self.host.exit(key, 3)
        if program == STUBBORN:
            self.host.ignore_sigterm(key)

    def held_back(self, runtime: Runtime, key: ExecutorKey) -> bool:
        """Check by the speed, which is exact in virtual time, that the quota holds the program back."""
        before_s, seconds = runtime.observe()[key].cpu_s, 1.0
        self.pass_time(seconds)
        cores, seen = (runtime.observe()[key].cpu_s - before_s) / seconds, runtime.observe()[key]
        assert cores == pytest.approx(min(1.0, seen.quota_cores or 0.0))
        return cores < 0.99

    def now(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        self._now += seconds


class ProcessRig(StartingRig[ProcessRuntime]):
    knows_exit_of_adopted = False
    limits_memory = False
    uses_groups = False

    def make(self, worker: str) -> ProcessRuntime:
        return ProcessRuntime(self.cluster, worker, self.directory / "state", cgroups=self.cgroups())


class CgroupProcessRig(ProcessRig):
    uses_groups = True
    limits_memory = True


def executor_command(program: str, backend: str, serves: Serves) -> list[str]:
    """Return a shell with the command line of an executor."""
    words = ("--driver-url", serves.driver_url, "--executor-id", serves.executor_id, "--app-id", serves.spark_application_id)
    return ["/bin/sh", "-c", program, "sh", backend, *words]


class AdoptRig(Rig[AdoptRuntime]):
    """A rig whose executors are shells that this test starts, with the command lines of Spark's."""

    starts = False
    limits_memory = False
    knows_exit_of_adopted = False
    SERVES = Serves("app-20261122-0001", KEY.executor_id, "spark://CoarseGrainedScheduler@127.0.0.1:4040")
    signals = True
    uses_groups = False

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.processes: list[subprocess.Popen[bytes]] = []

    def make(self, worker: str) -> AdoptRuntime:
        return AdoptRuntime(
            self.cluster, worker, self.directory / "state" / worker, signals=self.signals, cgroups=self.cgroups()
        )

    def spawn(self, program: str) -> ProcessClaim:
        """Spawn a program that waits until it may begin."""
        command = executor_command(f"read -r _\n{program}", BACKENDS[0], self.SERVES)
        child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        self.processes.append(child)
        self.until(lambda: BACKENDS[0] in proc.command_line(child.pid))  # empty for a moment while it begins
        return self.claim(child.pid)

    @staticmethod
    def claim(pid: int) -> ProcessClaim:
        """Describe a process as it would describe itself."""
        found = find_process(pid)
        assert found is not None
        return ProcessClaim(structs.replace(found, pid_namespace=proc.pid_namespace()), os.getuid())

    def start(self, runtime: AdoptRuntime, program: str, *, cores: float = 0.5) -> ExecutorKey:
        self.last = Adoption(KEY, self.spawn(program), self.SERVES, cores)
        runtime.adopt(self.last)
        self.let_begin()
        return KEY

    def let_begin(self) -> None:
        """Let the program begin that was spawned last."""
        stdin = self.processes[-1].stdin
        assert stdin is not None
        stdin.write(b"\n")
        stdin.close()

    def again(self, runtime: AdoptRuntime) -> None:
        runtime.adopt(self.last)

    def ended(self, runtime: AdoptRuntime, key: ExecutorKey) -> Observed:
        self.processes[-1].poll()
        return super().ended(runtime, key)

    def close(self) -> None:
        super().close()
        for child in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.communicate()


class CgroupAdoptRig(AdoptRig):
    signals = False
    uses_groups = True


class KubernetesRig(Rig[KubernetesRuntime]):
    """A rig whose executors are pods of a stand-in for an API server, which run nothing."""

    runs_programs = False
    counts_throttled = False
    starts = False
    limits_memory = False
    knows_exit_of_adopted = False
    sees_processes = False
    SERVES = AdoptRig.SERVES
    NAMESPACE = "jobs"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.state = KubeState()
        self._server = contextlib.ExitStack()
        self.config = self._server.enter_context(kube_server(self.state))
        self._busy = False

    def make(self, worker: str) -> KubernetesRuntime:
        state_dir = self.directory / "state" / worker
        return KubernetesRuntime(self.cluster, worker, state_dir, KubernetesApi(self.config))

    def start(self, runtime: KubernetesRuntime, program: str, *, cores: float = 0.5) -> ExecutorKey:
        name = f"executor-{len(self.state.events)}"
        pod = self.state.create(self.NAMESPACE, executor_pod(name, self.SERVES, limit="600m", request="5m"))
        self.last = Adoption(KEY, CLAIM, self.SERVES, cores, pod["status"]["podIP"], 2)
        self.until(lambda: adopted(runtime, self.last))
        self._busy = program == BUSY
        self.until(lambda: runtime.observe()[KEY].quota_cores == cores)
        if program == EXITS_WITH_3:
            self.state.finish(self.NAMESPACE, name, 3)
        return KEY

    def again(self, runtime: KubernetesRuntime) -> None:
        runtime.adopt(self.last)

    def restart(self, runtime: KubernetesRuntime) -> KubernetesRuntime:
        """Restart the agent once all that was wished for is there."""
        self.until(lambda: all(self._has(one) for one in list(runtime._executors.values())))
        return super().restart(runtime)

    @staticmethod
    def _has(executor: PacedPod) -> bool:
        pod, wanted_m = executor.pod, executor.wanted_m()
        return pod is None or wanted_m is None or not (executor.unsure or differs(pod.limit_m, wanted_m))

    def held_back(self, runtime: Runtime, key: ExecutorKey) -> bool:
        """Check that a busy thread has less than a core."""
        return self._busy and (runtime.observe()[key].quota_cores or 0.0) < 1.0

    def close(self) -> None:
        super().close()
        self._server.close()
