"""The figures of an ended run from its samples and events: pure.

Allocated core-seconds are the integral of the cores that executors held, used ones the growth of container CPU, both from
the first to the last task. Seconds count from submission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from controller.wire.worker import Sample, by_executor, cores_between


@dataclass(frozen=True, slots=True)
class Use:
    """Core-seconds, and the most cores allocated at one time over all executors."""

    allocated_core_s: float
    used_core_s: float
    peak_cores: float


def use_between(samples: Sequence[Sample], start_s: float, end_s: float) -> Use:
    """Add samples up over [start_s, end_s]: cores are those of `cores_between`, and CPU grew evenly between two samples."""
    allocated = used = 0.0
    moments: list[tuple[float, float]] = []
    for rows in by_executor(samples):
        for before, row in pairwise(rows):
            span = min(row.time_s, end_s) - max(before.time_s, start_s)
            if span > 0:
                cores = cores_between(before, row)
                allocated += cores * span
                used += max(0.0, row.cpu_core_s - before.cpu_core_s) * span / (row.time_s - before.time_s)
                moments += [(max(before.time_s, start_s), cores), (min(row.time_s, end_s), -cores)]
    # at equal times what ends goes first
    peak = max(accumulate((change for _, change in sorted(moments)), initial=0.0))
    return Use(allocated, used, peak)


def error_pct(end_s: float, deadline_s: float | None) -> float | None:
    """Return the deadline error in percent of the deadline; negative is early."""
    return None if deadline_s is None else 100.0 * (end_s - deadline_s) / deadline_s
