"""The fewest cores that are enough, and the core-hours that an application could give back with them. Pure.

The fewest cores are held from the time when the log's first executor was there to the end that they give (T(c) of
`virtual_time`). Not covered: the cores that a law aims with (`stage_model.laws`).
"""

from __future__ import annotations

import msgspec

from stage_model.deadlines import round_up
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.held import Held
from stage_model.history.profile import RunRecord
from stage_model.settings import CORE_QUANTUM

ROUNDING = 1e-9
"""Share of a time that floats may blur. Without it, a run that has no second to spare would need a core for each slot."""


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds count from submission. `fewest_cores` end within `within_s`, namely at `end_s`; both are None where all cores
    are too few. `saved_core_s`, of the `held_core_s`, are 0 then, and where executors that came and went held less than the
    fewest cores would."""

    within_s: float
    fewest_cores: float | None
    end_s: float | None
    held_core_s: float
    saved_core_s: float


def fewest_cores(forecast: Forecast, within_s: float, most: float) -> float | None:
    """Return the fewest cores with T(c) <= `within_s`, in whole quanta and at most `most`; None where these are too few."""
    allowed_s = within_s * (1 + ROUNDING)
    if forecast.time_s(most) > allowed_s:
        return None
    exact = forecast.least_cores(allowed_s)
    return most if exact is None else min(most, max(CORE_QUANTUM, round_up(exact, CORE_QUANTUM)))


def saving(forecast: Forecast, within_s: float, most: float, held: Held, cores_per_slot: float = 1.0) -> Saving:
    """Return what the fewest cores save. `cores_per_slot`: the number of cores that executors hold for each core of the
    forecast (`slot_cores`)."""
    cores = fewest_cores(forecast, within_s, most)
    if cores is None:
        return Saving(within_s=within_s, fewest_cores=None, end_s=None, held_core_s=held.core_s, saved_core_s=0.0)
    end_s = forecast.time_s(cores)
    needed_core_s = cores * cores_per_slot * max(0.0, end_s - held.first_s)
    saved_core_s = max(0.0, held.core_s - needed_core_s)
    return Saving(within_s=within_s, fewest_cores=cores, end_s=end_s, held_core_s=held.core_s, saved_core_s=saved_core_s)


def slot_cores(run: RunRecord) -> float:
    """Return how many cores of executors a slot holds: above 1 where each task has several (spark.task.cpus)."""
    return max(1.0, run.cores / run.slots) if run.slots else 1.0
