"""The production's agents and planner, period by period, on a virtual cluster.

Each agent runs its whole period (`core.step`). The master runs `Application` fed with the driver's events, `planning`, debt,
and placement's decision (`plan.place`). They talk like the real ones: an agent acts on the plan that the last report was
answered with, aged to now; on a stage's event the master plans at once with what it knows and the agents look at once. Left
out are the network's losses and memory, and all agents tick at the same moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from msgspec import structs

from controller.agent.core.apply import QuotaChange
from controller.agent.core.step import Seen, Snapshot, State, TimedPlan, next_period_s, step
from controller.asks.job_options import JobOptions
from controller.master.core import planning
from controller.master.core.application import Application
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.capacity import Capacity, capacity
from controller.master.core.executor_state import Executor, ExecutorRecord
from controller.master.core.feasibility import feasibility
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.driver import Registration
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, ExecutorSpec, WorkerInfo
from experiments.simulator import driver
from experiments.simulator.engine import Engine
from experiments.simulator.state import App, SimExecutor, SimWorker, Task
from master_memory.room import Newcomer
from master_memory.split import Need
from placement.fleet import Fleet
from placement.plan import Placed, place
from placement.request import Request
from placement.scores import Weights
from placement.worker import Occupant, WorkerState
from stage_model.forecast.estimate import estimate
from stage_model.forecast.promises import Promised
from stage_model.history.events import AnyEvent
from stage_model.history.profile import Profile
from stage_model.progress import SCHEMA, Progress, StageProgress
from stage_model.settings import QuotaSettings

MOST_CLAIMED = 16
"""Stages that a progress file names, the last touched ones."""
SAME_S = 1e-9
"""Seconds: moments no further apart are one: sums of periods are not exact."""
LEAST_MB = 1
"""MiB of an executor: memory is not simulated, so it is never short."""


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
    most: Capacity
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
        self.offers = {
            info.worker_id: WorkerState(info.worker_id, cores=info.cores, memory_mb=info.memory_mb)
            for info in self.infos.values()
        }
        self.fleet = Fleet(self.offers.values(), weights=Weights(), draw=engine.rng.random)
        engine.at(0.0, self._period)

    # ------------------------------------------------------------------ the driver's events

    def arrived(self, app: App) -> None:
        chosen = self._place(app)
        infos = [self.infos[worker.name] for worker in chosen]
        most = capacity(infos, lambda info: self.by_name[info.worker_id].slots, None)
        application = _application(app, self.profiles.get(app.job.name))
        if self.admit and not self._admitted(application, most):
            self.refused.append(app)
            application.record.options = JobOptions(priority=app.asked.priority, law=app.asked.law)
        paced = self.paced[app.number] = self.running[app.number] = PacedApp(app, application, most)
        for worker in chosen:
            executor = self.engine.start(app, worker, self.quota.floor)
            known = Executor(_executor_record(application.id, executor))
            application.executors[executor.name] = known
            one = _Tracked(ExecutorKey(application.id, executor.name), executor, known, paced)
            paced.executors.append(one)
            self.on_worker.setdefault(worker.name, []).append(one)
        self._plan(paced)
        self._wake(app)

    def stage_submitted(self, app: App, stage: int) -> None:
        paced = self.paced[app.number]
        self._tell(paced, *driver.submitted(app, stage, self.engine.now_s))
        self._wake(app)

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        self._tell(self.paced[app.number], driver.task_end(app, executor, task, self.engine.now_s))

    def stage_completed(self, app: App, stage: int) -> None:
        self._tell(self.paced[app.number], *driver.completed(app, stage, self.engine.now_s))
        self._wake(app)

    def ended(self, app: App) -> None:
        paced = self.running.pop(app.number)
        paced.application.end(self.engine.now_s - app.asked.at_s)
        for one in paced.executors:
            self.on_worker[one.executor.worker.name].remove(one)
            self.offers[one.executor.worker.name].remove(_id(app))
        # what it held is free at once, because the agents learn of it at once
        self._wake(app)

    def _tell(self, paced: PacedApp, *events: AnyEvent) -> None:
        for event in events:
            planning.take_event(paced.application, event, lambda: paced.most, self.engine.now_s)

    def _wake(self, app: App) -> None:
        """Let agents look as soon as the notice reaches them; notices that come together are one."""
        names = {one.executor.worker.name for one in self.paced[app.number].executors} - self.woken
        if names:
            self.woken |= names
            self.engine.at(self.engine.now_s + self.engine.effects.latency_s, self._look_now, (app, sorted(names)))

    def _look_now(self, which: tuple[App, list[str]]) -> None:
        _, names = which
        self.woken.difference_update(names)
        touched = {one.paced.app.number: one.paced for name in names for one in self.on_worker.get(name, ())}
        for paced in touched.values():
            if not paced.application.ended:
                self._plan(paced)
        self._ticks(names)

    # ------------------------------------------------------------------ placement and admission

    def _place(self, app: App) -> list[SimWorker]:
        """Return all workers, or as many as the user asked for; to placement executors are alike, so their number counts."""
        workers, count = self.engine.workers, app.asked.executors
        if count is None or count >= len(workers):
            for worker in workers:
                self._occupy(app, worker.name)
            return workers
        name, chosen = _id(app), []
        memory = Newcomer(lambda _: Need(f"{name}/new", LEAST_MB), self.fleet.sizes, {})
        for _ in range(count):
            outcome = place(Request(name, app.asked.priority, cores=0.0), self.fleet, memory)
            assert isinstance(outcome, Placed), "memory never lacks"
            self._occupy(app, outcome.worker_id)
            chosen.append(self.by_name[outcome.worker_id])
        return chosen

    def _occupy(self, app: App, worker_id: str) -> None:
        self.offers[worker_id].add(Occupant(_id(app), _id(app), app.asked.priority, cores=0.0, least_mb=LEAST_MB))

    def _admitted(self, application: Application, most: Capacity) -> bool:
        if application.options.deadline_s is None or application.estimate is None:
            return True
        now_s = self.engine.now_s
        claims = [claim for p in self.running.values() for claim in planning.promises(p.application, p.most, now_s)]
        promised = Promised(claims, sum(worker.cores for worker in self.engine.workers))
        options = application.options
        reply = feasibility(application.estimate, options.deadline_s, most, priority=options.priority, promised=promised)
        return bool(reply.feasible)

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
        now_s, names = self.engine.now_s, [one.executor.worker.name for one in paced.executors]
        plans = {name: planning.application_plan(paced.application, name, paced.most, now_s) for name in names}
        paced.plans = {name: TimedPlan(plan, now_s) for name, plan in plans.items()}
        starved = paced.application.starved()
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
        for one in here:
            self._report(one, state)
        for sample in orders.samples:
            one = by_key[ExecutorKey(sample.application_id, sample.executor_id)]
            one.known.sampled(sample, one.executor.worker.cores)
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

    def _report(self, one: _Tracked, state: State) -> None:
        core = state.held[one.key]
        assert core.decision is not None
        one.paced.application.take(
            one.known,
            "life",
            ExecutorReport(
                application_id=one.key.application_id,
                executor_id=one.key.executor_id,
                state=ExecutorState.RUNNING,
                quota_cores=one.executor.ordered,
                demand_cores=core.decision.demand,
                cpu_core_s=one.executor.cpu_core_s,
                throttled_s=one.executor.throttled_s,
                stages=tuple(core.account.uses(self.engine.now_s - 2 * self.period_s)),
            ),
        )


# ---------------------------------------------------------------- the production's records


def worker_info(worker: SimWorker) -> WorkerInfo:
    """Return a worker as its agent would report it."""
    return WorkerInfo(
        worker_id=worker.name, host="virtual", cores=worker.cores, memory_mb=1 << 20, runtime="virtual", pid=1, boot_id=""
    )


def _id(app: App) -> str:
    return f"virtual-{app.number}"


def _application(app: App, profile: Profile | None) -> Application:
    asked = app.asked
    record = ApplicationRecord(
        application_id=_id(app),
        token_hash="",
        registration=structs.replace(_REGISTRATION, conf=asked.conf),
        started_epoch_s=driver.EPOCH_S + asked.at_s,
        started_monotonic_s=asked.at_s,
        boot_id="",
        options=JobOptions(
            deadline_s=asked.deadline_s,
            priority=asked.priority,
            law=asked.law,
            settings=dict(asked.settings),
            arguments=asked.arguments,
        ),
    )
    return Application(
        record=record,
        started_s=asked.at_s,
        profile_key=app.job.name,
        profile_runs=len(profile.runs) if profile else 0,
        estimate=estimate(profile, asked.arguments) if profile else None,
        profile=profile,
    )


def _executor_record(application_id: str, executor: SimExecutor) -> ExecutorRecord:
    return ExecutorRecord(
        executor_id=executor.name,
        worker_id=executor.worker.name,
        profile_id="0",
        spec=ExecutorSpec(
            application_id=application_id,
            executor_id=executor.name,
            java_home="",
            java_args=(),
            environment={},
            mounts=(),
            slots=executor.slots,
            memory_mb=LEAST_MB,
            uid=0,
            gid=0,
        ),
    )


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
