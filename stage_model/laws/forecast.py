"""The law `forecast`: the least cores with which the whole application ends at its deadline, found again every period.

Work left of the running stages comes from profile and live progress, work of later stages from the master's plan; both are
one virtual-time schedule (`stage_model.forecast`), so an error in one stage is repaid by the next. See docs/control.md. Not
covered: sharing with other applications (`controller.agent.core.arbitrate`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from msgspec import Struct

from stage_model.forecast.virtual_time import (
    STEADY_WAVES,
    Forecast,
    WorkLeft,
    schedule,
    side_by_side,
    task_works,
    weighed,
    with_waiting,
)
from stage_model.history.cold import FIRST
from stage_model.laws.base import Decision, Law, View, least_cores
from stage_model.live import StageLive, tasks_worth
from stage_model.plan import ApplicationPlan
from stage_model.settings import LAW_PREFIX, Topic, setting

WARY = 2.0
"""Standard errors of further work in the stages to come that the law prepares for."""
MOST_REMAINDER_CV = 2.0
"""Largest coefficient of variation of what is left of the running tasks."""


@dataclass(frozen=True, slots=True)
class ForecastSettings(Topic):
    """The law `forecast` (docs/control.md)."""

    PREFIX: ClassVar[str] = LAW_PREFIX + "forecast."

    alpha: float = setting(
        0.995, "alpha", unit="", least=0, most=1, open_least=True,
        reason="a forecast re-planned every period needs little spare time",
    )  # fmt: skip
    surety: float = setting(
        3.0, "surety", unit="tasks", least=0,
        reason="the end hangs on the last tasks: this many standard deviations of one are kept besides, until they run",
    )  # fmt: skip
    lead: float = setting(
        0.1, "lead", unit="", least=0, most=0.5,
        reason="this share of the time left is kept ahead: what is late in the last stage cannot be made good",
    )  # fmt: skip


class Outlook(Struct, frozen=True):
    """`cores`: the least cores for the whole application to end in time, None when no number is enough. `wary_cores`: at
    least as many, so that the stages to come still have time enough should the profile say too little of them."""

    cores: float | None
    wary_cores: float | None
    forecast: Forecast


def stage_work_left(stage: StageLive, slots: int) -> WorkLeft:
    """Return what is left of one stage on `slots` slots.

    The work of a task to come is the profile's, moved towards what this run shows: the mean of two estimates, each weighed by
    how sure it is. The profile's estimate may be off by `PROFILE_DOUBT`; the mean of n tasks seen by task_cv / sqrt(n), where
    work seen inside running tasks counts half, because reading may run ahead of computing.
    """
    plan = stage.plan
    if not plan.tasks:
        return WorkLeft([], [], 0.0, 0.0)
    done, running = stage.ended, stage.started
    fraction, left = stage.running_parts()
    seen = (done + running * fraction) / plan.tasks
    shown_tasks = done + 0.5 * running * fraction
    sure = shown_tasks / (shown_tasks + tasks_worth(plan))
    work, shown = _work_ahead(stage, seen)
    if seen > 0 and stage.cpu_core_s > 0:
        work = (1 - sure) * work + sure * shown if plan.work_core_s > 0 else shown
    task = work / plan.tasks
    remainder = task * left
    # tasks differ by task_cv * task, and so does what is left of them: the last wave has a tail too
    remainder_cv = min(MOST_REMAINDER_CV, plan.task_cv * task / remainder) if remainder > 0 else 0.0
    steady = max(0, stage.waiting - STEADY_WAVES * slots)
    return WorkLeft(
        task_works(running, remainder, remainder_cv),
        task_works(stage.waiting - steady, task, plan.task_cv),
        steady * task,
        plan.fixed_s * max(0.0, 1 - seen),
        plan.waiting_s * max(0.0, 1 - seen),
    )


COLD_VARIES = 1.25
"""Largest ratio of a stage's cold part to the learned cold part at which its other work is still as profiled."""


def _work_ahead(stage: StageLive, seen: float) -> tuple[float, float]:
    """Return the core-seconds of a stage of which all is like what is to come once the share `seen` is done: by the profile,
    and as this run shows them.

    The cold part comes with the first records, at any time before a quarter of them is read. So until then CPU that the stage
    has used beyond its other work is taken for cold, up to that part. Where it has used twice what is expected, twice the
    profile's work is to come, or more: what was used beyond the cold part will be used again by each later share. Where it
    has used less, its code may have been warm from the start, so that what it has used says what is to come.
    """
    plan, used = stage.plan, stage.cpu_core_s
    cold = min(plan.cold_core_s, plan.work_core_s)
    if cold <= 0:
        return plan.work_core_s, used / seen if seen > 0 else 0.0
    warm = plan.work_core_s - cold
    expected = warm * seen + (cold if seen >= FIRST else min(max(0.0, used - warm * seen), cold))
    profiled = (plan.work_core_s - expected) / (1 - seen) if seen < FIRST else warm
    if expected <= 0 or seen <= 0:
        return profiled, profiled
    return profiled, max(profiled * used / expected, min(used / seen, profiled), (used - COLD_VARIES * cold) / seen)


def outlook(stages: Sequence[StageLive], plan: ApplicationPlan, left_s: float) -> Outlook:
    """Return the forecast of an application with these stages under way, the plan's work to come, and `left_s` seconds until
    the end aimed at."""
    slots, speed_limit = plan.slots, plan.speed_limit
    parts = [stage_work_left(stage, slots) for stage in stages]
    running, waiting = [work for part in parts for work in part.running], [work for part in parts for work in part.waiting]
    busy = schedule(running, waiting, slots, sum([part.steady_core_s for part in parts]))
    latency_s, waiting_s = side_by_side([(part.fixed_s, part.waiting_s) for part in parts])
    states = weighed(parts, slots) if waiting_s > 0 and len(parts) > 1 else []
    now = with_waiting(busy, latency_s, waiting_s, speed_limit, states)
    future = Forecast(plan.future_busy, plan.future_fixed_s, speed_limit, plan.future_limited)
    forecast = now.then(future)
    cores = forecast.least_cores(left_s)
    # finished stages that needed less than profiled promise nothing for later stages; finished stages that needed more are a
    # warning
    more = (1 + WARY * plan.future_doubt) * max(1.0, 1 / plan.work_ratio)
    return Outlook(cores, _wary(cores, now, future.times(more), left_s, plan.cores), forecast)


def _wary(cores: float | None, now: Forecast, worst: Forecast, left_s: float, most_cores: float) -> float | None:
    """Return the cores with which the stages under way end so early that the stages to come, should they be as the `worst`
    forecast has them, still end in time with all cores. The cores spent now are saved later, when doubt has become
    knowledge."""
    if cores is None or not now.states or not worst.states:
        return cores
    needed = now.least_cores(left_s - worst.time_s(most_cores))
    return max(cores, most_cores if needed is None else min(needed, most_cores))


def _unsure_s(stage: StageLive) -> float:
    """Return how much the stage's last task may still differ from the mean, in seconds: all of `task_sd_s` while tasks wait,
    then less and less."""
    if stage.waiting:
        return stage.plan.task_sd_s
    left = 1 - stage.running_parts()[0] if stage.started else 0.0
    # records show the mean of the running tasks: when it is half done, the task that began last may have just begun. CPU
    # shows the mean of the long ones already
    return stage.plan.task_sd_s * min(1.0, 2 * left if stage.signal == "records" and not stage.reads_ahead else left)


def decide(view: View) -> Decision:
    """Return this executor's share of the least cores for the application, never more than its own tasks use. Executors share
    by runnable tasks and by the cores that a task can use on their workers."""
    plan = view.plan
    settings = ForecastSettings.from_numbers(plan.settings)
    last_task_s = plan.future_task_sd_s or max([_unsure_s(stage) for stage in view.stages], default=0.0)
    aim_s = view.left_s - plan.further_s - (1 - settings.alpha) * view.deadline_s - settings.surety * last_task_s
    seen = outlook(view.stages, plan, min(aim_s, (1 - settings.lead) * aim_s) / plan.pace)
    most = view.own * view.speed_limit
    wanted = plan.cores if seen.wary_cores is None else min(seen.wary_cores, plan.cores)
    fastest_s = plan.pace * seen.forecast.time_s(plan.cores)
    late = fastest_s > view.left_s
    # a late run asks for all it can use, whatever work seems to be left: the plan was wrong already
    demand = min(most, plan.cores if late else wanted * view.share)
    held = view.state.demand
    # a demand that only flickers around a quantum is kept: raise when short, lower when a quantum and a half too high, or a
    # fifth: a small demand that stays too high ends a job early
    if held is not None and held <= most and demand <= held < demand + min(1.5 * view.quota.core_quantum, 0.2 * demand):
        demand = held
    on_time = seen.cores is not None and seen.cores <= plan.cores
    return Decision(
        demand,
        view.state,
        f"forecast: {wanted:.2f} cores for the application",
        planned=True,
        beyond_saving=late,
        forecast_end_s=plan.elapsed_s + (max(aim_s, fastest_s) if on_time else fastest_s),
    )


def planned_cores(forecast: Forecast, deadline_s: float, most: float, constants: Mapping[str, float]) -> float:
    return least_cores(forecast, ForecastSettings.from_numbers(constants).alpha * deadline_s, most)


LAW = Law(decide, ForecastSettings, planned_cores, foresees=True)
