"""What an agent's decide step costs: `decide` for every executor of a worker, then `arbitrate` over all of them."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from controller.agent.arbitrate import arbitrate
from controller.agent.asking import request
from controller.agent.decide import Executor, Memory, OwnStage, aged, decide
from stage_model.plan import ApplicationPlan, StagePlan
from stage_model.settings import QuotaSettings
from stage_model.virtual_time import add, stage_busy

SLOTS, STAGES_TO_COME = 4, 5
QUOTA = QuotaSettings()


@dataclass(frozen=True, slots=True)
class One:
    """An executor with the plan of its application: a stage under way, others to come."""

    plan: ApplicationPlan
    executor: Executor


def executors(count: int, seed: int) -> list[One]:
    """On one worker, each of an application of its own, with two more of that application elsewhere."""
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
        busy = add(busy, stage_busy(count, count * task_core_s, cv, slots))
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
    own = OwnStage(SLOTS, mine, 1000.0 * mine + 400.0 * SLOTS, 400.0 * SLOTS, task_core_s * (mine + 0.4 * SLOTS))
    return One(plan, Executor(SLOTS, {(3, 0): own}, 0.0))


def step(here: Sequence[One], memory: list[Memory], capacity: float, age_s: float) -> dict[int, float]:
    """One period's grants, by place; `memory` goes on."""
    requests = []
    for place, one in enumerate(here):
        plan = aged(one.plan, age_s)
        decision = decide(plan, one.executor, memory[place], dt_s=1.0, period_s=1.0, quota=QUOTA)
        memory[place] = decision.memory
        requests.append(request(place, plan.application_id, decision, one.plan, age_s, QUOTA.floor))
    return arbitrate(requests, capacity, QUOTA.core_quantum)


def timed_steps(here: Sequence[One], steps: int) -> list[float]:
    """Milliseconds of each of so many periods in a row, on a worker with half the cores that all together could use."""
    memory, took_ms = [Memory()] * len(here), []
    for number in range(steps):
        begun_s = time.perf_counter()
        step(here, memory, SLOTS * len(here) / 2, 0.02 * number)
        took_ms.append(1000 * (time.perf_counter() - begun_s))
    return took_ms
