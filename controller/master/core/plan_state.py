"""The goals of an application's stages, what was worked out for its plan, and the warning that it will be late. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from controller.master.core.capacity import Capacity
from stage_model.forecast.estimate import ApplicationEstimate
from stage_model.forecast.match import Matched
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.stage_run import StageKey, StageRun

LATE_REPORTS = 3
"""Forecasts past the deadline in a row before the user is warned: one may be noise."""


@dataclass(slots=True)
class StageGoal:
    """A stage's deadline, fixed by the first plan after its submission (document 004, section 2). Seconds count from
    submission.

    Short stages form a group with the ones after them, named by the stage attempt that began it (`group`): then
    `length_s` and `work_core_s` are the group's, of which `group_share` is this stage's and `group_base` was done before
    it. `own_core_s` is this stage's own work as it was expected then: the work is known better while the stage runs. `due_s`
    is the deadline of the job or the application that this goal was made from."""

    submitted_s: float
    length_s: float
    work_core_s: float
    own_core_s: float
    group: StageKey
    group_base: float = 0.0
    group_share: float = 1.0
    due_s: float = 0.0

    @property
    def cores(self) -> float:
        """Cores with which the group ends in time."""
        return self.work_core_s / self.length_s if self.length_s > 0 else math.inf


@dataclass(slots=True)
class PlanCache:
    """Results that follow from what the stages of an application are matched by, and are dropped when that changes
    (`remaining`)."""

    estimate: ApplicationEstimate
    matched: Matched
    ahead: dict[tuple[frozenset[int] | None, int, Capacity], RemainingSchedule] = field(default_factory=dict)
    """Schedules by jobs (None: all), slots and the most there is to have."""


@dataclass(frozen=True, slots=True)
class RemainingSchedule:
    """The forecast of the stages to come (`ahead`), that of all stages (`shape`), the pace so far, and the seconds kept for
    work beyond the plan."""

    ahead: Forecast
    shape: Forecast
    last_task_sd_s: float
    doubt: float
    pace: float
    further_s: float


@dataclass(slots=True)
class PlanState:
    """The part of an application that `goals`, `remaining` and `lateness` keep."""

    goals: dict[StageKey, StageGoal] = field(default_factory=dict)
    awaiting_goals: dict[StageKey, float] = field(default_factory=dict)
    """Stages for which the next plan fixes a goal, with their submission in seconds after the application's."""
    cache: PlanCache | None = None
    """Results of `remaining`; None since something has changed that the stages seen so far are matched by: what ended stages
    did, or what those under way have `shown`."""
    _late_reports: int = 0
    _warned: bool = False

    def drop_cache(self) -> None:
        """Have everything worked out again, because the stages may be matched by something else now."""
        self.cache = None

    def drop_goals(self, stages: Iterable[StageRun]) -> None:
        """Forget the goals of stages, and the warning: the deadline that they were made from has changed."""
        self._warned, self._late_reports = False, 0
        for stage in stages:
            self.goals.pop(stage.key, None)

    def warns(self, *, late: bool) -> bool:
        """Take in whether the last forecast is late; return True if enough of them were in a row and no warning was given."""
        self._late_reports = self._late_reports + 1 if late else 0
        if self._warned or self._late_reports < LATE_REPORTS:
            return False
        self._warned = True
        return True
