"""The control laws behind one interface: a law takes a `View` of one application on one worker and says a `Decision`.

`forecast`: the least cores with which the application ends in time (`stage_model.forecast_law`). `paper`: dynaSpark's PI law
(`stage_model.paper_law`). `constant`: a yardstick. All control the *stage's* progress over all executors
(docs/control.md, "What is controlled"). Not covered: when a law is asked at all (`decide`), sharing a worker (`arbitrate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stage_model.forecast_law import outlook
from stage_model.live import StageLive
from stage_model.paper_law import PaperLimits, PaperState, core_max, step
from stage_model.plan import ApplicationPlan
from stage_model.settings import ConstantSettings, ForecastSettings, PaperSettings, QuotaSettings

StageKey = tuple[int, int]
"""Stage id and attempt."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the decision remembers from period to period: the last demand, and the paper's integrator per control group (the
    one begun last comes last)."""

    demand: float | None = None
    paper: Mapping[StageKey, PaperState] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """`demand` in cores for this executor. `planned`: a law asked for it, so less of it is a squeeze. `beyond_saving`: not
    even all cores would keep the deadline.
    `stage`, `set_point`, `progress` describe the stage shown in records; `forecast_end_s` is seconds after submission."""

    demand: float
    memory: Memory
    reason: str
    planned: bool = False
    beyond_saving: bool = False
    forecast_end_s: float | None = None
    stage: int | None = None
    set_point: float | None = None
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What a law sees. `plan` is aged to now and has a deadline; `own` and `total` are the tasks that this executor and all
    of them could run now, `slots` this executor's; `dt_s` is the time since the last decision."""

    plan: ApplicationPlan
    stages: Sequence[StageLive]
    slots: int
    own: int
    total: int
    left_s: float
    deadline_s: float
    dt_s: float
    quota: QuotaSettings
    memory: Memory


Law = Callable[[View], Decision]


def control_groups(stages: Sequence[StageLive]) -> dict[StageKey, list[StageLive]]:
    """Stages by the control group they belong to."""
    groups: dict[StageKey, list[StageLive]] = {}
    for stage in stages:
        groups.setdefault(stage.plan.control_group, []).append(stage)
    return groups


def group_progress(stages: Sequence[StageLive]) -> float:
    """Progress of a control group of which these stages are under way: those of it that have ended count in full."""
    submitted = max(stage.plan.group_base + stage.plan.group_share for stage in stages)
    ended = submitted - math.fsum(stage.plan.group_share for stage in stages)
    return min(1.0, max(0.0, ended) + math.fsum(stage.plan.group_share * stage.progress() for stage in stages))


def forecast(view: View) -> Decision:
    """This executor's share, by runnable tasks, of the least cores for the application; never more than its own tasks use."""
    plan = view.plan
    settings = ForecastSettings.from_numbers(plan.settings)
    last_task_s = plan.future_task_sd_s or max((stage.plan.task_sd_s for stage in view.stages), default=0.0)
    aim_s = view.left_s - (1 - settings.alpha) * view.deadline_s - settings.surety * last_task_s
    seen = outlook(
        view.stages,
        future_busy=plan.future_busy,
        future_fixed_s=plan.future_fixed_s,
        work_ratio=plan.work_ratio,
        slots=plan.slots,
        speed_limit=plan.speed_limit,
        left_s=min(aim_s, (1 - settings.lead) * aim_s) / plan.pace,
        most_cores=plan.cores,
    )
    most = view.own * plan.speed_limit
    wanted = plan.cores if seen.wary_cores is None else min(seen.wary_cores, plan.cores)
    demand = min(most, wanted * view.own / view.total)
    held = view.memory.demand
    # a demand that only flickers around a quantum is kept: raise when short, lower when a quantum and a half too high
    if held is not None and held <= most and demand <= held < demand + 1.5 * view.quota.core_quantum:
        demand = held
    fastest_s = plan.pace * seen.forecast.time_s(plan.cores)
    on_time = seen.cores is not None and seen.cores <= plan.cores
    return Decision(
        demand,
        view.memory,
        f"forecast: {wanted:.2f} cores for the application",
        planned=True,
        beyond_saving=fastest_s > view.left_s,
        forecast_end_s=plan.elapsed_s + (max(aim_s, fastest_s) if on_time else fastest_s),
    )


def paper(view: View) -> Decision:
    """The PI law for each control group that this executor can run tasks of; groups under way at the same time add up."""
    settings = PaperSettings.from_numbers(view.plan.settings)
    groups, before = control_groups(view.stages), view.memory.paper
    # a group may have nothing to run here for a while, and the one begun last may wait for its next stage
    kept = {*groups, *list(before)[-1:]}
    states = {group: state for group, state in before.items() if group in kept}
    cores, reasons = [], []
    for group, stages in groups.items():
        plan = stages[0].plan
        runnable = min(view.slots, sum(stage.waiting + stage.own_running for stage in stages))
        planned = plan.set_point
        if not runnable or planned is None:
            continue
        initial = plan.initial_cores or view.quota.floor
        limits = PaperLimits(
            core_min=view.quota.floor,
            core_max=core_max(initial, overscale=settings.overscale, slots=float(view.slots)),
            tasks_left=float(runnable if settings.quota_cap > 0 else view.slots),
        )
        progress = group_progress(stages)
        state = states.get(group, PaperState(initial))
        out = step(state, planned, progress, limits, view.dt_s, settings, view.quota.core_quantum)
        cores.append(out.cores)
        states[group] = out.state
        reasons.append(f"stage {stages[-1].plan.stage}: error {planned - progress:+.3f}")
    return Decision(
        min(math.fsum(cores), float(view.slots)),
        Memory(None, states),
        "; ".join(reasons),
        planned=True,
        beyond_saving=view.left_s < 0,
    )


def constant(view: View) -> Decision:
    """Always the same cores, shared equally by the executors, tasks or not."""
    cores = ConstantSettings.from_numbers(view.plan.settings).cores
    return Decision(min(float(view.slots), cores / view.plan.executors), view.memory, "constant", planned=True)


LAWS: Mapping[str, Law] = {"paper": paper, "forecast": forecast, "constant": constant}
