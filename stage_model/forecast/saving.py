"""The fewest cores that are enough, and the core-hours that an application could give back with them. Pure.

The fewest cores are held from the time when the log's first executor was there to the end that they give (T(c) of
`virtual_time`). Not covered: the cores that a law aims with (`stage_model.laws`).
"""

from __future__ import annotations

import msgspec

from stage_model.deadlines import round_up
from stage_model.errors import BadInput
from stage_model.forecast.curve import reference_slots, single_forecasts, whole
from stage_model.forecast.estimate import estimate, reference_run
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.held import Held
from stage_model.history.profile import Profile, RunRecord, profile
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


class WatchedSaving(msgspec.Struct, frozen=True, kw_only=True):
    """The core-seconds that pacing would have saved in a run that was only watched. The interval is that of `curve`: it
    reaches from the least to the most that a single run of the profile predicts. A profile of one run (`runs` is 1) gives no
    interval: then `least_core_s` and `most_core_s` are None. `least_deadline_s`: the earliest deadline, in seconds after
    submission, that the run's cores could have met."""

    least_deadline_s: float
    saved_core_s: float
    least_core_s: float | None
    most_core_s: float | None
    runs: int


def watched_saving(known: Profile, run_id: str, held: Held, deadline_s: float | None) -> WatchedSaving:
    """Return what the fewest cores would have saved of what the run held; without a deadline it ends when it did. Runs that
    came later do not count, because the estimate is of the last run's size. Raise `BadInput` for a profile without this
    run."""
    upto = next((number for number, run in enumerate(known.runs, 1) if run.id == run_id), 0)
    if not upto:
        raise BadInput(f"profile {known.key!r} has no run {run_id!r} (any more); name one of its last runs")
    known = profile(known.key, known.runs[:upto])
    run, slots = reference_run(known), reference_slots(known)
    most = min(run.cores or slots, float(slots))

    def saved_core_s(forecast: Forecast) -> float:
        within_s = max(held.end_s, forecast.time_s(most)) if deadline_s is None else deadline_s
        return saving(forecast, within_s, most, held, slot_cores(run)).saved_core_s

    expected = estimate(known)
    forecast, singles = whole(expected, slots), single_forecasts(known, expected, slots)
    found = [saved_core_s(forecast), *(saved_core_s(single) for single in singles)]
    spread = len(singles) > 1
    return WatchedSaving(
        least_deadline_s=forecast.time_s(most),
        saved_core_s=found[0],
        least_core_s=min(found) if spread else None,
        most_core_s=max(found) if spread else None,
        runs=len(singles),
    )
