"""A virtual cluster that runs an application's tasks as a fluid: the laws decide, nothing else is real.

Every executor has slots and a quota; its running tasks advance at min(speed limit, quota / running tasks). Stages follow
each other after driver gaps; tasks go to executors by delay-free FIFO, as Spark hands them out. Time moves from event to
event, so the end is exact. The master's part (`controller.master.planning`) is reduced to what it says of work to come.
Not covered: several applications on one worker, failures, what real Spark adds (`stage_model.fixed`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from controller.agent.decide import Executor, Memory, OwnStage, StageKey, decide
from stage_model.match import RATIO_PRIOR_CORE_S, RATIO_PRIOR_SHARE
from stage_model.plan import ApplicationPlan, StagePlan
from stage_model.settings import QuotaSettings
from stage_model.virtual_time import add, stages_busy

LONGEST_S = 100_000.0


@dataclass(frozen=True, slots=True)
class SimStage:
    """`works`: true core-seconds of each task. `planned_core_s` and `planned_cv`: what the profile says of the stage."""

    works: tuple[float, ...]
    planned_core_s: float
    planned_cv: float
    records: float | None = None
    gap_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SimJob:
    """Stages in sequence. Seconds: before the first stage, and from the last task to the application's end."""

    stages: tuple[SimStage, ...]
    startup_s: float = 0.0
    tail_s: float = 0.0

    @property
    def work_core_s(self) -> float:
        return sum(sum(stage.works) for stage in self.stages)


def log_normal_job(
    rng: random.Random,
    tasks: Sequence[int],
    task_core_s: Sequence[float],
    *,
    cv: float,
    profile_factor: float = 1.0,
    records_per_task: float | None = None,
    gap_s: float = 0.0,
    startup_s: float = 0.0,
) -> SimJob:
    """A job of stages with log-normal tasks of these mean works; the profile says `profile_factor` times the true work."""
    sigma = math.sqrt(math.log1p(cv * cv))
    stages = []
    for count, mean in zip(tasks, task_core_s, strict=True):
        works = tuple(rng.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma) for _ in range(count))
        records = None if records_per_task is None else records_per_task * count
        stages.append(SimStage(works, profile_factor * sum(works), cv, records, gap_s))
    return SimJob(tuple(stages), startup_s)


@dataclass(frozen=True, slots=True)
class SimCluster:
    """Workers of one executor each: `slots` and `cores` per executor."""

    executors: int
    slots: int
    cores: float

    @property
    def speed_limit(self) -> float:
        return min(1.0, self.cores)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Seconds and core-seconds. `writes`: quota changes; `turns`: how often a quota's direction turned within a stage."""

    end_s: float
    allocated_core_s: float
    used_core_s: float
    writes: int
    turns: int
    stage_ends_s: tuple[float, ...]
    quotas: tuple[tuple[float, tuple[float, ...]], ...]

    def error_pct(self, deadline_s: float) -> float:
        return 100 * (self.end_s - deadline_s) / deadline_s


@dataclass(slots=True)
class _Task:
    work: float
    left: float


@dataclass(slots=True)
class _Executor:
    quota: float
    running: list[_Task] = field(default_factory=list)
    own: dict[StageKey, OwnStage] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    done: int = 0
    done_work: float = 0.0
    cpu_core_s: float = 0.0
    busy_at_s: float | None = None

    def speed(self, limit: float) -> float:
        """Of each running task, in cores."""
        return min(limit, self.quota / len(self.running)) if self.running else 0.0


class Fluid:
    """One run. `law` as in `ApplicationPlan`; `deadline_s` None: all cores all the time. `observe_noise` multiplies the
    records that running tasks are seen to have read."""

    def __init__(
        self,
        job: SimJob,
        cluster: SimCluster,
        *,
        deadline_s: float | None,
        law: str = "forecast",
        settings: dict[str, float] | None = None,
        period_s: float = 1.0,
        observe_noise: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self.job, self.cluster, self.deadline_s, self.law = job, cluster, deadline_s, law
        self.settings, self.period_s, self.noise = settings or {}, period_s, observe_noise
        self.quota = QuotaSettings(period_s=period_s)
        self.now_s = 0.0
        self.executors = [_Executor(cluster.cores) for _ in range(cluster.executors)]
        self.waiting: list[_Task] = []
        self.stage: int | None = None
        self.begun = 0
        self.allocated = self.used = 0.0
        self.first_s: float | None = None
        self.last_s = 0.0
        self.writes = self.turns = 0
        self.directions = [0] * cluster.executors
        self.trace: list[tuple[float, tuple[float, ...]]] = []
        self.shown_work = self.planned_done = 0.0

    def run(self) -> Outcome:
        """To the application's end."""
        next_tick_s, ends = 0.0, []
        self.now_s = 0.0
        for number, stage in enumerate(self.job.stages):
            next_tick_s = self._pass(self.job.startup_s if number == 0 else stage.gap_s, next_tick_s)
            self._submit(number)
            next_tick_s = self._tick_now()
            while self.waiting or any(e.running for e in self.executors):
                self._hand_out()
                until_s = self.now_s + self._next_end_s()
                if next_tick_s < until_s:
                    self._advance(next_tick_s - self.now_s)
                    next_tick_s = self._tick_now()
                else:
                    self._advance(until_s - self.now_s)
                    self._collect()
                assert self.now_s < LONGEST_S
            ends.append(self.now_s)
            self._complete(number)
            next_tick_s = self._tick_now()
        self._pass(self.job.tail_s, next_tick_s)
        return Outcome(self.now_s, self.allocated, self.used, self.writes, self.turns, tuple(ends), tuple(self.trace))

    # ------------------------------------------------------------------ the engine

    def _submit(self, number: int) -> None:
        self.stage, self.begun = number, number + 1
        self.waiting = [_Task(w, w) for w in self.job.stages[number].works]
        self.directions = [0] * self.cluster.executors
        for executor in self.executors:
            executor.done, executor.done_work, executor.cpu_core_s = 0, 0.0, 0.0
        self._hand_out()

    def _complete(self, number: int) -> None:
        self.shown_work += sum(self.job.stages[number].works)
        self.planned_done += self.job.stages[number].planned_core_s
        self.stage = None

    def _hand_out(self) -> None:
        """The first waiting task goes to the executor with the most free slots."""
        while self.waiting:
            freest = min(self.executors, key=lambda e: len(e.running))
            if len(freest.running) >= self.cluster.slots:
                return
            freest.running.append(self.waiting.pop(0))
            freest.busy_at_s = self.now_s
            self.first_s = self.now_s if self.first_s is None else self.first_s

    def _next_end_s(self) -> float:
        limit = self.cluster.speed_limit
        return min(t.left / e.speed(limit) for e in self.executors for t in e.running)

    def _advance(self, seconds: float) -> None:
        for executor in self.executors:
            speed = executor.speed(self.cluster.speed_limit)
            for task in executor.running:
                task.left -= speed * seconds
            used = speed * seconds * len(executor.running)
            executor.cpu_core_s += used
            self.used += used
            if executor.running:
                executor.busy_at_s = self.now_s + seconds
            if self.first_s is not None:
                self.allocated += executor.quota * seconds
        self.now_s += seconds

    def _collect(self) -> None:
        for executor in self.executors:
            ended = [t for t in executor.running if t.left <= 1e-9 * t.work]
            executor.done += len(ended)
            executor.done_work += sum(t.work for t in ended)
            executor.running = [t for t in executor.running if t.left > 1e-9 * t.work]
            if ended:
                self.last_s = self.now_s

    def _pass(self, seconds: float, next_tick_s: float) -> float:
        """Time in which no task runs; periods go on."""
        end_s = self.now_s + seconds
        while next_tick_s < end_s:
            self._advance(next_tick_s - self.now_s)
            next_tick_s = self._tick_now()
        self._advance(end_s - self.now_s)
        return next_tick_s

    # ------------------------------------------------------------------ the control period

    def _tick_now(self) -> float:
        """One control period of every agent; returns when the next is due."""
        seen = [self._own(e) for e in self.executors]
        quotas = []
        for number, executor in enumerate(self.executors):
            others = [own for n, own in enumerate(seen) if n != number]
            idle_s = None if executor.busy_at_s is None else self.now_s - executor.busy_at_s
            stages = {} if self.stage is None else {(self.stage, 0): seen[number]}
            decision = decide(
                self._plan(others),
                Executor(self.cluster.slots, stages, idle_s),
                executor.memory,
                dt_s=self.period_s,
                period_s=self.period_s,
                quota=self.quota,
            )
            executor.memory = decision.memory
            self._write(number, decision.demand)
            quotas.append(executor.quota)
        self.trace.append((self.now_s, tuple(quotas)))
        return self.now_s + self.period_s

    def _write(self, number: int, demand: float) -> None:
        """As the arbiter with one application: whole quanta, floor to capacity."""
        quantum = self.quota.core_quantum
        cores = math.ceil(max(demand, self.quota.floor) / quantum - 1e-9) * quantum
        cores = round(min(cores, math.floor(self.cluster.cores / quantum + 1e-9) * quantum), 10)
        before, self.executors[number].quota = self.executors[number].quota, cores
        if cores == before:
            return
        self.writes += 1
        direction = 1 if cores > before else -1
        self.turns += self.directions[number] == -direction
        self.directions[number] = direction

    def _own(self, executor: _Executor) -> OwnStage:
        if self.stage is None:
            return OwnStage()
        stage = self.job.stages[self.stage]
        records_running = records_done = 0.0
        if stage.records is not None:
            each = stage.records / len(stage.works)
            records_done = each * executor.done
            records_running = each * sum(min(1.0, self.noise() * (1 - t.left / t.work)) for t in executor.running)
        return OwnStage(
            len(executor.running), executor.done, records_done + records_running, records_running, executor.cpu_core_s
        )

    def _plan(self, others: Sequence[OwnStage]) -> ApplicationPlan:
        slots = self.cluster.executors * self.cluster.slots
        upcoming = self.job.stages[self.begun :]
        busy: tuple[float, ...] = (0.0,) * slots
        # as `stage_model.match` does: finished stages correct the work of those to come
        prior = max(RATIO_PRIOR_CORE_S, RATIO_PRIOR_SHARE * sum(s.planned_core_s for s in self.job.stages))
        ratio = (prior + self.shown_work) / (prior + self.planned_done)
        for stage in upcoming:
            busy = add(busy, stages_busy([(len(stage.works), stage.planned_core_s * ratio, stage.planned_cv)], slots))
        fixed_s = self.job.tail_s + sum(s.gap_s for n, s in enumerate(upcoming) if n or self.stage is not None)
        if self.stage is None and upcoming and self.begun:
            fixed_s += max(0.0, upcoming[0].gap_s - (self.now_s - self.last_s))
        if not self.begun:
            fixed_s += max(0.0, self.job.startup_s - self.now_s)
        left_s = None if self.deadline_s is None else self.deadline_s - self.now_s
        return ApplicationPlan(
            application_id="app",
            name="app",
            law=self.law,
            settings=self.settings,
            deadline_s=self.deadline_s,
            left_s=left_s,
            elapsed_s=self.now_s,
            stages=() if self.stage is None else (self._stage_plan(self.stage, others, ratio),),
            future_busy=busy,
            future_fixed_s=fixed_s,
            slots=slots,
            executors=self.cluster.executors,
            cores=self.cluster.cores * self.cluster.executors,
            speed_limit=self.cluster.speed_limit,
        )

    def _stage_plan(self, number: int, others: Sequence[OwnStage], ratio: float) -> StagePlan:
        stage = self.job.stages[number]
        return StagePlan(
            stage=number,
            attempt=0,
            tasks=len(stage.works),
            work_core_s=stage.planned_core_s * ratio,
            records=stage.records,
            task_cv=stage.planned_cv,
            elsewhere_running=sum(o.running for o in others),
            elsewhere_done=sum(o.done for o in others),
            elsewhere_records=sum(o.records for o in others),
            elsewhere_records_running=sum(o.records_running for o in others),
            elsewhere_cpu_core_s=sum(o.cpu_core_s for o in others),
        )


def run(job: SimJob, cluster: SimCluster, deadline_s: float | None = None, **options: object) -> Outcome:
    """`Fluid(...).run()`."""
    return Fluid(job, cluster, deadline_s=deadline_s, **options).run()  # type: ignore[arg-type]


def all_cores(job: SimJob, cluster: SimCluster) -> Outcome:
    """The base, as stock Spark runs: every core of the cluster from the first to the last task."""
    everything = {"constant.cores": cluster.executors * cluster.cores}
    return run(job, cluster, 1.0, law="constant", settings=everything)
