"""One rig per runtime: how the contract suite makes runtimes, starts programs in them and lets time pass."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from controller.runtime import docker_container
from controller.runtime.base import ExecutorKey, Launch, Observed, Runtime
from controller.runtime.cgroup import CgroupTree
from controller.runtime.docker_engine import DockerRuntime
from controller.runtime.engine_client import connect
from controller.runtime.process import ProcessRuntime
from stage_model.errors import RuntimeFailed
from tests.fakes.runtime import FakeHost, FakeRuntime

KEY = ExecutorKey("app-1", "1")

BUSY = "while :; do :; done"
IDLE = "while :; do sleep 1; done"
EXITS_WITH_3 = "exit 3"
STUBBORN = "trap '' TERM; echo deaf; while :; do sleep 0.05; done"
"""Says so once it no longer hears SIGTERM."""
FORKING = "sleep 1000 & sleep 1000 & wait"
TALKING = 'echo "to stdout $1"; echo to stderr >&2; while :; do sleep 1; done'

HOARDING = "a=$(head -c 12000000 /dev/zero | tr '\\0' a); b=$a$a; while :; do sleep 1; done"
"""A shell with 36 MB of text."""

DEADLINE_S = 120.0
"""Until what must come counts as missing; a busy machine may need long."""
MEMORY_BYTES = 64 * 1024 * 1024
HOARD_BYTES = 24 * 1024 * 1024
"""Less than `HOARDING` holds."""

T = TypeVar("T")


class Rig(ABC):
    """A machine with one kind of runtime. Everything started through it is gone after `close`."""

    runs_programs = True
    knows_exit_of_adopted = True
    limits_memory = True

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cluster = f"test-{uuid.uuid4().hex[:8]}"
        self._open: list[Runtime] = []
        self._throttled = 0

    @abstractmethod
    def make(self, worker: str) -> Runtime:
        """A new runtime."""

    def runtime(self, worker: str = "w1") -> Runtime:
        made = self.make(worker)
        self._open.append(made)
        return made

    def restart(self, runtime: Runtime) -> Runtime:
        """The agent of `runtime` goes, another comes."""
        runtime.close()
        self._open.remove(runtime)
        return self.runtime()

    def launch(
        self,
        program: str,
        *,
        key: ExecutorKey = KEY,
        cores: float = 0.5,
        environment: Mapping[str, str] | None = None,
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

    def start(self, runtime: Runtime, program: str, *, cores: float = 0.5) -> ExecutorKey:
        launch = self.launch(program, cores=cores)
        runtime.start(launch)
        self.behave(launch.key, program)
        return launch.key

    def behave(self, key: ExecutorKey, program: str) -> None:  # noqa: B027 - programs behave by themselves
        """For rigs that run no programs: act as `program` would."""

    def now(self) -> float:
        return time.monotonic()

    def pass_time(self, seconds: float) -> None:
        time.sleep(seconds)

    def until(self, found: Callable[[], T | None]) -> T:
        """The first truthy answer of `found`; fails after a deadline."""
        end = self.now() + DEADLINE_S
        while self.now() < end:
            answer = found()
            if answer:
                return answer
            self.pass_time(0.02)
        raise AssertionError(f"not within {DEADLINE_S} s")

    def ended(self, runtime: Runtime, key: ExecutorKey) -> Observed:
        """Waits for the end of an executor."""
        return self.until(lambda: None if runtime.observe()[key].running else runtime.observe()[key])

    def said(self, key: ExecutorKey) -> str:
        """What its program has written to stdout so far."""
        file = self.directory / "logs" / key.executor_id / "stdout"
        return file.read_text() if file.exists() else ""

    def held_back(self, runtime: Runtime, key: ExecutorKey) -> bool:
        """Whether its quota keeps a program from running: since the last look, or right now."""
        seen = runtime.observe()[key]
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


def _removed(runtime: Runtime, key: ExecutorKey) -> bool:
    runtime.observe()
    try:
        runtime.remove(key)
    except RuntimeFailed:
        return False
    return True


class FakeRig(Rig):
    runs_programs = False

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._now = 1000.0
        self.host = FakeHost(self.now)

    def make(self, worker: str) -> Runtime:
        return FakeRuntime(self.host, self.cluster, worker)

    def behave(self, key: ExecutorKey, program: str) -> None:
        self.host.set_demand(key, 1.0 if program == BUSY else 0.0)
        if program == EXITS_WITH_3:
            self.host.exit(key, 3)
        if program == STUBBORN:
            self.host.ignore_sigterm(key)

    def held_back(self, runtime: Runtime, key: ExecutorKey) -> bool:
        """In virtual time its speed is exact."""
        before_s, seconds = runtime.observe()[key].cpu_s, 1.0
        self.pass_time(seconds)
        cores, seen = (runtime.observe()[key].cpu_s - before_s) / seconds, runtime.observe()[key]
        assert cores == pytest.approx(min(1.0, seen.quota_cores or 0.0))
        return cores < 0.99

    def now(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        self._now += seconds


class ProcessRig(Rig):
    knows_exit_of_adopted = False
    limits_memory = False
    use_cgroups = False

    def make(self, worker: str) -> Runtime:
        return ProcessRuntime(self.cluster, worker, self.directory / "state", use_cgroups=self.use_cgroups)

    def held_back(self, runtime: Runtime, key: ExecutorKey) -> bool:
        if self.use_cgroups:
            return super().held_back(runtime, key)
        return psutil.Process(runtime.observe()[key].pid).status() == psutil.STATUS_STOPPED


class CgroupProcessRig(ProcessRig):
    use_cgroups = True
    limits_memory = True


class DockerRig(Rig):
    base_url: str | None = None
    """None: the engine's own."""

    def make(self, worker: str) -> DockerRuntime:
        return DockerRuntime(self.cluster, worker, records=self.records(worker), base_url=self.base_url)

    def records(self, worker: str = "w1") -> Path:
        return self.directory / "records" / worker

    def docker(self, worker: str = "w1") -> DockerRuntime:
        """As `runtime`, with what only this one has."""
        made = self.make(worker)
        self._open.append(made)
        return made

    def close(self) -> None:
        for runtime in self._open:
            runtime.close()
        with contextlib.closing(connect(None)) as client:
            docker_container.clear(client, {docker_container.CLUSTER: self.cluster})


RIGS: Mapping[str, Callable[[Path], Rig]] = {
    "fake": FakeRig,
    "process-signals": ProcessRig,
    "process-cgroup": CgroupProcessRig,
    "docker": DockerRig,
}
"""By runtime, and after a hyphen how it paces."""
