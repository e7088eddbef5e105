"""An agent's report on its own speed: the durations of phases and quota writes since it started."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

from controller.wire.durations import BOUNDS_S, Durations, Timings


class Histogram:
    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def add(self, took_s: float) -> None:
        self._counts[bisect_left(BOUNDS_S, took_s)] += 1
        self._sum_s += max(0.0, took_s)

    def told(self) -> Durations:
        return Durations(counts=tuple(self._counts), sum_s=round(self._sum_s, 6))


class PeriodTimings:
    """Counts over the life of the agent."""

    def __init__(self) -> None:
        self._phases: dict[str, Histogram] = {}
        self._quota_writes, self._quota_failures = Histogram(), 0

    def add_period(self, took_s: Mapping[str, float]) -> None:
        """Count the phases of a period that is over."""
        for phase, seconds in took_s.items():
            self._phases.setdefault(phase, Histogram()).add(seconds)

    def add_quota_write(self, took_s: float, *, written: bool) -> None:
        self._quota_writes.add(took_s)
        self._quota_failures += not written

    def told(self) -> Timings:
        return Timings(
            phases={phase: histogram.told() for phase, histogram in self._phases.items()},
            quota_writes=self._quota_writes.told(),
            quota_failures=self._quota_failures,
        )
