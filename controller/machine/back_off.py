"""The wait between two tries of something that fails, ever longer. Pure."""

from __future__ import annotations

from dataclasses import dataclass

MOST_DOUBLINGS = 60
"""Most doublings that are worked out: more doublings lead beyond any wait, and in the end beyond the range of a float."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits between tries, in seconds: `first_s` after the first failure, then twice as long each time, `most_s` at most. The
    caller counts the failures since the last success."""

    first_s: float
    most_s: float

    def wait_s(self, failures: int) -> float:
        """Return the seconds to wait after this many failures in a row, 1 or more."""
        return min(self.most_s, self.first_s * 2.0 ** min(failures - 1, MOST_DOUBLINGS))
