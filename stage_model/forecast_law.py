"""The `forecast` law: the least cores with which the whole application ends at its deadline, found anew every period.

Work left of the running stages comes from profile and live progress, work of later stages from the master's plan; both are
one virtual-time schedule (`virtual_time`), so an error in one stage is repaid by the next. Source: control.md.
Not covered: sharing with other applications (`controller.agent.arbitrate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stage_model.live import StageLive
from stage_model.virtual_time import STEADY_WAVES, Busy, Forecast, add, schedule, task_works

LEAST_REMAINDER = 0.05
"""A running task that has used all the work expected of it is taken to need this share of it still (censored observation)."""
MOST_REMAINDER_CV = 2.0
"""What is left of the running tasks spreads no further than this around its mean."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """`cores`: the least for the whole application to end in time, None when no number is enough."""

    cores: float | None
    forecast: Forecast


class WorkLeft(NamedTuple):
    """Core-seconds left of each running and each waiting task, and of the waiting ones beyond `STEADY_WAVES`, which keep
    all slots busy; seconds left that no core shortens."""

    running: list[float]
    waiting: list[float]
    steady_core_s: float
    fixed_s: float


def stage_work_left(stage: StageLive, slots: int) -> WorkLeft:
    """What is left of one stage on `slots` slots.

    The work of a task is the profile's, moved towards what this run shows in proportion to how much of the stage this run
    has shown; work seen inside running tasks counts half, as reading may run ahead of computing.
    """
    plan = stage.plan
    if not plan.tasks:
        return WorkLeft([], [], 0.0, 0.0)
    done, running = stage.ended, stage.started
    fraction = stage.running_fraction()
    seen = (done + running * fraction) / plan.tasks
    sure = (done + 0.5 * running * fraction) / plan.tasks
    work = plan.work_core_s
    if seen > 0 and stage.cpu_core_s > 0:
        shown = stage.cpu_core_s / seen
        work = (1 - sure) * work + sure * shown if work > 0 else shown
    task = work / plan.tasks
    remainder = task * max(1 - fraction, LEAST_REMAINDER)
    # tasks differ by task_cv * task, and so does what is left of them: the last wave has a tail too
    remainder_cv = min(MOST_REMAINDER_CV, plan.task_cv * task / remainder) if remainder > 0 else 0.0
    steady = max(0, stage.waiting - STEADY_WAVES * slots)
    return WorkLeft(
        task_works(running, remainder, remainder_cv),
        task_works(stage.waiting - steady, task, plan.task_cv),
        steady * task,
        plan.fixed_s * max(0.0, 1 - seen),
    )


def outlook(
    stages: Sequence[StageLive],
    *,
    future_busy: Busy,
    future_fixed_s: float,
    slots: int,
    speed_limit: float,
    left_s: float,
) -> Outlook:
    """Forecast of an application with these stages under way and `left_s` seconds until the end aimed at."""
    running: list[float] = []
    waiting: list[float] = []
    steady_core_s, fixed_s = 0.0, future_fixed_s
    for stage in stages:
        left = stage_work_left(stage, slots)
        running += left.running
        waiting += left.waiting
        steady_core_s += left.steady_core_s
        fixed_s += left.fixed_s
    busy = list(schedule(running, waiting, slots))
    busy[slots - 1] += steady_core_s / slots
    forecast = Forecast(add(tuple(busy), future_busy), fixed_s, speed_limit)
    return Outlook(forecast.least_cores(left_s), forecast)
