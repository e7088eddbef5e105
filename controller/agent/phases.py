"""Durations of a period's phases, and a line in the log when all of them took longer than a period."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable

log = logging.getLogger("sparkpace.agent")

TOLD_S = 60.0
"""Time in which one slow period is logged at most."""


class Phases:
    """The phases of periods. `clock` is monotonic seconds. `took_s` holds the last period's phases, in order."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.took_s: dict[str, float] = {}
        self._begun_s = self._told_s = -math.inf

    def begin(self) -> float:
        """Begin a new period; return the time."""
        self.took_s = {}
        self._begun_s = self._clock()
        return self._begun_s

    def ended(self, phase: str) -> None:
        self.took_s[phase] = self._clock() - self._begun_s - sum(self.took_s.values())

    def tell(self, period_s: float) -> None:
        """Log the phases of a period that took too long."""
        whole_s = sum(self.took_s.values())
        if whole_s > period_s and self._begun_s - self._told_s >= TOLD_S:
            self._told_s = self._begun_s
            parts = ", ".join(f"{phase} {took_s:.2f} s" for phase, took_s in self.took_s.items())
            log.warning("a period of %g s took %.2f s: %s", period_s, whole_s, parts)
