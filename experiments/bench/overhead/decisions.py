"""The cost of the core of an agent's period: `controller.agent.core.step.step` for all executors of a worker."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from controller.agent.core.step import ExecutorInput, LoopState, Snapshot, TimedPlan, step
from controller.runtime.base import ExecutorKey, Observed
from stage_model.forecast.virtual_time import add, stages_busy
from stage_model.plan import ApplicationPlan, StagePlan
from stage_model.progress import SCHEMA, Progress, StageProgress
from stage_model.settings import QuotaSettings

SLOTS, STAGES_TO_COME = 4, 5
QUOTA = QuotaSettings()


@dataclass(frozen=True, slots=True)
class One:
    """An executor with the plan of its application: a stage under way, others to come. `cpu_s`: the CPU that it has used so
    far."""

    plan: ApplicationPlan
    progress: Progress
    cpu_s: float


def executors(count: int, seed: int) -> list[One]:
    """Return executors on one worker, each of an application of its own, with two more of that application elsewhere."""
    rng = random.Random(seed)
    return [_one(number, rng) for number in range(count)]


def _one(number: int, rng: random.Random) -> One:
    slots = 3 * SLOTS
    tasks = rng.randint(4 * slots, 12 * slots)
    task_core_s, cv = rng.uniform(0.5, 2.0), rng.uniform(0.1, 0.5)
    done = rng.randrange(tasks - slots)
    busy = (0.0,) * slots
    for _ in range(STAGES_TO_COME):
        count = rng.randint(4 * slots, 12 * slots)
        busy = add(busy, stages_busy(((count, count * task_core_s, cv),), slots))
    work = task_core_s * (tasks - done) + sum(k * v for k, v in enumerate(busy, 1))
    stage = StagePlan(
        stage=3,
        attempt=0,
        tasks=tasks,
        work_core_s=tasks * task_core_s,
        records=1000.0 * tasks,
        task_cv=cv,
        fixed_s=0.2,
        left_s=30.0,
        length_s=60.0,
        initial_cores=1.0,
        elsewhere_running=2 * SLOTS,
        elsewhere_done=2 * done // 3,
        elsewhere_records=1000.0 * (2 * done // 3) + 400.0 * 2 * SLOTS,
        elsewhere_records_running=400.0 * 2 * SLOTS,
        elsewhere_cpu_core_s=task_core_s * (2 * done // 3 + 0.4 * 2 * SLOTS),
        elsewhere_speed=1.0,
    )
    plan = ApplicationPlan(
        application_id=f"application-{number}",
        name="made-up",
        deadline_s=600.0,
        left_s=work / rng.uniform(0.5, 4.0) + 10.0,
        elapsed_s=100.0,
        stages=(stage,),
        future_busy=busy,
        future_fixed_s=2.0,
        slots=slots,
        executors=3,
        cores=float(slots),
    )
    mine = done - 2 * done // 3
    claim = StageProgress(
        stage=3, attempt=0, running=SLOTS, done=mine, records_done=round(1000.0 * mine), records_running=round(400.0 * SLOTS)
    )
    progress = Progress(schema=SCHEMA, executor="1", sequence=1, stages=(claim,))
    return One(plan, progress, task_core_s * (mine + 0.4 * SLOTS))


def snapshot(here: Sequence[One], capacity: float, age_s: float) -> Snapshot:
    """Return the worker `age_s` seconds after the plans came, each executor having used half a core since."""
    executors, plans = {}, {}
    for one in here:
        key = ExecutorKey(one.plan.application_id, "1")
        observed = Observed(key, True, 0.5, one.cpu_s + 0.5 * age_s, 1 << 30)
        executors[key] = ExecutorInput(SLOTS, observed, one.progress, QUOTA.floor)
        plans[key.application_id] = TimedPlan(one.plan, 0.0)
    return Snapshot(capacity, QUOTA, executors, plans)


def timed_steps(here: Sequence[One], steps: int) -> list[float]:
    """Return the milliseconds of each of `steps` periods in a row, on a worker with half the cores that all together could
    use."""
    state, took_ms = LoopState(), []
    for number in range(steps):
        age_s = 0.02 * number
        seen = snapshot(here, SLOTS * len(here) / 2, age_s)
        begun_s = time.perf_counter()
        _, state = step(seen, state, age_s)
        took_ms.append(1000 * (time.perf_counter() - begun_s))
    return took_ms
