"""The goals of `half`, written down before any run: arithmetic over mornings, tested on numbers worked out by hand.

A morning is the same jobs at the same times on one side: stock Spark, Sparkpace on the same cores, Sparkpace on half of them,
or stock Spark with a Worker less. Mornings of one number are compared with each other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from experiments.harness.recorded import Condition, Goal
from experiments.harness.reserved import CoreCourse

STOCK, OURS, HALF, LESS = "stock", "sparkpace", "half", "less"
SIDES = (STOCK, OURS, HALF)
"""Sides that take turns."""


class HalfLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits. A job is late if it ends more than `late_pct` percent of its deadline after it, and if it fails. `reserved`:
    core-seconds that Sparkpace's executors reserve, of those that stock Spark's reserve."""

    late_pct: float = 0.5
    reserved: float = 0.7


@dataclass(frozen=True, slots=True)
class MorningJob:
    job: str
    deadline_s: float
    end_s: float
    failed: bool = False

    @property
    def error_pct(self) -> float:
        return 100 * (self.end_s - self.deadline_s) / self.deadline_s

    def is_late(self, limits: HalfLimits) -> bool:
        return self.failed or self.error_pct > limits.late_pct


@dataclass(frozen=True, slots=True)
class Morning:
    side: str
    number: int
    jobs: tuple[MorningJob, ...]
    course: CoreCourse

    def late(self, limits: HalfLimits) -> list[MorningJob]:
        return [job for job in self.jobs if job.is_late(limits)]

    def late_s(self, limits: HalfLimits) -> float:
        """Return the seconds by which the late jobs were late, in all."""
        return math.fsum(max(0.0, job.end_s - job.deadline_s) for job in self.late(limits))


def pairs(mornings: Sequence[Morning], side: str) -> Iterator[tuple[Morning, Morning]]:
    """Yield stock Spark's morning and that side's, for each number that has both."""
    stock = {morning.number: morning for morning in mornings if morning.side == STOCK}
    for morning in mornings:
        if morning.side == side and morning.number in stock:
            yield stock[morning.number], morning


def reserved_ratios(mornings: Sequence[Morning], side: str) -> list[float]:
    """Return that side's reserved core-seconds / stock Spark's, of each pair."""
    return [other.course.reserved_core_s / stock.course.reserved_core_s for stock, other in pairs(mornings, side)]


def morning_goals(mornings: Sequence[Morning], limits: HalfLimits) -> list[Goal]:
    """Return the goals; a goal to which no pair of mornings belongs has no figure."""
    ours, half = list(pairs(mornings, OURS)), list(pairs(mornings, HALF))
    more = [len(other.late(limits)) - len(stock.late(limits)) for stock, other in ours]
    more_s = [other.late_s(limits) - stock.late_s(limits) for stock, other in ours]
    become_late = [_become_late(stock, other, limits) for stock, other in half]

    def goal(name: str, measured: float | None, limit: float, unit: str, n: int) -> Goal:
        figure = None if measured is None else round(measured, 4)
        said = "" if measured is not None else "no pair of mornings"
        return Goal(goal=name, measured=figure, limit=limit, unit=unit, n=n, not_measured=said)

    return [
        goal("jobs late in a morning, more than on stock Spark", _mean(more), 0, "jobs", len(ours)),
        goal("seconds late in a morning, more than on stock Spark", _mean(more_s), 0, "s", len(ours)),
        goal(
            "core-seconds reserved / those on stock Spark",
            *(_mean(reserved_ratios(mornings, OURS)), limits.reserved, "ratio", len(ours)),
        ),
        goal(
            "jobs in time on stock Spark and late on half of its cores",
            *(sum(become_late) if half else None, 0, "jobs", len(half)),
        ),
    ]


def needs_all(mornings: Sequence[Morning], limits: HalfLimits) -> list[Condition]:
    """Return the condition that stock Spark needs all its cores; without it, half of them are not half of what it needs."""
    late = {side: [len(one.late(limits)) for one in mornings if one.side == side] for side in (STOCK, LESS)}
    if not all(late.values()):
        return []
    usual, fewer = (statistics.fmean(late[side]) for side in (STOCK, LESS))
    said = f"{fewer:.2f} jobs late (n={len(late[LESS])}), on all Workers {usual:.2f} (n={len(late[STOCK])})"
    return [Condition("stock Spark has more jobs late with a Worker less", "mornings", fewer > usual, said)]


def _become_late(stock: Morning, other: Morning, limits: HalfLimits) -> int:
    late = {job.job for job in stock.late(limits)}
    return sum(job.job not in late for job in other.late(limits))


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None
