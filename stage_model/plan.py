"""The knowledge that an agent needs of an application to control it by itself: stages under way, work to come, time left.

The master makes these from profile and events (`controller.master.core.planning`), the laws read them (`stage_model.laws`).
Core-seconds are container CPU, times are seconds, `left_s` counts from the moment of sending. Not covered: the messages
around them.
"""

from __future__ import annotations

import msgspec

from stage_model.deadlines import set_point
from stage_model.forecast.doubt import PROFILE_DOUBT
from stage_model.forecast.virtual_time import Limited, spread
from stage_model.history.stage_run import StageKey
from stage_model.units import NORMAL_PRIORITY


class StagePlan(msgspec.Struct, frozen=True, kw_only=True):
    """One active stage attempt.

    `work_core_s` is expected for the whole stage (profile, corrected by this run), `cold_core_s` of it comes with the first
    records (`history.cold`); `records` expected or None when unknown, `task_cv` the coefficient of variation of task work,
    `skew` the longest task / mean, `fixed_s` the time that cores do not shorten, of which `waiting_s` is hidden where a quota
    holds the stage back. `left_s`, `length_s`, `initial_cores` (per
    executor): the stage deadline of document 004. A stage shorter than three periods is controlled with its neighbours: the
    deadline is then the group's, of whose work this stage is `group_share` and `group_base` was done before it. `group` is
    the stage and attempt that began the group; None: the stage is a group of its own. `elsewhere_*` is the other executors'
    part; `elsewhere_speed` their core-seconds per second.
    """

    stage: int
    attempt: int
    tasks: int
    name: str = ""
    work_core_s: float = 0.0
    cold_core_s: float = 0.0
    records: float | None = None
    task_cv: float = 0.0
    skew: float = 1.0
    fixed_s: float = 0.0
    waiting_s: float = 0.0
    left_s: float | None = None
    length_s: float | None = None
    initial_cores: float | None = None
    group: StageKey | None = None
    group_base: float = 0.0
    group_share: float = 1.0
    elsewhere_running: int = 0
    elsewhere_done: int = 0
    elsewhere_records: float = 0.0
    elsewhere_records_running: float = 0.0
    elsewhere_cpu_core_s: float = 0.0
    elsewhere_cpu_running_core_s: float = 0.0
    elsewhere_speed: float = 0.0

    @property
    def key(self) -> StageKey:
        return (self.stage, self.attempt)

    @property
    def control_group(self) -> StageKey:
        """Stage and attempt that name the group with which the stage is controlled."""
        return self.group or self.key

    @property
    def set_point(self) -> float | None:
        """Planned progress of the stage's control group, 0 to 1; None for a stage without a deadline."""
        if self.left_s is None or self.length_s is None:
            return None
        return set_point(self.length_s - self.left_s, self.length_s)

    @property
    def task_sd_s(self) -> float:
        """Seconds, on a core of its own, by which the last task may differ from the mean (`spread`)."""
        return spread(self.task_cv, self.skew, self.tasks) * self.work_core_s / max(1, self.tasks)


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """One of several deadlines in an application: an action's, or with `whole` the application's own. `stages` are the stages
    under way that the deadline applies to, by stage and attempt. The other fields are as in `ApplicationPlan`, for the work
    that the deadline applies to."""

    left_s: float
    deadline_s: float
    stages: tuple[StageKey, ...] = ()
    future_busy: tuple[float, ...] = ()
    future_limited: Limited = ()
    future_fixed_s: float = 0.0
    future_task_sd_s: float = 0.0
    future_doubt: float = PROFILE_DOUBT
    further_s: float = 0.0
    whole: bool = False


class ApplicationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One application.

    `left_s` until its deadline and `deadline_s` its length (both None: no deadline). `aims` are all deadlines, the first due
    first, where actions have deadlines and the application has one, too, or something else is under way; the other fields are
    then of the first aim. `fair`: Spark divides the slots among actions, else the action that came first goes first.
    `future_busy`, `future_limited` and `future_fixed_s` are the virtual-time schedule of all stages not yet submitted
    (`virtual_time`), their profiled work times `work_ratio`; `future_task_sd_s` is how much a task of the last of them may
    differ from the mean, 0 when no stage is to come; `future_doubt` is the relative standard error of their work. `further_s`
    seconds before the deadline are kept for work beyond the plan, which a run with other arguments may have
    (`forecast.beyond_plan`).
    `slots` and `executors` count over all workers, `cores` is the most that the executors can get together, `speed_limit` the
    most one task can use; `pace` is how much longer this run's stages took than the schedule of their work says
    (`stage_model.forecast.match.pace`). `known`: a profile exists; without one the run takes what is free and teaches.
    `evict`: executors of lower priority may be ended for it. `bytes_left` are those that its stages have still to read, and
    to write for shuffles, until the deadline, by the profile; None: they are not known.
    """

    application_id: str
    name: str
    law: str = "forecast"
    settings: dict[str, float] = {}
    priority: int = NORMAL_PRIORITY
    known: bool = True
    deadline_s: float | None = None
    left_s: float | None = None
    elapsed_s: float = 0.0
    stages: tuple[StagePlan, ...] = ()
    aims: tuple[Aim, ...] = ()
    fair: bool = False
    future_busy: tuple[float, ...] = ()
    future_limited: Limited = ()
    future_fixed_s: float = 0.0
    future_task_sd_s: float = 0.0
    future_doubt: float = PROFILE_DOUBT
    further_s: float = 0.0
    work_ratio: float = 1.0
    slots: int = 1
    executors: int = 1
    cores: float = 1.0
    speed_limit: float = 1.0
    pace: float = 1.0
    debt_core_s: float = 0.0
    evict: bool = False
    bytes_left: tuple[float, float] | None = None
