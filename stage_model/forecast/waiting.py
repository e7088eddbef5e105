"""The parts of a stage's fixed time: waiting, which a quota hides, and latency, which adds. Pure.

A task that waits for a disk, for another process on a busy machine or for the driver uses no core meanwhile. Under a quota
the task makes up for the waiting within the same quota period, because the unused part of the quota is still there. So
waiting shows in runs at full speed and disappears in squeezed ones. Latency stays in both: the quota's periods pass unused.
Runs that quotas held back by different shares show how large each part is (docs/control.md, "Waiting and latency").
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from msgspec import Struct

HELD_BACK = 1 / 3
"""Share of the CPU that a stage could have used: a stage from which quotas withheld it has shown the part of its fixed time
that quotas hide."""
ALIKE = 0.1
"""Runs whose shares differ by no more than this count as equally held back."""


class Shown(Struct, frozen=True):
    """One run of a stage: its fixed time in seconds, its mean cores, its work, the seconds that quotas held its threads back
    (None: not known), and the seconds that its tasks ran and neither computed nor were held back, with all slots' tasks at
    once."""

    fixed_s: float
    cores: float
    work_core_s: float
    throttled_s: float | None
    waited_s: float = 0.0


def split(runs: Sequence[Shown]) -> tuple[float, float]:
    """Return the fixed time of a stage at full speed, and the part of it that is waiting, from at least one run.

    The fixed time is that of the runs that were held back least. The fixed time left in the runs that were held back most is
    latency. Where no run was held back by much, the time that tasks waited is waiting, and time in which no task ran is
    latency; if throttled time is not known there, all of the fixed time is latency. Waiting taken for latency costs cores;
    latency taken for waiting costs the deadline.
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
    """Return the share, 0 to 1, of the core-seconds that the stage could have used and that quotas withheld. Where throttled
    time is not known, it is the share of `most_cores`, the most that the stage had in any run, that it did not have."""
    if run.throttled_s is None:
        return 1 - run.cores / most_cores if most_cores > 0 else 0.0
    return held_share(run.throttled_s, run.work_core_s)


def held_share(throttled_s: float, work_core_s: float) -> float:
    """Return the share, 0 to 1, of the core-seconds that a stage could have used and that quotas withheld."""
    wanted_core_s = work_core_s + throttled_s
    return throttled_s / wanted_core_s if wanted_core_s > 0 else 0.0
