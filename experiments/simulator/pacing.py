"""The production's agents and master, period by period, on a virtual cluster.

Each agent runs its whole period (`controller.agent.core.step`), and the master is the production's core
(`experiments.simulator.master`). They talk like the real ones: an agent acts on the plan that the last report was answered
with, aged to now; on a stage's event the master plans at once with what it knows and the agents look at once. The network
loses nothing, memory is always enough, and all agents tick at the same moments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from controller.agent.core.step import ExecutorInput, LoopState, QuotaChange, Snapshot, TimedPlan, next_period_s, step
from controller.master.core import planning
from controller.master.core.application import Application
from controller.master.core.executor_state import Executor
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, WorkerInfo
from experiments.simulator import driver
from experiments.simulator.engine import Engine
from experiments.simulator.master import SimMaster, virtual_application
from experiments.simulator.state import App, SimExecutor, SimWorker, Task
from stage_model.history.events import AnyEvent
from stage_model.history.profile import Profile
from stage_model.progress import SCHEMA, Progress, StageProgress
from stage_model.settings import QuotaSettings

MOST_CLAIMED = 16
"""Stages that a progress file names, the last touched ones."""
SAME_S = 1e-9
"""Seconds: moments no further apart are one: sums of periods are not exact."""


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
    """A control. `profiles`: the profile of each submission's job by its name; a job without a profile runs as the product's
    first runs do. `admit`: refuse infeasible deadlines as the master does; such an application runs without one."""

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
        self.states: dict[str, LoopState] = {}
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
        self.master = SimMaster(self.infos.values(), engine.rng.random, self._wake)
        engine.at(0.0, self._period)

    # ------------------------------------------------------------------ the driver's events

    def arrived(self, app: App) -> None:
        application = virtual_application(app, self.profiles.get(app.job.name), admit=self.admit)
        paced = self.paced[app.number] = self.running[app.number] = PacedApp(app, application)
        if not self.master.admit(application, self.engine.now_s):
            self.refused.append(app)
        placed = {known.record.worker_id: known for known in application.executors.values()}
        for worker in self.engine.workers:
            if worker.name in placed:
                self._start(paced, worker, placed[worker.name])
        self._plan(paced)

    def _start(self, paced: PacedApp, worker: SimWorker, known: Executor) -> None:
        executor = self.engine.start(paced.app, worker, self.quota.floor)
        executor.name = known.record.executor_id
        assert executor.slots == known.record.slots, "a virtual executor has as many slots as the master placed"
        one = _Tracked(ExecutorKey(paced.application.id, executor.name), executor, known, paced)
        paced.executors.append(one)
        self.on_worker.setdefault(worker.name, []).append(one)

    def stage_submitted(self, app: App, stage: int) -> None:
        self._tell(app, driver.submitted(app, stage, self.engine.now_s))

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        self._tell(app, [driver.task_end(app, executor, task, self.engine.now_s)])

    def stage_completed(self, app: App, stage: int) -> None:
        self._tell(app, driver.completed(app, stage, self.engine.now_s))

    def ended(self, app: App) -> None:
        paced, now_s = self.running.pop(app.number), self.engine.now_s
        self._tell(app, [driver.application_end(now_s)])
        for one in paced.executors:
            self.on_worker[one.executor.worker.name].remove(one)
            # its cores are free at once, because the agents learn of the end at once
            self.master.report(one.executor.worker.name, (), (), now_s)
        self.master.record(now_s)

    def _tell(self, app: App, events: Sequence[AnyEvent]) -> None:
        self.master.tell(self.paced[app.number].application, events, self.engine.now_s)

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
        now_s, application = self.engine.now_s, paced.application
        names = [one.executor.worker.name for one in paced.executors]
        most = self.master.core.workers.capacity(application, now_s)
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
            quota=self.quota,
            executors={key: self._seen(one) for key, one in by_key.items()},
            plans={one.key.application_id: one.paced.plans[name] for one in here},
            speed_limit=self.by_name[name].speed_limit,
        )
        orders, state = step(snapshot, self.states.get(name, LoopState()), now_s)
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
        self.master.report(name, [self._report(one, state) for one in here], orders.samples, now_s)
        for sample in orders.samples:
            one = by_key[ExecutorKey(sample.application_id, sample.executor_id)]
            if self.traced and one is one.paced.executors[-1]:
                one.paced.trace.append((now_s - one.paced.app.asked.at_s, sum(other.grant for other in one.paced.executors)))
        return here

    def _seen(self, one: _Tracked) -> ExecutorInput:
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
        progress = Progress(schema=SCHEMA, executor=executor.name, sequence=one.sequence, stages=tuple(stages))
        observed = Observed(one.key, True, executor.ordered, executor.cpu_core_s, 0, throttled_s=executor.throttled_s)
        return ExecutorInput(executor.slots, observed, progress if executor.ready else None, self.quota.floor)

    def _write(self, one: _Tracked, change: QuotaChange) -> None:
        self.engine.set_quota(one.executor, change.cores)
        paced, name = one.paced, one.executor.name
        paced.writes += 1
        direction = 1 if change.before is not None and change.cores > change.before else -1
        paced.turns += paced.directions.get(name, direction) == -direction
        paced.directions[name] = direction

    def _report(self, one: _Tracked, state: LoopState) -> ExecutorReport:
        core = state.executors[one.key]
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
