"""Waiting time after something outside has failed: pure. Longer with each failure, and as long as the other side asks."""

from __future__ import annotations

import math
from dataclasses import dataclass

FIRST_S, LAST_S = 0.5, 30.0


@dataclass(slots=True)
class Pause:
    """A pause in tries: no try before `until_s`. The next failure costs `next_s` seconds."""

    until_s: float = -math.inf
    next_s: float = FIRST_S

    def failed(self, now_s: float, asked_s: float = 0.0) -> None:
        """Book a failure; the other side asked for `asked_s` seconds. Several tries that were under way together are one
        failure."""
        if now_s < self.until_s:
            self.until_s = max(self.until_s, now_s + min(LAST_S, asked_s))
            return
        self.until_s = now_s + min(LAST_S, max(self.next_s, asked_s))
        self.next_s = min(LAST_S, 2 * self.next_s)

    def worked(self) -> None:
        """Book a success of a try that was under way; what was asked for meanwhile still holds."""
        self.next_s = FIRST_S
