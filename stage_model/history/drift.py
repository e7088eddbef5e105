"""The test whether an application's work has changed over its profile's runs, and since which of them. Pure.

The change point is that of Pettitt (1979), "A non-parametric approach to the change-point problem", Applied Statistics 28,
with his approximation of the probability that the same order of runs comes about by chance.
"""

from __future__ import annotations

import math
from statistics import median

import msgspec

from stage_model.errors import BadInput
from stage_model.forecast.scaling import at_size
from stage_model.history.profile import Profile, RunRecord

LEAST_RUNS = 11
"""Number of runs below which no order of the runs has a probability of at most `CHANCE`."""
CHANCE = 0.05


class Drift(msgspec.Struct, frozen=True, kw_only=True):
    """`change` of the median work per run, as a share: 0.2 is 20% more. `since_ms` is the first run after the change; both
    are None where no drift is seen, and `chance` too where the comparable `runs` are fewer than `LEAST_RUNS`."""

    profile: str
    runs: int
    chance: float | None = None
    change: float | None = None
    since_ms: int | None = None


def drift(known: Profile) -> Drift:
    """Return the drift over the complete runs with CPU measured as in the last one. Raise `BadInput` for runs without
    work."""
    complete = [run for run in known.runs if run.complete]
    runs = [run for run in complete if run.cpu_source == complete[-1].cpu_source]
    if len(runs) < LEAST_RUNS:
        return Drift(profile=known.key, runs=len(runs))
    works = _at_one_size(runs)
    place, chance = pettitt(works)
    if chance > CHANCE:
        return Drift(profile=known.key, runs=len(runs), chance=chance)
    change = median(works[place:]) / median(works[:place]) - 1
    return Drift(profile=known.key, runs=len(runs), chance=chance, change=change, since_ms=runs[place].when_ms)


def pettitt(values: list[float]) -> tuple[int, float]:
    """Return where the second part begins, and the probability of so clear a change by chance."""
    count = len(values)
    best, most = 1, 0
    for place in range(1, count):
        score = abs(sum((late > early) - (late < early) for early in values[:place] for late in values[place:]))
        if score > most:
            best, most = place, score
    return best, min(1.0, 2 * math.exp(-6 * most**2 / (count**3 + count**2)))


def _at_one_size(runs: list[RunRecord]) -> list[float]:
    """Return the core-seconds of each run over the core-seconds that its input predicts."""
    works = [run.work_core_s for run in runs]
    sizes = [float(run.input_records) for run in runs]
    expected = [at_size(works, sizes, size).amount for size in sizes]
    if min(works) <= 0 or min(expected) <= 0:
        raise BadInput("a run of the profile has no work, so nothing can be compared; it needs runs with CPU time")
    return [work / one for work, one in zip(works, expected, strict=True)]
