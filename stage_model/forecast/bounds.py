"""The bounds of an application's largest stages: which of them more cores would shorten, and what holds the others. Pure.

All follows from the estimate of each stage: the driver's time before it, its fixed time, and its work as a schedule on the
slots that there are. Times are those of the runs that the estimate is from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from stage_model.forecast.estimate import ApplicationEstimate, StageEstimate
from stage_model.forecast.overlap import overlapping
from stage_model.forecast.virtual_time import stages_busy

LARGEST = 5
"""Number of stages that are shown."""
LEAST_BUSY = 0.5
"""Share of the slots that tasks keep busy while they compute: below it there are too few tasks, or one lasts too long."""

Bound = Literal["CPU", "too few tasks", "waiting", "driver"]


class StageBound(msgspec.Struct, frozen=True, kw_only=True):
    """A stage and its `bound`, the largest part of its `time_s`, which are the seconds from the end of the stages it waited
    for to its own end: the driver's, fixed time (`waiting`), or the computing of its tasks. Computing is bound by `CPU`, or
    by `too few tasks` to keep the slots busy. `share` is its part of the run's duration; stages that ran at the same time may
    have more than 1 together."""

    name: str
    bound: Bound
    tasks: int
    time_s: float
    share: float


def stage_bounds(expected: ApplicationEstimate, slots: int, duration_s: float) -> tuple[StageBound, ...]:
    """Return the largest stages of a run of `duration_s` on these slots, the largest first."""
    groups = {stage.index: group for group in overlapping(expected.stages) for stage in group}
    largest = sorted(expected.stages, key=lambda stage: (-_time_s(stage), stage.index))[:LARGEST]
    return tuple(
        StageBound(
            name=stage.name,
            bound=_bound(stage, groups[stage.index], slots),
            tasks=stage.tasks,
            time_s=_time_s(stage),
            share=_share(_time_s(stage), duration_s),
        )
        for stage in largest
    )


def driver_share(expected: ApplicationEstimate, duration_s: float) -> float:
    """Return the part of a run's duration in which no stage was under way: before the first, between stages, and after the
    last."""
    idle_s, end_s = expected.startup_s + expected.tail_s, expected.startup_s
    for stage in expected.stages:
        # not the stage's gap: this counts from the stages that it waited for, and others may have been under way
        idle_s += max(0.0, stage.start_s - end_s)
        end_s = max(end_s, stage.start_s + stage.duration_s)
    return _share(idle_s, duration_s)


def _time_s(stage: StageEstimate) -> float:
    return stage.gap_s + stage.duration_s


def _share(seconds: float, duration_s: float) -> float:
    return min(1.0, seconds / duration_s) if duration_s > 0 else 0.0


def _bound(stage: StageEstimate, group: Sequence[StageEstimate], slots: int) -> Bound:
    computing_s = stage.duration_s - stage.fixed_s
    if stage.gap_s >= max(stage.fixed_s, computing_s):
        return "driver"
    if stage.fixed_s >= computing_s:
        return "waiting"
    return "too few tasks" if _idle(group, slots) else "CPU"


def _idle(group: Sequence[StageEstimate], slots: int) -> bool:
    """Return True if the tasks of stages that run at the same time leave slots idle for more than the end of a schedule."""
    if sum(stage.tasks for stage in group) < slots:
        return True
    busy = stages_busy([(stage.tasks, stage.work_core_s, stage.task_cv) for stage in group], slots)
    work_core_s = math.fsum(k * lasting for k, lasting in enumerate(busy, 1))
    return work_core_s < LEAST_BUSY * slots * sum(busy)
