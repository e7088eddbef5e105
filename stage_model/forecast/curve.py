"""Forecasts of the stages to come and of whole applications, and curves of how long an application takes with each number of
cores: T(c) of `virtual_time` over a range, with an interval.

The interval reaches from the least to the most that a single run of the profile predicts, and holds the forecast of all runs.
The interval is a spread, no probability. One run gives no interval. See docs/profiles.md. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stage_model.errors import BadInput
from stage_model.forecast.estimate import ApplicationEstimate, StageEstimate, estimate, reference_run
from stage_model.forecast.overlap import overlapping
from stage_model.forecast.scaling import DISTINCT_SIZES
from stage_model.forecast.virtual_time import Forecast, side_by_side, stages_busy, stages_weighed, with_waiting
from stage_model.history.profile import Profile, profile

POINTS = 8
"""Numbers of cores in a curve, evenly spread up to the most."""
MOST_SLOTS = 100_000
"""Most slots of a curve: a profile may claim any number, and a schedule has a place for each slot."""


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from submission to the end with `cores`; `least_s` and `most_s` are None with one run."""

    cores: float
    end_s: float
    least_s: float | None = None
    most_s: float | None = None


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """`runs` is the number of runs that the interval is of."""

    profile: str
    slots: int
    runs: int
    points: tuple[CurvePoint, ...]


def to_come(stages: Sequence[StageEstimate], slots: int, ratio: float, speed_limit: float = 1.0) -> Forecast:
    """Return the forecast of stages that follow, their works times `ratio`. Stages that overlapped in the profile run at the
    same time, the others one after the other. `speed_limit` is as in `Forecast`."""
    parts = list[Forecast]()
    for group in overlapping(stages):
        # all works times the ratio: the same schedule, stretched
        sized = tuple([(s.tasks, s.work_core_s, s.task_cv) for s in group])
        busy = tuple([ratio * seconds for seconds in stages_busy(sized, slots)])
        latency_s, waiting_s = side_by_side([(s.fixed_s, s.waiting_s) for s in group])
        apart, waits = waiting_s > 0 and len(group) > 1, tuple([s.waiting_s for s in group])
        states = [(k, ratio * v, weight) for k, v, weight in stages_weighed(sized, waits, slots)] if apart else []
        parts.append(with_waiting(busy, group[0].gap_s + latency_s, waiting_s, speed_limit, states))
    return Forecast((0.0,) * slots, 0.0, speed_limit).then(*parts)


def whole(expected: ApplicationEstimate, slots: int, speed_limit: float = 1.0, spent_s: float = 0.0) -> Forecast:
    """Return the whole application to its end, `spent_s` after its submission: that much less of the start-up."""
    found = to_come(expected.stages, slots, 1.0, speed_limit)
    startup_s = max(0.0, expected.first_task_s - spent_s)
    fixed_s = max(0.0, found.fixed_s + startup_s + expected.tail_s + expected.rest_s)
    return msgspec.structs.replace(found, fixed_s=fixed_s)


def reference_slots(known: Profile) -> int:
    """Return the slots of the reference run. Raise `BadInput` for a profile without a complete run or without slots."""
    slots = reference_run(known).slots
    if not 0 < slots <= MOST_SLOTS:
        raise BadInput(f"profile {known.key!r} has a last run of {slots} slots; a curve needs 1 to {MOST_SLOTS}")
    return slots


def single_forecasts(known: Profile, expected: ApplicationEstimate, slots: int, speed_limit: float = 1.0) -> list[Forecast]:
    """Return what each run of the profile that is like its last run predicts by itself. `expected` is the estimate of the
    whole profile. Raise `BadInput` for a profile without a complete run."""
    if len(known.runs) == 1:
        return [whole(expected, slots, speed_limit)]
    size = reference_run(known).input_records
    alike = [
        run
        for run in known.runs
        if run.complete
        and run.cpu_source == expected.cpu_source
        and max(run.input_records, size) <= DISTINCT_SIZES * min(run.input_records, size)
    ]
    return [whole(estimate(profile(known.key, (run,))), slots, speed_limit) for run in alike]


def curve(
    known: Profile, slots: int, most_cores: float, speed_limit: float = 1.0, expected: ApplicationEstimate | None = None
) -> Curve:
    """Return the curve on `slots` slots, with an eighth, two eighths, ... of `most_cores`; `speed_limit` as in `Forecast`.
    `expected` is the estimate of the whole profile; without it, the estimate is made here.
    Raise `BadInput` for a profile without a complete run."""
    expected = estimate(known) if expected is None else expected
    alone = single_forecasts(known, expected, slots, speed_limit)
    forecast = whole(expected, slots, speed_limit)
    points = []
    for number in range(1, POINTS + 1):
        cores = most_cores * number / POINTS
        ends = [forecast.time_s(cores), *(one.time_s(cores) for one in alone)]
        spread = len(alone) > 1
        points.append(
            CurvePoint(
                cores=cores, end_s=ends[0], least_s=min(ends) if spread else None, most_s=max(ends) if spread else None
            )
        )
    return Curve(profile=known.key, slots=slots, runs=len(alone), points=tuple(points))
