"""An agent's own speed: the durations of phases and quota writes, counted for its report; slow periods are logged."""

from __future__ import annotations

import logging
import math
from bisect import bisect_left
from collections.abc import Callable, Mapping

from controller.wire.durations import BOUNDS_S, Durations, Timings

log = logging.getLogger("sparkpace.agent")

LOGGED_S = 60.0
"""Time in which at most one slow period is logged."""


class Histogram:
    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def add(self, took_s: float) -> None:
        self._counts[bisect_left(BOUNDS_S, took_s)] += 1
        self._sum_s += max(0.0, took_s)

    def message(self) -> Durations:
        return Durations(counts=tuple(self._counts), sum_s=round(self._sum_s, 6))


class PeriodTimings:
    """Timings over the life of the agent. `clock` is monotonic seconds. `took_s` holds the last period's phases, in order."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.took_s: dict[str, float] = {}
        self._begun_s = self._logged_s = -math.inf
        self._phases: dict[str, Histogram] = {}
        self._quota_writes, self._quota_failures = Histogram(), 0

    def begin(self) -> float:
        """Begin a new period; return the time."""
        self.took_s = {}
        self._begun_s = self._clock()
        return self._begun_s

    def ended(self, phase: str) -> None:
        self.took_s[phase] = self._clock() - self._begun_s - sum(self.took_s.values())

    def end(self, period_s: float) -> None:
        """Count the phases of the period that is over; log them if it took too long."""
        self.add_period(self.took_s)
        whole_s = sum(self.took_s.values())
        if whole_s > period_s and self._begun_s - self._logged_s >= LOGGED_S:
            self._logged_s = self._begun_s
            parts = ", ".join(f"{phase} {took_s:.2f} s" for phase, took_s in self.took_s.items())
            log.warning("a period of %g s took %.2f s: %s", period_s, whole_s, parts)

    def add_period(self, took_s: Mapping[str, float]) -> None:
        for phase, seconds in took_s.items():
            self._phases.setdefault(phase, Histogram()).add(seconds)

    def add_quota_write(self, took_s: float, *, written: bool) -> None:
        self._quota_writes.add(took_s)
        self._quota_failures += not written

    def message(self) -> Timings:
        return Timings(
            phases={phase: histogram.message() for phase, histogram in self._phases.items()},
            quota_writes=self._quota_writes.message(),
            quota_failures=self._quota_failures,
        )
