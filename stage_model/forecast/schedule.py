"""Stages that follow, as one virtual-time schedule: parallel branches together, the others one after the other. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from stage_model.forecast.estimate import StageEstimate
from stage_model.forecast.overlap import overlapping
from stage_model.forecast.virtual_time import Busy, add, stages_busy


def to_come(stages: Sequence[StageEstimate], slots: int, ratio: float) -> tuple[Busy, float]:
    """Busy tuple and fixed seconds of stages that follow: those that overlapped in the profile run together."""
    busy: Busy = (0.0,) * slots
    fixed_s = 0.0
    for group in overlapping(stages):
        busy = add(busy, _busy(tuple((s.tasks, s.work_core_s, s.task_cv) for s in group), slots))
        fixed_s += group[0].gap_s + max(s.fixed_s for s in group)
    # all works times the ratio: the same schedule, stretched
    return tuple(ratio * seconds for seconds in busy), fixed_s


@lru_cache(maxsize=4096)
def _busy(stages: tuple[tuple[int, float, float], ...], slots: int) -> Busy:
    """`stages_busy`, which is asked the same every period while nothing of these stages has begun."""
    return stages_busy(stages, slots)
