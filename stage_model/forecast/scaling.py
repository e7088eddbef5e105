"""The growth of a quantity of a stage (work, duration) with what the stage reads, from several runs.

Not covered: which runs count (`estimate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

DISTINCT_SIZES = 1.1
"""Inputs that differ by less than this factor are one size: the difference is data, not a trend."""


class Fitted(NamedTuple):
    """An amount, and how much of it grows in proportion to what is read: as a share of it, above 1 where it grows faster."""

    amount: float
    growth: float = 1.0


def lowest_below(fitted: Fitted, amounts: Sequence[float], sizes: Sequence[float], size: float) -> float:
    """Return the largest distance of an amount below the fit at its own size, at least 0. `fitted` is `at_size` of the same
    amounts, sizes and size."""
    expected = [fitted.amount * (1 + fitted.growth * (s / size - 1)) if s > 0 and size > 0 else fitted.amount for s in sizes]
    return max(0.0, *(said - amount for said, amount in zip(expected, amounts, strict=True)))


def at_size(amounts: Sequence[float], sizes: Sequence[float], size: float) -> Fitted:
    """Return the amount expected of a stage that reads `size`, at least 0.

    `amounts` were seen at `sizes`. With two distinct sizes a line a + b * size is fitted (least squares, b >= 0), else the
    median is scaled in proportion; without known sizes (0) it is the median as it is.
    """
    if len(amounts) == 1:  # of each stage of a lone event log, which may have thousands
        return Fitted(amounts[0] * size / sizes[0] if min(sizes[0], size) > 0 else amounts[0])
    known = [(s, a) for s, a in zip(sizes, amounts, strict=True) if s > 0]
    if not known or size <= 0:
        return Fitted(median(amounts))
    least, most = min(s for s, _ in known), max(s for s, _ in known)
    if most < DISTINCT_SIZES * least:
        return Fitted(median(a for _, a in known) * size / median(s for s, _ in known))
    mean_size, mean_amount = fmean(s for s, _ in known), fmean(a for _, a in known)
    spread = sum((s - mean_size) ** 2 for s, _ in known)
    slope = max(0.0, sum((s - mean_size) * (a - mean_amount) for s, a in known) / spread)
    amount = max(0.0, mean_amount + slope * (size - mean_size))
    return Fitted(amount, slope * size / amount if amount else 1.0)
