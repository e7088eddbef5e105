"""The core-seconds that pacing would have saved in a run that was only watched, with an interval. Pure.

The run keeps its deadline, or without one ends when it did. The interval is that of `curve`: it reaches from the least to the
most that a single run of the profile lets expect, and is a spread, no probability. One run gives no interval. Not covered:
what a law takes on top of the fewest cores.
"""

from __future__ import annotations

import msgspec

from stage_model.errors import BadInput
from stage_model.forecast.curve import reference_slots, single_forecasts, whole
from stage_model.forecast.estimate import estimate, reference_run
from stage_model.forecast.saving import saving, slot_cores
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.held import Held
from stage_model.history.profile import Profile, profile


class WatchedSaving(msgspec.Struct, frozen=True, kw_only=True):
    """`least_deadline_s`: the earliest deadline, in seconds after submission, that the run's cores could have met. Of the
    `runs` that the interval is of, one gives none: then `least_core_s` and `most_core_s` are None."""

    least_deadline_s: float
    saved_core_s: float
    least_core_s: float | None
    most_core_s: float | None
    runs: int


def watched_saving(known: Profile, run_id: str, held: Held, deadline_s: float | None) -> WatchedSaving:
    """Return what the fewest cores would have saved of what the run held. Runs that came later do not count, because the
    estimate is of the last run's size. Raise `BadInput` for a profile without this run."""
    upto = next((number for number, run in enumerate(known.runs, 1) if run.id == run_id), 0)
    if not upto:
        raise BadInput(f"profile {known.key!r} has no run {run_id!r} (any more); name one of its last runs")
    known = profile(known.key, known.runs[:upto])
    run, slots = reference_run(known), reference_slots(known)
    most = min(run.cores or slots, float(slots))

    def saved_core_s(forecast: Forecast) -> float:
        within_s = max(held.end_s, forecast.time_s(most)) if deadline_s is None else deadline_s
        return saving(forecast, within_s, most, held, slot_cores(run)).saved_core_s

    forecast, singles = whole(estimate(known), slots), single_forecasts(known, slots)
    found = [saved_core_s(forecast), *(saved_core_s(single) for single in singles)]
    spread = len(singles) > 1
    return WatchedSaving(
        least_deadline_s=forecast.time_s(most),
        saved_core_s=found[0],
        least_core_s=min(found) if spread else None,
        most_core_s=max(found) if spread else None,
        runs=len(singles),
    )
