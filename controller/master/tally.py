"""How applications ended, counted in one life of the master. What survives a restart is in their records, not here."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from controller.master.application import Application
from controller.master.outcome import HowEnded
from controller.master.summary import error_pct

ERROR_BOUNDS = (-0.5, -0.2, -0.1, -0.05, -0.02, -0.01, 0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Of the deadline error, as a part of the deadline; negative is early."""


class Tally:
    def __init__(self) -> None:
        self.ended: Counter[HowEnded] = Counter()
        self.errors = [0] * (len(ERROR_BOUNDS) + 1)
        """By bound, as `ERROR_BOUNDS`; the last one is of what is beyond all."""

    def take(self, application: Application, outcome: HowEnded) -> None:
        """An application whose outcome has just been settled. Only one that succeeded has kept or missed its deadline."""
        self.ended[outcome] += 1
        error = error_pct(application.record.ended_s or 0.0, application.options.deadline_s)
        if outcome is HowEnded.SUCCEEDED and error is not None:
            self.errors[bisect_left(ERROR_BOUNDS, error / 100)] += 1
