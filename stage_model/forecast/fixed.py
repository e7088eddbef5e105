"""How much of a stage's duration its work and its cores explain; the rest is fixed time that no core shortens.

Shuffle waits, task launch, result transfer and the like show up as the difference between a stage's real duration and the
virtual-time schedule of its work on the cores it had (docs/control.md, What goes in).
"""

from __future__ import annotations

from functools import lru_cache

from stage_model.forecast.virtual_time import Busy, Forecast, stage_busy
from stage_model.history.profile import RunRecord, StageRecord

LEAST_CORES = 1e-6
"""With less nothing ran: a profile may claim what no quota can be, and what divides to nothing."""
MOST_SLOTS = 1024
"""A profile may claim any number of slots and tasks; what it takes to model a stage must not grow with them."""


def explained_s(stage: StageRecord, run: RunRecord) -> float:
    """Seconds the model gives for the stage with the cores it had in that run (its mean quota, else the run's cores)."""
    if stage.duration_s <= 0:
        return 0.0
    cores = stage.cores_s / stage.duration_s if stage.cores_s else run.cores
    return modelled_s(stage.tasks, stage.work_core_s, stage.task_cv, cores, run.cores, run.slots)


def modelled_s(tasks: int, work_core_s: float, cv: float, cores: float, most_cores: float, slots: int) -> float:
    """Seconds that a stage of this work takes with `cores` of at most `most_cores` on `slots`; 0 without work or cores."""
    cores = min(cores, most_cores)
    if work_core_s <= 0 or cores < LEAST_CORES:
        return 0.0
    slots = max(1, slots)
    # more slots than tasks change nothing; of more than `MOST_SLOTS` a part with its part of tasks and cores takes as long
    part = max(1.0, min(slots, tasks) / MOST_SLOTS)
    busy = _unit_busy(round(tasks / part), cv, min(round(slots / part), MOST_SLOTS))
    forecast = Forecast(busy, speed_limit=min(1.0, most_cores / slots))
    return work_core_s / part * forecast.time_s(cores / part)


@lru_cache(maxsize=4096)
def _unit_busy(tasks: int, cv: float, slots: int) -> Busy:
    """Of one core-second: every work stretches the same schedule, so runs of one profile share it."""
    return stage_busy(tasks, 1.0, cv, slots)
