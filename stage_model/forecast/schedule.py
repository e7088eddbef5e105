"""Stages that follow, as one virtual-time schedule: parallel branches together, the others one after the other. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from stage_model.forecast.estimate import StageEstimate
from stage_model.forecast.overlap import overlapping
from stage_model.forecast.virtual_time import Busy, add, stages_busy, with_waiting


def to_come(stages: Sequence[StageEstimate], slots: int, ratio: float, speed_limit: float = 1.0) -> tuple[Busy, float]:
    """Return the busy tuple and fixed seconds of stages that follow, their works times `ratio`. Stages that overlapped in the
    profile run at the same time. `speed_limit` is as in `Forecast`."""
    busy: Busy = (0.0,) * slots
    fixed_s = 0.0
    for group in overlapping(stages):
        # all works times the ratio: the same schedule, stretched
        computing = stages_busy(tuple((s.tasks, s.work_core_s, s.task_cv) for s in group), slots)
        latency_s, waiting_s = side_by_side([(s.fixed_s, s.waiting_s) for s in group])
        lasting, more_s = with_waiting(tuple([ratio * seconds for seconds in computing]), waiting_s, speed_limit)
        busy = add(busy, lasting)
        fixed_s += group[0].gap_s + latency_s + more_s
    return busy, fixed_s


def side_by_side(fixed: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the latency and waiting of stages that run at the same time, from each one's fixed time and the part of it that
    is waiting. These times pass together, so the longest latency and the longest fixed time count."""
    latency_s = max([fixed_s - waiting_s for fixed_s, waiting_s in fixed], default=0.0)
    return latency_s, max([fixed_s for fixed_s, _ in fixed], default=0.0) - latency_s
