"""A master's state on a temporary directory, with drivers and agents that say what a test makes them say."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any, TypeVar

from msgspec import structs

from controller.asks.job_options import JobOptions
from controller.asks.user_limits import UserLimits
from controller.home import Home
from controller.machine.proc import boot_id
from controller.machine.process import find_process
from controller.master.cluster import ClusterState
from controller.master.core.application import Application
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.core import ClusterOptions
from controller.master.storage.kept import Kept
from controller.master.storage.store import Store
from controller.runs.run_folder import read_summary
from controller.wire.command import ApplicationView, Change, PlanReply, PlanRequest
from controller.wire.driver import NOBODY_UID, DriverReply, DriverSync, ExecutorWish, Registration
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, Sample, StageUse, WorkerInfo, WorkerReply, WorkerSync
from experiments.bench.overhead.made_up import sequenced
from stage_model.history.events import (
    AnyEvent,
    ApplicationEnd,
    JobEnd,
    JobStart,
    StageCompleted,
    StageInfo,
    StageSubmitted,
    TaskEnd,
)
from tests.fakes import views

T = TypeVar("T")


class AtOnce(Executor):
    """An executor that does its work at once, so that a pass sees the outcome."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as a thread of a pool does
            done.set_exception(error)
        return done


class Later(Executor):
    """An executor that does its work when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs.append((future := Future[Any](), fn, args))
        return future

    def work(self) -> None:
        for future, fn, args in self.jobs:
            future.set_result(fn(*args))
        self.jobs.clear()


def rows_aside(store: Store) -> list[tuple[str, str, str, bytes | str]]:
    """Return the rows that a store has set aside: why, kind, key, data."""
    return list(store._db.execute("SELECT why, kind, key, data FROM aside ORDER BY at"))


def answered(call: Coroutine[Any, Any, T]) -> T:
    """Run a call that lets others have their turn in between: there are no others."""
    return asyncio.run(call)


class FakeCluster:
    """A master in memory. `now_s` is the clock; `restart` builds the state again from what was stored."""

    def __init__(
        self, path: Path, memory_policy: str = "equal", keep_runs: int = 3, users: tuple[UserLimits, ...] = ()
    ) -> None:
        self.keep_runs, self.users = keep_runs, users
        self.path, self.now_s, self.memory_policy = path, 100.0, memory_policy
        self.woken: set[str] = set()
        self.registrations = 0
        self.pool: Executor = AtOnce()
        for folder in ("runs", "profiles"):
            (path / folder).mkdir(exist_ok=True)
        self.restart()

    def restart(self) -> None:
        kept, options = Kept.of(Home(self.path), self.keep_runs), ClusterOptions(memory=self.memory_policy, users=self.users)
        self.state = ClusterState(kept, options, self._changed, self.now_s, self.pool)

    def clock(self) -> float:
        return self.now_s

    def _changed(self, worker_ids: Collection[str]) -> None:
        self.woken |= set(worker_ids)

    def register(self, **changed: Any) -> str:
        self.now_s += 1e-6  # no two come at the same moment, and the earlier one comes first among equals
        self.registrations += 1
        if self.registrations > 1 and "application_id" not in changed:
            changed.setdefault("instance", f"driver-{self.registrations}")
        return answered(self.state.drivers.register(registration(**changed), self.clock)).application_id

    def registered(self, **changed: Any) -> Application:
        return self.state.applications[self.register(**changed)]

    def tick(self, seconds: float = 0.0) -> None:
        """Let time pass; then the master has a pass."""
        self.now_s += seconds
        self.state.tick(self.now_s)

    def view(self, application_id: str) -> ApplicationView:
        return self.state.core.commands.view(application_id, self.now_s)

    def plan(self, uid: int = NOBODY_UID, **asked: Any) -> PlanReply:
        return answered(self.state.admission.plan(PlanRequest(**asked), self.now_s, uid=uid))

    def change(self, application_id: str, **asked: Any) -> None:
        answered(self.state.commands.change(application_id, Change(**asked), self.clock))

    def kill(self, application_id: str) -> None:
        self.state.commands.kill(application_id, self.now_s)

    def summary(self, application_id: str) -> dict[str, Any]:
        return read_summary(self.path / "runs" / application_id)

    def where(self, application_id: str) -> list[str]:
        """Return the workers of an application's live executors."""
        return [executor.record.worker_id for executor in self.state.applications[application_id].live_executors()]

    def worker(
        self,
        worker_id: str,
        *reports: ExecutorReport,
        memory_mb: int = 8192,
        period_s: float = 1.0,
        own_networks: bool = False,
        adopts: bool = False,
        everywhere: bool = False,
        nodes: int = 1,
        boot: str = "",
        runtime: str = "fake",
        hosts_for: int | None = None,
        **changed: Any,
    ) -> WorkerReply:
        """Send a report of an agent of a worker with one core."""
        info = WorkerInfo(
            worker_id=worker_id, host="127.0.0.1", cores=1.0 * nodes, memory_mb=memory_mb, runtime=runtime, pid=1,
            boot_id=boot or boot_id(), period_s=period_s, own_networks=own_networks, adopts=adopts, everywhere=everywhere,
            nodes=nodes, hosts_for=hosts_for,
        )  # fmt: skip
        return self.sync(info, *reports, **changed)

    def sync(self, info: WorkerInfo, *reports: ExecutorReport, **changed: Any) -> WorkerReply:
        """Send a report of the agent of a worker."""
        changed.setdefault("instance", f"{info.worker_id}-life")
        identity = self.state.identity
        sync = WorkerSync(
            cluster_id=identity.cluster_id, generation=identity.generation, worker=info, executors=reports, **changed
        )
        return self.state.agents.sync(info.worker_id, sync, self.now_s)

    def pass_by(self, seconds: float = 0.0) -> None:
        """Let time pass, then worker w1 report that nothing runs there; then the master has a pass."""
        self.now_s += seconds
        self.worker("w1")
        self.tick()

    def exits(self, application_id: str, executor_id: str = "1", **how: Any) -> None:
        """Let an executor on worker w1 exit and its agent remove it; then the master has a pass."""
        self.worker("w1", report(application_id, executor_id, "exited", **how))
        self.pass_by()

    def end(self, application_id: str) -> None:
        """Let a driver report a whole run and its end, and worker w1 that nothing runs there; then the master has a pass."""
        self.driver(application_id, *one_stage_run(1000), ended=True)
        self.pass_by()

    def driver(self, application_id: str, *events: AnyEvent, first: int = 1, **changed: Any) -> DriverReply:
        changed.setdefault("wanted", {"0": ExecutorWish()})
        sync = DriverSync(instance="driver", events=sequenced(events, first), **changed)
        return answered(self.state.drivers.sync(application_id, sync, self.clock))

    def finished_run(self, **changed: Any) -> str:
        """Run an application with 8 s of work after 1 s, on one worker, to its end."""
        self.worker("w1")
        application_id = self.register(**changed)
        events = one_stage_run(1000)
        self.driver(application_id, *events[:-1])
        used = use(0, 8.0, done=4, records=40.0)
        self.now_s += 9
        self.worker("w1", report(application_id, "1", stages=(used,)))
        self.driver(application_id, events[-1], first=len(events), ended=True)
        self.exits(application_id, exit_code=0, stages=(used,))
        return application_id


def registration(**changed: Any) -> Registration:
    """Make the registration of this very process, so that its driver counts as alive."""
    me = find_process(os.getpid())
    assert me is not None
    plain = Registration(
        name="app", instance="driver", spark_version="4.3.0", user="me", uid=os.getuid(), gid=os.getgid(), pid=me.pid,
        pid_start=me.start_ticks, boot_id=me.boot_id, host="here", driver_url="spark://CoarseGrainedScheduler@127.0.0.1:1",
        jars_dir="/spark/jars", bridge_jar="/spark/bridge.jar", java_home="/java", working_dir="/home/me", age_s=2.0,
        steady_ms=0, main="app.py", wanted={"0": ExecutorWish()},
    )  # fmt: skip
    return structs.replace(plain, **changed)


def application_record(asked: Registration, options: JobOptions, application_id: str = "app") -> ApplicationRecord:
    """Make the record of an application that was submitted at 0."""
    return ApplicationRecord(
        application_id=application_id,
        token_hash="",
        registration=asked,
        started_epoch_s=0.0,
        started_monotonic_s=0.0,
        boot_id="",
        options=options,
    )


def report(application_id: str, executor_id: str, state: str = ExecutorState.RUNNING, **changed: Any) -> ExecutorReport:
    return ExecutorReport(application_id=application_id, executor_id=executor_id, state=ExecutorState(state), **changed)


def use(stage: int, cpu_core_s: float, **changed: Any) -> StageUse:
    plain: dict[str, Any] = {"attempt": 0, "running": 0, "done": 0, "records": 0.0, "records_running": 0.0}
    return StageUse(stage=stage, cpu_core_s=cpu_core_s, **({**plain, "allocated_core_s": cpu_core_s} | changed))


def sample(application_id: str, executor_id: str, time_s: float, **changed: Any) -> Sample:
    plain: dict[str, Any] = {"application_id": application_id, "usage": 0.5, "cpu_core_s": 0.5 * time_s}
    return views.sample(time_s, executor_id, **(plain | changed))


def one_stage_run(start_ms: int, tasks: int = 4, task_ms: int = 2000, name: str = "collect at /x/app.py:1") -> list[AnyEvent]:
    """Make the events of a job of one stage whose tasks run one after the other, and of the application's end."""
    info = StageInfo(stage=0, name=name, tasks=tasks)
    events: list[AnyEvent] = [JobStart(job=0, time_ms=start_ms, stages=(info,)), StageSubmitted(info=info, time_ms=start_ms)]
    plain = TaskEnd(
        stage=0, attempt=0, task=0, index=0, executor="1", launch_ms=0, finish_ms=0, ok=True, run_ms=task_ms,
        cpu_ns=task_ms * 1_000_000, input_records=10,
    )  # fmt: skip
    for index in range(tasks):
        begin = start_ms + index * task_ms
        events.append(structs.replace(plain, task=index, index=index, launch_ms=begin, finish_ms=begin + task_ms))
    end_ms = start_ms + tasks * task_ms
    events.append(StageCompleted(stage=0, attempt=0, time_ms=end_ms))
    events.append(JobEnd(job=0, time_ms=end_ms, ok=True))
    events.append(ApplicationEnd(time_ms=end_ms))
    return events
