"""How a quantity of a stage (work, records, duration) depends on the run's input size, from several runs.

Not covered: which runs count (`estimate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

DISTINCT_SIZES = 1.1
"""Inputs that differ by less than this factor are one size: the difference is data, not a trend."""


def at_size(amounts: Sequence[float], sizes: Sequence[float], size: float, scale: float = 1.0) -> float:
    """The amount expected at input `size` (records), at least 0.

    `amounts` were seen at `sizes`. With two distinct sizes a line a + b * size is fitted (least squares, b >= 0),
    else the median is scaled in proportion; without known sizes (0) by `scale`.
    """
    known = [(s, a) for s, a in zip(sizes, amounts, strict=True) if s > 0]
    if not known or size <= 0:
        return median(amounts) * scale
    least, most = min(s for s, _ in known), max(s for s, _ in known)
    if most < DISTINCT_SIZES * least:
        return median(a for _, a in known) * size / median(s for s, _ in known)
    mean_size, mean_amount = fmean(s for s, _ in known), fmean(a for _, a in known)
    spread = sum((s - mean_size) ** 2 for s, _ in known)
    slope = max(0.0, sum((s - mean_size) * (a - mean_amount) for s, a in known) / spread)
    return max(0.0, mean_amount + slope * (size - mean_size))
