"""How applications ended, counted in one life of the master. What survives a restart is in their records, not here."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from controller.master.application import Application
from controller.master.finish import succeeded
from controller.master.summary import error_pct

KILLED = "it was killed"
DRIVER_DIED = "its driver died"
OUTCOMES = ("succeeded", "failed", "killed", "driver_died", "stopped")
"""All its jobs done; ended by itself without; by `sparkpace kill`; without a driver; by the master, which says why."""
ERROR_BOUNDS = (-0.5, -0.2, -0.1, -0.05, -0.02, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Of the deadline error, as a part of the deadline; negative is early."""


class Tally:
    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self.errors = [0] * (len(ERROR_BOUNDS) + 1)
        """By bound, as `ERROR_BOUNDS`; the last one is of what is beyond all."""

    def take(self, application: Application) -> None:
        """One that has just ended. A deadline is kept or missed by those that have done all their jobs."""
        how = ended_how(application)
        self.ended[how] += 1
        error = error_pct(application.record.ended_s or 0.0, application.options.deadline_s)
        if how == "succeeded" and error is not None:
            self.errors[bisect_left(ERROR_BOUNDS, error / 100)] += 1


def ended_how(application: Application) -> str:
    """One of `OUTCOMES`, of one that has ended."""
    known = {KILLED: "killed", DRIVER_DIED: "driver_died"}
    if reason := application.record.end_reason:
        return known.get(reason, "stopped")
    return "succeeded" if succeeded(application) else "failed"
