"""Counts of how applications ended, in one life of the master. Records survive a restart; these counts do not."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from controller.master.core.application import Application
from controller.master.core.summary import error_pct
from controller.wire.states import Outcome

ERROR_BOUNDS = (-0.5, -0.2, -0.1, -0.05, -0.02, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Upper bounds of the deadline error, as a share of the deadline; negative is early."""


class Tally:
    def __init__(self) -> None:
        self.ended: Counter[Outcome] = Counter()
        self.errors = [0] * (len(ERROR_BOUNDS) + 1)
        """Number of errors up to each of the `ERROR_BOUNDS` and above the one before; the last number is those above all."""

    def take(self, application: Application, outcome: Outcome) -> None:
        """Count an application whose outcome has just been settled. If it did not succeed, its deadline does not count."""
        self.ended[outcome] += 1
        error = error_pct(application.record.ended_s or 0.0, application.options.deadline_s)
        if outcome is Outcome.SUCCEEDED and error is not None:
            self.errors[bisect_left(ERROR_BOUNDS, error / 100)] += 1
