"""The control laws behind one interface: a law takes a `View` of one application on one worker and says a `Decision`.

`forecast`: the least cores with which the application ends in time (`stage_model.forecast_law`). `paper`: dynaSpark's PI law
(`stage_model.paper_law`). `constant`: a yardstick. All control the *stage's* progress over all executors (architecture.md,
Control). Not covered: when a law is asked at all (`decide`), sharing a worker (`arbitrate`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from stage_model.forecast_law import outlook
from stage_model.live import StageLive
from stage_model.paper_law import PaperLimits, PaperState, step
from stage_model.plan import ApplicationPlan, StagePlan
from stage_model.settings import ConstantSettings, ForecastSettings, PaperSettings, QuotaSettings

StageKey = tuple[int, int]
"""Stage id and attempt."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the decision remembers from period to period: the last demand, and the paper's integrator per stage."""

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


def set_point(plan: StagePlan) -> float | None:
    """Planned progress of the stage's control group: rises from 0 to 1 over the stage deadline (mission.md section 1)."""
    if plan.left_s is None or not plan.length_s:
        return None
    return min(1.0, max(0.0, 1.0 - plan.left_s / plan.length_s))


def group_progress(stage: StageLive) -> float:
    """Progress of the control group that the stage belongs to."""
    return min(1.0, stage.plan.group_base + stage.plan.group_share * stage.progress())


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
    """The PI law for each stage that this executor can run tasks of; stages under way at the same time add up."""
    settings = PaperSettings.from_numbers(view.plan.settings)
    demand, states, reasons = 0.0, {}, []
    for stage in view.stages:
        runnable = min(view.slots, stage.waiting + stage.own_running)
        planned = set_point(stage.plan)
        if not runnable or planned is None:
            continue
        key = (stage.plan.stage, stage.plan.attempt)
        initial = stage.plan.initial_cores or view.quota.floor
        state = view.memory.paper.get(key) or _carried(view.memory, stage) or PaperState(initial)
        limits = PaperLimits(
            core_min=view.quota.floor,
            core_max=min(settings.overscale * initial, float(view.slots)),
            tasks_left=float(runnable if settings.quota_cap > 0 else view.slots),
        )
        progress = group_progress(stage)
        out = step(state, planned, progress, limits, view.dt_s, settings, view.quota.core_quantum)
        demand += out.cores
        states[key] = out.state
        reasons.append(f"stage {stage.plan.stage}: error {planned - progress:+.3f}")
    return Decision(
        min(demand, float(view.slots)), Memory(None, states), "; ".join(reasons), planned=True, beyond_saving=view.left_s < 0
    )


def _carried(memory: Memory, stage: StageLive) -> PaperState | None:
    """A later stage of the same control group goes on with the group's integrator."""
    return next(iter(memory.paper.values()), None) if stage.plan.group_base > 0 else None


def constant(view: View) -> Decision:
    """Always the same cores, shared equally by the executors, tasks or not."""
    cores = ConstantSettings.from_numbers(view.plan.settings).cores
    return Decision(min(float(view.slots), cores / view.plan.executors), view.memory, "constant", planned=True)


LAWS: Mapping[str, Law] = {"paper": paper, "forecast": forecast, "constant": constant}
