"""The advice that event logs of one application give at once: what could be saved, how sure that is, and what bounds its
largest stages. Pure.

All figures are those of the estimate and of T(c), which `sparkpace plan` shows anyway. See docs/profiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from stage_model.forecast.bounds import StageBound, driver_share, stage_bounds
from stage_model.forecast.curve import curve, reference_slots, whole
from stage_model.forecast.estimate import ApplicationEstimate, reference_run
from stage_model.forecast.saving import Saving, saving, slot_cores
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.held import Held
from stage_model.history.profile import Profile
from stage_model.units import format_duration

LARGE_SHARE = 1 / 3
"""Share of the run's time from which on the advice names the time that no cores shorten."""


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """`took_s` is the duration of the last run, and `saving` compares the fewest cores with what that run held. `sure` is a
    clause on how far single runs differ; `doubts` are the reasons for which the plan may be wrong. `driver_share` is the part
    of that run's duration in which no stage was under way."""

    took_s: float
    saving: Saving
    sure: str
    doubts: tuple[str, ...]
    largest_stages: tuple[StageBound, ...]
    driver_share: float


def advice(
    known: Profile,
    expected: ApplicationEstimate,
    held: Held,
    most: float,
    deadline_s: float | None,
    doubts: Sequence[str],
) -> Advice:
    """Return the advice for at most `most` cores. `expected` is the estimate of the profile, and `held` is what the last run
    held. Without a deadline (seconds) the fewest cores are those for the time that it took, or that `most` cores take if that
    is longer. `doubts` are the doubts that are known already. Raise `BadInput` for a profile without a complete run."""
    run, had = reference_run(known), reference_slots(known)
    slots = max(had, math.ceil(most))
    forecast = whole(expected, slots)
    within_s = max(run.duration_s, forecast.time_s(most)) if deadline_s is None else deadline_s
    found = saving(forecast, within_s, most, held, slot_cores(run))
    cores = most if found.fewest_cores is None else found.fewest_cores
    return Advice(
        took_s=run.duration_s,
        saving=found,
        sure=_sure(known, expected, slots, cores),
        doubts=(*doubts, *_further_doubts(forecast, cores, slot_cores(run))),
        largest_stages=stage_bounds(expected, had, run.duration_s),
        driver_share=driver_share(expected, run.duration_s),
    )


def _sure(known: Profile, expected: ApplicationEstimate, slots: int, cores: float) -> str:
    runs = sum(1 for run in known.runs if run.complete)
    if runs == 1:
        return "not known, because one run gives no interval"
    point = curve(known, slots, cores, expected=expected).points[-1]
    if point.least_s is None or point.most_s is None:
        return f"not known, because no other of the {runs} runs read about as much as the last one"
    ends = f"{format_duration(point.least_s)} to {format_duration(point.most_s)}"
    return f"with {cores:.2f} cores, single runs predict an end after {ends}"


def _further_doubts(forecast: Forecast, cores: float, per_slot: float) -> list[str]:
    found, takes_s = list[str](), forecast.time_s(cores)
    if forecast.fixed_s >= LARGE_SHARE * takes_s > 0:
        share = forecast.fixed_s / takes_s
        found.append(f"{share:.0%} of the time is fixed: start-up, pauses of the driver and waiting, which no cores shorten")
    if per_slot > 1:
        found.append(f"each task has {per_slot:g} cores of its executor, of which a plan counts one and core-hours count all")
    return found
