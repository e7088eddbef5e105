"""The night of several applications, from their event logs: how it was, and with which cores each would have ended in time.

Each job begins when it began, and its fewest cores are found by itself (`saving`). Pure. Not covered: whether the jobs fit a
cluster together, which a job that runs for longer on fewer cores may change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from stage_model.errors import BadInput
from stage_model.forecast.curve import reference_slots, whole
from stage_model.forecast.estimate import estimate, reference_run
from stage_model.forecast.saving import Saving, saving, slot_cores
from stage_model.history.held import Held
from stage_model.history.profile import Profile

LATEST_S = 240_000_000_000
"""Seconds since the epoch, in the year 9575: a broken log may claim any time, and calendars end with the year 9999. What is
left is more than the margin of a picture, a twentieth of all that it shows."""


class NightJob(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `start_s` and `end_s` are seconds since the epoch; the seconds in `held` and `saving` count from `start_s`.
    Executors hold `cores_per_slot` for each core of the forecast (`slot_cores`)."""

    name: str
    start_s: float
    end_s: float
    held: Held
    saving: Saving
    cores_per_slot: float = 1.0

    @property
    def fewest_held(self) -> float | None:
        """The fewest cores, counted as `held` counts them; None where all cores are too few."""
        return None if self.saving.fewest_cores is None else self.saving.fewest_cores * self.cores_per_slot

    @property
    def new_end_s(self) -> float | None:
        """The end with the fewest cores, in seconds since the epoch; None where all cores are too few."""
        return None if self.saving.end_s is None else self.start_s + self.saving.end_s


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """The `jobs` in order of their start, and the moment by which each of them should end, in seconds since the epoch. A job
    needs what it held, less what its fewest cores save."""

    deadline_s: float
    jobs: tuple[NightJob, ...]
    held_core_s: float
    needed_core_s: float

    @property
    def feasible(self) -> bool:
        return all(job.saving.fewest_cores is not None for job in self.jobs)


def night(runs: Sequence[tuple[Profile, Held]], deadline_s: float | None) -> Night:
    """Return the night of at least one run, each as a profile of this run only, with what it held. A run that is there twice
    counts once. The deadline is in seconds since the epoch (None: the moment at which the last run ended). Raise `BadInput`
    for a profile without a complete run."""
    once = {reference_run(known).id: (known, held) for known, held in runs}.values()
    if deadline_s is None:
        deadline_s = max(_end_s(known) for known, _ in once)
    jobs = sorted((_job(known, held, deadline_s) for known, held in once), key=lambda job: (job.start_s, job.name))
    held_core_s = math.fsum(job.saving.held_core_s for job in jobs)
    saved_core_s = math.fsum(job.saving.saved_core_s for job in jobs)
    return Night(
        deadline_s=deadline_s, jobs=tuple(jobs), held_core_s=held_core_s, needed_core_s=max(0.0, held_core_s - saved_core_s)
    )


def first_start_s(runs: Sequence[tuple[Profile, Held]]) -> float:
    """Return the start of the first run, in seconds since the epoch. Raise `BadInput` for a run at a time that no calendar
    has."""
    for known, _ in runs:
        if not 0 <= _start_s(known) <= _end_s(known) <= LATEST_S:
            raise BadInput(
                f"the run of {known.key!r} began {_start_s(known):g} s after 1970 and ended {_end_s(known):g} s after it, "
                "which no calendar has; give event logs whose times are those of a clock"
            )
    return min(_start_s(known) for known, _ in runs)


def _start_s(known: Profile) -> float:
    return reference_run(known).when_ms / 1e3


def _end_s(known: Profile) -> float:
    return _start_s(known) + reference_run(known).duration_s


def _job(known: Profile, held: Held, deadline_s: float) -> NightJob:
    run, most = reference_run(known), float(reference_slots(known))
    forecast, within_s = whole(estimate(known), int(most)), deadline_s - _start_s(known)
    if _end_s(known) <= deadline_s:  # the run has shown that its cores are enough, whatever the forecast makes of them
        within_s = max(within_s, forecast.time_s(most))
    return NightJob(
        name=known.key,
        start_s=_start_s(known),
        end_s=_end_s(known),
        held=held,
        saving=saving(forecast, within_s, most, held, slot_cores(run)),
        cores_per_slot=slot_cores(run),
    )
