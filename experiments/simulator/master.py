"""The master of a virtual cluster: the production's core, with a shell that keeps nothing and carries out only the effects
that matter here.

It admits, places, plans and records under virtual time. Memory is never short. Idle workers report when an application
arrives, at most every `REPORTS_S` seconds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from datetime import UTC
from typing import TypeVar

from msgspec import structs

from controller.asks.job_options import JobOptions
from controller.master.core import driver_events
from controller.master.core.application import Application
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.arrival import LookedUp, make_application
from controller.master.core.core import ClusterOptions, Core
from controller.master.core.effects import DropDetails, Effect, Wake, WriteRecord
from controller.master.core.promised import check_feasible, promised
from controller.master.core.registry import MasterLife
from controller.wire.driver import ExecutorWish, Registration
from controller.wire.worker import ExecutorReport, Sample, WorkerInfo, WorkerSync
from experiments.simulator import driver
from experiments.simulator.state import App
from placement.policies import Draw
from stage_model.errors import InfeasibleDeadline
from stage_model.forecast.estimate import estimate
from stage_model.history.events import AnyEvent, TaskEnd
from stage_model.history.profile import Profile

T = TypeVar("T")

REPORTS_S = 5.0
"""Time between two reports of idle workers; a worker that is silent for `STALE_S` gets nothing new."""


class SimMaster:
    """The master of these workers. `wake` is called with the names of workers whose agents should look again."""

    def __init__(self, workers: Iterable[WorkerInfo], draw: Draw, wake: Callable[[Collection[str]], None]) -> None:
        life = MasterLife(cluster_id="virtual", generation=1, boot_id="", pid_namespace="", begun_s=0.0)
        self.core = Core(life, ClusterOptions(), draw, "")
        self.infos = {info.worker_id: info for info in workers}
        self._wake = wake
        self._reported_s = -REPORTS_S

    def admit(self, application: Application, now_s: float) -> bool:
        """Take an application in and place its executors; return False if its deadline is refused and it has none."""
        self._idle_workers_report(now_s)
        admitted = True
        most = self.core.admission.check(application, now_s)
        if most is not None:
            try:
                check_feasible(application, most, now_s, _result(promised(self.core.registry, now_s)))
            except InfeasibleDeadline:
                admitted, asked = False, application.options
                application.record.options = JobOptions(priority=asked.priority, law=asked.law)
        self.core.drivers.add(application)
        self._follow_up(now_s)
        return admitted

    def tell(self, application: Application, events: Sequence[AnyEvent], now_s: float) -> None:
        """Take in what a driver reports."""
        for event in events:
            driver_events.fold(application, event, self.core.registry, now_s)
        if not isinstance(events[-1], TaskEnd):
            self.core.registry.changes.application(application)
            self._follow_up(now_s)

    def report(self, name: str, reports: Iterable[ExecutorReport], samples: Iterable[Sample], now_s: float) -> None:
        """Take in what an agent reports."""
        sync = WorkerSync(
            instance="life",
            cluster_id=self.core.registry.life.cluster_id,
            generation=self.core.registry.life.generation,
            worker=self.infos[name],
            executors=tuple(reports),
            sample_seq=self.core.workers.by_id[name].samples_acknowledged,
            samples=tuple(samples),
        )
        self.core.agents.take(name, sync, now_s)
        self._follow_up(now_s)

    def record(self, now_s: float) -> None:
        """Let the applications that have ended be judged, recorded and forgotten."""
        self.core.lifecycle.turns((), now_s)
        self._follow_up(now_s)

    def _follow_up(self, now_s: float) -> None:
        effects = self.core.follow_up(now_s)
        while effects:
            for effect in effects:
                self._carry_out(effect)
            effects = self.core.take_effects()

    def _carry_out(self, effect: Effect) -> None:
        """Wake agents; act as if a record was written, and make room for the next one."""
        core = self.core
        match effect:
            case Wake(worker_ids):
                self._wake(worker_ids)
            case WriteRecord(ending):
                core.lifecycle.records.written(core.applications[ending.application_id], None, [ending.application_id])
            case DropDetails(application_id, removed):
                application = core.applications[application_id]
                core.registry.finished(application, removed)
                core.lifecycle.records.over(application)

    def _idle_workers_report(self, now_s: float) -> None:
        if now_s - self._reported_s >= REPORTS_S:
            self._reported_s = now_s
            for info in self.infos.values():
                self.core.workers.heard(info, now_s)


def virtual_application(app: App, profile: Profile | None, *, admit: bool) -> Application:
    """Return the application as the master makes it; `admit` False: no deadline is refused."""
    asked, now_s = app.asked, app.asked.at_s
    wanted = {"0": ExecutorWish(count=asked.executors)}
    record = ApplicationRecord(
        application_id=f"virtual-{app.number}",
        token_hash="",
        registration=structs.replace(_REGISTRATION, conf=asked.conf, wanted=wanted),
        started_epoch_s=driver.EPOCH_S + now_s,
        started_monotonic_s=now_s,
        boot_id="",
        options=JobOptions(
            deadline_s=asked.deadline_s,
            priority=asked.priority,
            law=asked.law,
            settings=dict(asked.settings),
            arguments=asked.arguments,
            force=not admit,
        ),
    )
    what = estimate(profile, asked.arguments) if profile else None
    return make_application(record, LookedUp(app.job.name, profile, what, UTC), {}, now_s, now_s)


def _result(work: Generator[None, None, T]) -> T:
    """Return the result of work that pauses: here, no other task has a turn."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result


_REGISTRATION = Registration(
    name="virtual",
    instance="virtual",
    spark_version="4.3.0",
    user="virtual",
    uid=0,
    gid=0,
    pid=0,
    pid_start=0,
    boot_id="",
    host="virtual",
    driver_url="",
    jars_dir="",
    bridge_jar="",
    java_home="",
    working_dir="/srv/jobs",
    age_s=0.0,
)
