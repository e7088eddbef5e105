"""Waiting time after something outside has failed: pure. Longer with each failure, and as long as the other side asks."""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller.machine.back_off import BackOff

BACK_OFF = BackOff(first_s=0.5, most_s=30.0)


@dataclass(slots=True)
class Pause:
    """A pause in tries: no try before `until_s`, after `failures` in a row."""

    until_s: float = -math.inf
    failures: int = 0

    def failed(self, now_s: float, asked_s: float = 0.0) -> None:
        """Book a failure; the other side asked for `asked_s` seconds. Several tries that were under way together are one
        failure."""
        if now_s < self.until_s:
            self.until_s = max(self.until_s, now_s + min(BACK_OFF.most_s, asked_s))
            return
        self.failures += 1
        self.until_s = now_s + max(BACK_OFF.wait_s(self.failures), min(BACK_OFF.most_s, asked_s))

    def worked(self) -> None:
        """Book a success of a try that was under way; what was asked for meanwhile still holds."""
        self.failures = 0
