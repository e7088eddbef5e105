"""Stage deadlines and initial cores, exactly as document 004 has them (section 2; docs/design.md).

Durations and deadlines are seconds. Not covered here: where the durations come from (profiles), how many cores a stage's
work asks for (`controller.master.core.capacity`), and what is done with them (`stage_model.laws.paper`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

from stage_model.settings import CORE_QUANTUM


def omega(count: int, total_s: float, duration_s: float, beta: float) -> float:
    """Return how often a stage fits into the time left: beta * |R| + (1 - beta) * sum(durations) / its duration.

    `count` stages are still to run, itself included, with profiled durations of `total_s` in all. A stage with duration 0
    while others have some gets inf for beta < 1 (no share of the time); where all are 0, shares are equal.
    """
    if count == 1:
        # Exactly 1, whatever its duration: the last stage gets all the time left.
        return 1.0
    if total_s == 0:
        return float(count)
    by_profile = total_s / duration_s if duration_s > 0 else math.inf
    # 0 * inf is not a number: with beta = 1 the profile has no say at all.
    return beta * count + ((1 - beta) * by_profile if beta < 1 else 0.0)


def stage_deadline(
    remaining_s: Sequence[float], index: int, *, deadline_s: float, spent_s: float, alpha: float, beta: float
) -> float:
    """Return the seconds that stage `index` of the remaining stages may take, from its submission: never negative.

    `deadline_s` and `spent_s` are the application's, counted from submission. 0 means that no time is left (alpha * deadline
    has passed) or that the profile gives the stage no share; the stage then gets all there is. Raise `ValueError` for
    an index outside, a negative duration, and an alpha or beta outside [0, 1].
    """
    if not 0 <= index < len(remaining_s):
        raise ValueError(f"index {index} is not one of the {len(remaining_s)} remaining stages")
    _check(remaining_s, alpha, beta)
    share = omega(len(remaining_s), math.fsum(remaining_s), remaining_s[index], beta)
    return max(0.0, alpha * deadline_s - spent_s) / share


def stage_deadlines(
    durations_s: Sequence[float], *, deadline_s: float, spent_s: float, alpha: float, beta: float
) -> list[float]:
    """Return what `stage_deadline` gives each of these stages if all stages before it take exactly theirs, in time
    proportional to their number. Raise `ValueError` as `stage_deadline` does."""
    lengths: list[float] = []
    _check(durations_s, alpha, beta)
    left_s = [*accumulate(reversed(durations_s))][::-1]
    for index, duration_s in enumerate(durations_s):
        share = omega(len(durations_s) - index, left_s[index], duration_s, beta)
        lengths.append(max(0.0, alpha * deadline_s - spent_s) / share)
        spent_s += lengths[-1]
    return lengths


def set_point(elapsed_s: float, length_s: float) -> float:
    """Return the planned progress `elapsed_s` after the stage's submission; 1 from its deadline on (at once if that is 0
    long)."""
    if length_s <= 0 or elapsed_s >= length_s:
        return 1.0
    return max(0.0, elapsed_s / length_s)


def initial_cores(cores: float, executors: int) -> float:
    """Return the cores of one executor: its share of the stage's, rounded up to whole quanta."""
    if executors < 1:
        raise ValueError(f"{executors} executors share no cores")
    return round_up(cores / executors)


def round_up(cores: float, core_quantum: float = CORE_QUANTUM) -> float:
    """Return the least multiple of `core_quantum` that is not below `cores`; what floats blur (0.15 / 0.05) does not
    count."""
    quanta = math.ceil(cores / core_quantum - 1e-9)
    # Ten decimals: 3 * 0.05 reads 0.15, not 0.15000000000000002.
    return round(quanta * core_quantum, 10)


def _check(durations_s: Sequence[float], alpha: float, beta: float) -> None:
    if any(not 0 <= duration_s < math.inf for duration_s in durations_s):
        raise ValueError("durations are finite and not negative")
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} is {value}; it lies in [0, 1]")
