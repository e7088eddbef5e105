"""The production's agents and master, period by period, on a virtual cluster.

Each agent runs its whole period (`core.step`). The master is the production's core (`controller.master.core`): it admits,
places, plans and records under virtual time, and its effects are carried out here, as its shell does. They talk like the real
ones: an agent acts on the plan that the last report was answered with, aged to now; on a stage's event the master plans at
once with what it knows and the agents look at once. Left out are the network's losses, and memory, of which there is always
enough; all agents tick at the same moments, and idle ones report with every arrival.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import TypeVar

from msgspec import structs

from controller.agent.core.apply import QuotaChange
from controller.agent.core.step import Seen, Snapshot, State, TimedPlan, next_period_s, step
from controller.asks.job_options import JobOptions
from controller.master.core import driver_events, planning
from controller.master.core.admission import check_feasible
from controller.master.core.application import Application, ApplicationRecord
from controller.master.core.core import ClusterOptions, Core
from controller.master.core.effects import DropDetails, Effect, Wake, WriteRecord
from controller.master.core.executor_state import Executor
from controller.master.core.from_record import LookedUp, make_application
from controller.master.core.master_life import MasterLife
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.driver import ExecutorWish, Registration
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, Sample, WorkerInfo, WorkerSync
from experiments.simulator import driver
from experiments.simulator.engine import Engine
from experiments.simulator.state import App, SimExecutor, SimWorker, Task
from stage_model.errors import InfeasibleDeadline
from stage_model.forecast.estimate import estimate
from stage_model.history.events import AnyEvent, TaskEnd
from stage_model.history.profile import Profile
from stage_model.progress import SCHEMA, Progress, StageProgress
from stage_model.settings import QuotaSettings

T = TypeVar("T")

MOST_CLAIMED = 16
"""Stages that a progress file names, the last touched ones."""
SAME_S = 1e-9
"""Seconds: moments no further apart are one: sums of periods are not exact."""
REPORTS_S = 5.0
"""Time between two reports of idle workers, at most; one that is silent for `STALE_S` gets nothing new."""


@dataclass(slots=True, eq=False)
class _Tracked:
    """An executor as its agent and the master know it."""

    key: ExecutorKey
    executor: SimExecutor
    known: Executor
    paced: PacedApp
    grant: float = 0.0
    sequence: int = 0


@dataclass(slots=True, eq=False)
class PacedApp:
    """An application as the master knows it, its plans, and the cost of its control."""

    app: App
    application: Application
    executors: list[_Tracked] = field(default_factory=list)
    plans: dict[str, TimedPlan] = field(default_factory=dict)
    writes: int = 0
    turns: int = 0
    directions: dict[str, int] = field(default_factory=dict)
    trace: list[tuple[float, float]] = field(default_factory=list)
    """Seconds after submission, cores granted in all."""


class Pacing:
    """A control. `profiles`: the profile of each submission's job by its name; a job without one runs as the product's first
    runs do. `admit`: refuse infeasible deadlines as the master does; such an application runs without one."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        *,
        period_s: float = 1.0,
        admit: bool = False,
        traced: bool = False,
    ) -> None:
        self.profiles, self.period_s, self.admit, self.traced = profiles, period_s, admit, traced
        self.quota = QuotaSettings(period_s=period_s)
        self.paced: dict[int, PacedApp] = {}
        self.running: dict[int, PacedApp] = {}
        self.on_worker: dict[str, list[_Tracked]] = {}
        self.states: dict[str, State] = {}
        self.woken: set[str] = set()
        self.due_s: dict[str, float] = {}
        """Time at which the next period of a worker's agent begins."""
        self.refused: list[App] = []
        self.decisions = 0
        self.most_over_capacity = 0.0
        """Cores by which the grants on one worker ever summed to more than it has: 0 while the arbiter does its work."""

    def begin(self, engine: Engine) -> None:
        self.engine = engine
        self.by_name = {worker.name: worker for worker in engine.workers}
        self.infos = {worker.name: worker_info(worker) for worker in engine.workers}
        life = MasterLife(cluster_id="virtual", generation=1, boot_id="", pid_namespace="", begun_s=engine.now_s)
        self.core = Core(life, ClusterOptions(), engine.rng.random, "")
        self.reported_s = -REPORTS_S
        engine.at(0.0, self._period)

    # ------------------------------------------------------------------ the driver's events

    def arrived(self, app: App) -> None:
        self._idle_workers_report()
        application = self._admitted(app)
        self.core.drivers.add(application)
        paced = self.paced[app.number] = self.running[app.number] = PacedApp(app, application)
        self._follow_up()
        placed = {known.record.worker_id: known for known in application.executors.values()}
        for worker in self.engine.workers:
            if worker.name in placed:
                self._start(paced, worker, placed[worker.name])
        self._plan(paced)

    def _start(self, paced: PacedApp, worker: SimWorker, known: Executor) -> None:
        executor = self.engine.start(paced.app, worker, self.quota.floor)
        executor.name = known.record.executor_id
        assert executor.slots == known.record.slots, "the virtual executor is the one that the master has placed"
        one = _Tracked(ExecutorKey(paced.application.id, executor.name), executor, known, paced)
        paced.executors.append(one)
        self.on_worker.setdefault(worker.name, []).append(one)

    def stage_submitted(self, app: App, stage: int) -> None:
        self._tell(app, *driver.submitted(app, stage, self.engine.now_s))
        self._follow_up()

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        self._tell(app, driver.task_end(app, executor, task, self.engine.now_s))

    def stage_completed(self, app: App, stage: int) -> None:
        self._tell(app, *driver.completed(app, stage, self.engine.now_s))
        self._follow_up()

    def ended(self, app: App) -> None:
        paced, now_s = self.running.pop(app.number), self.engine.now_s
        self._tell(app, driver.application_end(now_s))
        self._follow_up()
        for one in paced.executors:
            here = self.on_worker[one.executor.worker.name]
            here.remove(one)
            # what it held is free at once, because the agents learn of it at once
            self._agent_reports(one.executor.worker.name, [], ())
        self.core.lifecycle.turns((), now_s)
        self._follow_up()

    def _tell(self, app: App, *events: AnyEvent) -> None:
        application = self.paced[app.number].application
        for event in events:
            driver_events.fold(application, event, self.core.registry, self.engine.now_s)
        if not isinstance(events[-1], TaskEnd):
            self.core.registry.changes.application(application)

    # ------------------------------------------------------------------ the master's effects

    def _follow_up(self) -> None:
        effects = self.core.follow_up(self.engine.now_s)
        while effects:
            for effect in effects:
                self._carry_out(effect)
            effects = self.core.take_effects()

    def _carry_out(self, effect: Effect) -> None:
        """Do what matters here: agents are woken, and a record is written at once and not kept."""
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

    def _wake(self, worker_ids: Collection[str]) -> None:
        """Let agents look as soon as the notice reaches them; notices that come together are one."""
        names = set(worker_ids) - self.woken
        if names:
            self.woken |= names
            self.engine.at(self.engine.now_s + self.engine.effects.latency_s, self._look_now, sorted(names))

    def _look_now(self, names: list[str]) -> None:
        self.woken.difference_update(names)
        touched = {one.paced.app.number: one.paced for name in names for one in self.on_worker.get(name, ())}
        for paced in touched.values():
            if not paced.application.ended:
                self._plan(paced)
        self._ticks(names)

    # ------------------------------------------------------------------ admission

    def _admitted(self, app: App) -> Application:
        """Return the application, without its deadline if the master refuses that."""
        now_s, application = self.engine.now_s, _application(app, self.profiles.get(app.job.name), admit=self.admit)
        most = self.core.admission.check(application, now_s)
        if most is not None:
            try:
                check_feasible(application, most, now_s, _result(self.core.registry.promised(now_s)))
            except InfeasibleDeadline:
                self.refused.append(app)
                application.record.options = JobOptions(priority=app.asked.priority, law=app.asked.law)
        return application

    def _idle_workers_report(self) -> None:
        now_s = self.engine.now_s
        if now_s - self.reported_s >= REPORTS_S:
            self.reported_s = now_s
            for info in self.infos.values():
                self.core.workers.heard(info, now_s)

    # ------------------------------------------------------------------ the control period

    def _period(self, _: None) -> None:
        """Run one period of every agent whose period is over; then the master answers all reports."""
        now_s, due = self.engine.now_s, []
        for name, here in self.on_worker.items():
            if here and self.due_s.get(name, now_s) <= now_s + SAME_S:
                due.append(name)
                plans = [one.paced.plans[name] for one in here]
                self.due_s[name] = now_s + next_period_s(plans, self.period_s, now_s)
        if self.engine.left:
            dues_s = (self.due_s[name] for name, here in self.on_worker.items() if here)
            self.engine.at(min(dues_s, default=now_s + self.period_s), self._period)
        self._ticks(due)

    def _ticks(self, names: Iterable[str]) -> None:
        reported: dict[int, PacedApp] = {}
        for name in names:
            for one in self._tick(name):
                reported[one.paced.app.number] = one.paced
        for paced in reported.values():
            self._plan(paced)

    def _plan(self, paced: PacedApp) -> None:
        """Work out the master's answer to the workers of an application."""
        now_s, names, application = (
            self.engine.now_s,
            [one.executor.worker.name for one in paced.executors],
            paced.application,
        )
        most = self.core.workers.capacity(application, now_s)
        plans = {name: planning.application_plan(application, name, most, now_s) for name in names}
        paced.plans = {name: TimedPlan(plan, now_s) for name, plan in plans.items()}
        starved = application.starved()
        for one in paced.executors:
            self.engine.set_least_waiting(one.executor, starved.get(one.executor.name, 1))

    def _tick(self, name: str) -> list[_Tracked]:
        """Run one agent's period: look, let the core decide, do it, report."""
        now_s, here = self.engine.now_s, self.on_worker.get(name, [])
        by_key = {one.key: one for one in here}
        snapshot = Snapshot(
            cores=self.by_name[name].cores,
            period_s=self.period_s,
            quota=self.quota,
            executors={key: self._seen(one) for key, one in by_key.items()},
            plans={one.key.application_id: one.paced.plans[name] for one in here},
        )
        orders, state = step(snapshot, self.states.get(name, State()), now_s)
        for error in orders.troubles.values():
            raise error
        self.states[name] = state
        self.decisions += len(here)
        for key, grant in orders.grants.items():
            by_key[key].grant = grant
        if here:
            self.most_over_capacity = max(self.most_over_capacity, sum(orders.grants.values()) - snapshot.cores)
        for change in orders.changes:
            self._write(by_key[change.key], change)
        self._agent_reports(name, [self._report(one, state) for one in here], orders.samples)
        for sample in orders.samples:
            one = by_key[ExecutorKey(sample.application_id, sample.executor_id)]
            if self.traced and one is one.paced.executors[-1]:
                one.paced.trace.append((now_s - one.paced.app.asked.at_s, sum(other.grant for other in one.paced.executors)))
        return here

    def _seen(self, one: _Tracked) -> Seen:
        executor, engine = one.executor, self.engine
        engine.advance(executor)
        one.sequence += 1
        stages = []
        for stage, counters in list(executor.counters.items())[-MOST_CLAIMED:]:
            running = round(engine.records_running(executor, stage)) if counters.running else 0
            stages.append(
                StageProgress(
                    stage=stage,
                    attempt=0,
                    running=counters.running,
                    done=counters.done,
                    records_done=round(counters.records_done),
                    records_running=running,
                )
            )
        told = Progress(schema=SCHEMA, executor=executor.name, sequence=one.sequence, stages=tuple(stages))
        observed = Observed(one.key, True, executor.ordered, executor.cpu_core_s, 0, throttled_s=executor.throttled_s)
        return Seen(executor.slots, observed, told if executor.ready else None, self.quota.floor)

    def _write(self, one: _Tracked, change: QuotaChange) -> None:
        self.engine.set_quota(one.executor, change.cores)
        paced, name = one.paced, one.executor.name
        paced.writes += 1
        direction = 1 if change.before is not None and change.cores > change.before else -1
        paced.turns += paced.directions.get(name, direction) == -direction
        paced.directions[name] = direction

    def _agent_reports(self, name: str, reports: Iterable[ExecutorReport], samples: Iterable[Sample]) -> None:
        """Let the master take an agent's report in."""
        known = self.core.workers.by_id[name]
        sync = WorkerSync(
            instance="life",
            cluster_id=self.core.registry.life.cluster_id,
            generation=self.core.registry.life.generation,
            worker=self.infos[name],
            executors=tuple(reports),
            sample_seq=known.samples_acknowledged,
            samples=tuple(samples),
        )
        self.core.agents.take(name, sync, self.engine.now_s)

    def _report(self, one: _Tracked, state: State) -> ExecutorReport:
        core = state.held[one.key]
        assert core.decision is not None
        return ExecutorReport(
            application_id=one.key.application_id,
            executor_id=one.key.executor_id,
            state=ExecutorState.RUNNING,
            quota_cores=one.executor.ordered,
            demand_cores=core.decision.demand,
            cpu_core_s=one.executor.cpu_core_s,
            throttled_s=one.executor.throttled_s,
            stages=tuple(core.account.uses(self.engine.now_s - 2 * self.period_s)),
        )


# ---------------------------------------------------------------- the production's records


def worker_info(worker: SimWorker) -> WorkerInfo:
    """Return a worker as its agent would report it."""
    return WorkerInfo(
        worker_id=worker.name, host="virtual", cores=worker.cores, memory_mb=1 << 20, runtime="virtual", pid=1, boot_id=""
    )


def _id(app: App) -> str:
    return f"virtual-{app.number}"


def _application(app: App, profile: Profile | None, *, admit: bool) -> Application:
    """Return the application as the master makes it; `admit` False: no deadline is refused."""
    asked, now_s = app.asked, app.asked.at_s
    wanted = {"0": ExecutorWish(count=asked.executors)}
    record = ApplicationRecord(
        application_id=_id(app),
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
    """Return the result of work that pauses: here no one else has a turn."""
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
