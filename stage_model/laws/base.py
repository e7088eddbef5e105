"""The interface of a control law: it takes a `View` of one application on one worker and returns a `Decision`.

A law is one file of this folder that ends in a `Law`, and one row of the table in `stage_model.laws`. All control the
*stage's* progress over all executors (docs/control.md, "What is controlled"). Not covered: when a law is asked at all
(`controller.agent.core.decide`), and sharing a worker (`controller.agent.core.arbitrate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from stage_model.deadlines import round_up
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.stage_run import StageKey
from stage_model.live import StageLive
from stage_model.plan import ApplicationPlan
from stage_model.settings import CORE_QUANTUM, QuotaSettings, Topic


class LawState(Struct, frozen=True):
    """The memory of one executor from period to period: its last demand, and what its law keeps besides, which no other law
    looks into."""

    demand: float | None = None
    kept: Any = None


class Decision(Struct, frozen=True):
    """`demand` in cores for this executor. `planned`: a law asked for it, so less of it is a squeeze. `beyond_saving`: not
    even all cores would keep the deadline. `ranked_s`: seconds left until the deadline by which the application is ranked,
    None for that of the plan.
    `stage`, `set_point`, `progress` describe the stage shown in records; `forecast_end_s` is seconds after submission."""

    demand: float
    state: LawState
    reason: str
    planned: bool = False
    beyond_saving: bool = False
    ranked_s: float | None = None
    forecast_end_s: float | None = None
    stage: int | None = None
    set_point: float | None = None
    progress: float | None = None


class View(Struct, frozen=True):
    """The input of a law. `plan` is aged to now and has a deadline; `own` are the tasks that this executor could run now,
    `total` is the sum of that over all executors (an estimate, so not always a whole number), `slots` are this executor's;
    `speed_limit`: cores that one of its tasks can use at most; `dt_s` is the time since the last decision."""

    plan: ApplicationPlan
    stages: Sequence[StageLive]
    slots: int
    own: int
    total: float
    speed_limit: float
    left_s: float
    deadline_s: float
    dt_s: float
    quota: QuotaSettings
    state: LawState

    @property
    def share(self) -> float:
        """The executor's share of the cores that the application needs. Its tasks count by the speed of its worker, and the
        other tasks by the mean speed of the other slots."""
        others = self.plan.slots - self.slots
        there = self.plan.speed_limit * self.plan.slots - self.speed_limit * self.slots
        speed = min(1.0, there / others) if others > 0 and there > 0 else self.speed_limit
        own = self.own * self.speed_limit
        return own / (own + (self.total - self.own) * speed) if own > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Law:
    """`decide` is the law. `settings` are its constants, read from `spark.pace.law.NAME.*`. `planned_cores` answers
    `sparkpace plan`: the cores for a whole application by its forecast, its deadline (seconds), the most cores there are, and
    the constants by name.

    `always`: the law is asked without tasks, without a profile and beyond any hope, too. `stage_deadlines`: the law follows
    the stage deadlines of document 004, so `plan` shows them. `foresees`: the law knows what the stages to come need before
    one of them runs."""

    decide: Callable[[View], Decision]
    settings: type[Topic]
    planned_cores: Callable[[Forecast, float, float, Mapping[str, float]], float]
    always: bool = False
    stage_deadlines: bool = False
    foresees: bool = False


def least_cores(forecast: Forecast, within_s: float, most: float) -> float:
    """Return the cores with which the application ends within `within_s`, in whole quanta; `most` if that is not enough."""
    wanted = forecast.least_cores(within_s)
    return most if wanted is None else round_up(min(wanted, most), CORE_QUANTUM)


def control_groups(stages: Sequence[StageLive]) -> dict[StageKey, list[StageLive]]:
    groups: dict[StageKey, list[StageLive]] = {}
    for stage in stages:
        groups.setdefault(stage.plan.control_group, []).append(stage)
    return groups


def group_progress(stages: Sequence[StageLive]) -> float:
    """Return the progress of a control group of which these stages are under way: its stages that have ended count in
    full."""
    submitted = max([stage.plan.group_base + stage.plan.group_share for stage in stages])
    ended = submitted - math.fsum([stage.plan.group_share for stage in stages])
    return min(1.0, max(0.0, ended) + math.fsum([stage.plan.group_share * stage.progress() for stage in stages]))
