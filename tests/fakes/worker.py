"""A worker in memory: a real `Agent` over the fake runtime, with a clock and a desired state that the test sets.

Starts and stops run when `tick` says so, not on a thread, so nothing waits. Executors write progress as their plugin does.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from controller.agent.core.relief import Machine
from controller.agent.executors.launcher import Launcher
from controller.agent.executors.resizing import NAME, OrderFile
from controller.agent.executors.starting import LaunchingStarter
from controller.agent.executors.watching import Watching
from controller.agent.loop import Agent, Looks
from controller.agent.site import Site
from controller.machine import proc
from controller.runtime.base import ExecutorKey
from controller.submit.bridge_jar import SETTINGS
from controller.wire.worker import Desired, ExecutorReport, ExecutorSpec, WorkerInfo, WorkerSync
from stage_model.plan import ApplicationPlan
from stage_model.progress import SCHEMA, MemoryProgress, Progress, StageProgress
from stage_model.settings import QuotaSettings
from tests.fakes.runtime import FakeHost, FakeRuntime

CLUSTER = "cluster-1"


def spec(application: str = "app", executor: str = "1", slots: int = 2, **changed: object) -> ExecutorSpec:
    plain = ExecutorSpec(
        application_id=application,
        executor_id=executor,
        java_home="/opt/java",
        java_args=("-Dlocal={local}", "Main", "--host", "{host}"),
        environment={"SPARKPACE_CONTROL_DIR": "{control}", "USERS_SECRET": "hush"},
        mounts=(),
        slots=slots,
        memory_mb=512,
        uid=os.getuid(),
        gid=os.getgid(),
    )
    return msgspec.structs.replace(plain, **changed)


def site_in(folder: Path) -> Site:
    """Make the site of a worker whose files all lie in `folder`."""
    return Site(
        host="127.0.0.1",
        home=folder / "home",
        local_root=folder / "local",
        run_root=folder / "runs",
        allowed_mounts=(folder / "allowed",),
        orders_root=folder / "orders",
        archive_root=folder / "class-archives",
    )


def make_bridge(path: Path, said: str = "") -> None:
    """Make a jar that passes for a bridge; jars with another text differ."""
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(SETTINGS, said)


def spark_in(folder: Path) -> dict[str, str]:
    """Make the files of Spark and of the bridge that executors are shown; return where a registration says they are."""
    jars, bridge = folder / "spark" / "jars", folder / "bridge.jar"
    jars.mkdir(parents=True)
    make_bridge(bridge)
    return {"jars_dir": str(jars), "bridge_jar": str(bridge), "working_dir": str(folder)}


class FakeWorker:
    """A worker whose `host` outlives `agent`: `restart` begins another life of the agent on the same machine and
    directory."""

    def __init__(self, folder: Path, cores: float = 2.0, period_s: float = 1.0, worker_id: str = "w1") -> None:
        self.folder, self.cores, self.period_s, self.worker_id = folder, cores, period_s, worker_id
        self.now_s = 1000.0
        self.host = FakeHost(lambda: self.now_s)
        self.lives = 0
        self.over_limit: dict[str, str] = {}
        """Applications that keep too much on the disk, with the reason; reported once."""
        self.room = Machine()
        """The room that is left on the machine."""
        self.sequence = 0
        self.generation = 1
        self.restart()

    def restart(self) -> None:
        self.lives += 1
        self.runtime = FakeRuntime(self.host, CLUSTER, self.worker_id)
        self.site = site_in(self.folder)
        self.launcher = Launcher(
            Watching(self.runtime, self.folder / "records"),
            LaunchingStarter(self.runtime, self.site),
            self.site,
            self.folder / "records",
            clock=lambda: self.now_s,
        )
        worker = WorkerInfo(
            worker_id=self.worker_id,
            host="127.0.0.1",
            cores=self.cores,
            memory_mb=4096,
            runtime="fake",
            pid=os.getpid(),
            boot_id=proc.boot_id(),
        )
        self.agent = Agent(
            worker,
            self.launcher,
            QuotaSettings(period_s=self.period_s),
            instance=f"life-{self.lives}",
            looks=Looks(over_limit=self._take_over_limit, room=lambda: self.room),
        )

    def _take_over_limit(self) -> dict[str, str]:
        over, self.over_limit = self.over_limit, {}
        return over

    def want(
        self,
        executors: Sequence[ExecutorSpec] = (),
        applications: Sequence[ApplicationPlan] = (),
        stopped: Sequence[str] = (),
        ended: Sequence[str] = (),
        credentials: Mapping[str, bytes] | None = None,
        budgets_mb: Mapping[str, int] | None = None,
    ) -> None:
        """Set the master's newest word."""
        desired = Desired(
            cluster_id=CLUSTER,
            generation=self.generation,
            version=1,
            executors=tuple(executors),
            applications=tuple(applications),
            stopped=tuple(stopped),
            ended=tuple(ended),
            credentials=dict(credentials or {}),
            budgets_mb=dict(budgets_mb or {}),
        )
        self.agent.receive(desired, self.now_s)

    def tick(self, seconds: float = 1.0, *, work: bool = True) -> WorkerSync:
        """Let time pass, then one period; afterwards the launcher's queue is worked off unless `work` is false."""
        self.now_s += seconds
        report = self.agent.run_once()
        if work:
            self.work()
        return report

    def pass_time(self, seconds: float) -> WorkerSync:
        """Let whole seconds pass, a period each; return the last report."""
        return [self.tick() for _ in range(round(seconds))][-1]

    def work(self) -> None:
        """Do on this thread all that waits for the launcher's threads."""
        for jobs in (self.launcher._starts, self.launcher._stops):
            while not jobs.empty():
                jobs.get()()

    def progress(self, key: ExecutorKey, *stages: StageProgress, memory: MemoryProgress | None = None) -> None:
        """Write progress as the executor's plugin does."""
        self.sequence += 1
        content = Progress(schema=SCHEMA, executor=key.executor_id, sequence=self.sequence, stages=stages, memory=memory)
        self.progress_file(key).write_bytes(msgspec.json.encode(content))

    def order(self, key: ExecutorKey) -> tuple[int, int]:
        """Return the number of the newest order of memory, and its MiB."""
        found = msgspec.json.decode((self.site.orders_dir(key) / NAME).read_bytes(), type=OrderFile)
        return found.number, found.off_heap_bytes >> 20

    def progress_file(self, key: ExecutorKey) -> Path:
        return self.site.control_dir(key) / "progress.json"

    def quotas(self) -> dict[ExecutorKey, float]:
        return {k: seen.quota_cores or 0.0 for k, seen in self.runtime.observe().items() if seen.running}

    def running(self) -> set[ExecutorKey]:
        return set(self.quotas())


def report_of(sync: WorkerSync, key: ExecutorKey) -> ExecutorReport:
    return next(r for r in sync.executors if (r.application_id, r.executor_id) == key)
