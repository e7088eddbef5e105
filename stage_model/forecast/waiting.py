"""How much of a stage's fixed time was waiting, which a quota hides, and how much is latency, which adds. Pure.

A task that waits for a disk, for another process on a busy machine or for the driver uses no core meanwhile. Held back by a
quota, it makes good for the waiting within the same quota period, as what it did not use is still there. So waiting shows in
runs at full speed and disappears in squeezed ones. Latency stays in both: the quota's periods pass unused. Which of both a
stage's fixed time was, runs tell that a quota held back by different shares (docs/control.md, Waiting and latency).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

HELD_BACK = 1 / 3
"""A stage that quotas kept from this share of what it could have used has shown which part of its fixed time they hide."""
ALIKE = 0.1
"""Runs whose shares differ by no more than this tell the same."""


class Shown(Struct, frozen=True):
    """One run of a stage: its fixed time, its mean cores, its work, how long quotas held its threads back (None: not known),
    and for how long its tasks ran and yet neither computed nor were held back, with all slots' tasks at once."""

    fixed_s: float
    cores: float
    work_core_s: float
    throttled_s: float | None
    waited_s: float = 0.0


def split(runs: Sequence[Shown]) -> tuple[float, float]:
    """Fixed time of a stage at full speed, and the part of it that is waiting, from at least one run.

    The runs that were held back least tell the fixed time. What is left of it in those that were held back most is latency.
    Where none was held back by much, what its tasks waited is waiting, and time in which no task ran is latency; all of it is
    latency where throttled time is not known. To take waiting for latency costs cores, to take latency for waiting costs the
    deadline.
    """
    most_cores = max(run.cores for run in runs)
    shares = [_held_back(run, most_cores) for run in runs]
    least, most = min(shares), max(shares)
    fixed_s = median(run.fixed_s for run, share in zip(runs, shares, strict=True) if share <= least + ALIKE)
    held_most = [run for run, share in zip(runs, shares, strict=True) if share >= most - ALIKE]
    if most >= HELD_BACK:
        return fixed_s, fixed_s - min(fixed_s, median(run.fixed_s for run in held_most))
    if any(run.throttled_s is None for run in held_most):
        return fixed_s, 0.0
    return fixed_s, min(fixed_s, median(run.waited_s for run in held_most))


def _held_back(run: Shown, most_cores: float) -> float:
    """The share of the core-seconds it could have used that quotas kept from it, 0 to 1. Where throttled time is not known:
    how many fewer cores it had than it had in another run."""
    if run.throttled_s is None:
        return 1 - run.cores / most_cores if most_cores > 0 else 0.0
    wanted_core_s = run.work_core_s + run.throttled_s
    return run.throttled_s / wanted_core_s if wanted_core_s > 0 else 0.0
