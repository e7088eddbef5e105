"""The part of a machine that foreign work uses where other cluster managers start the executors: pure.

The machine's busy time less that of the executors that are paced here. It moves, so it is smoothed: cores that strangers take
from one period to the next are theirs anyway, because nothing holds them back."""

from __future__ import annotations

import math

from msgspec import Struct

SMOOTHED_S = 10.0
"""Time after which two thirds of a change are believed."""
MOST_SHARE = 0.5
"""Largest foreign share of the machine, however busy strangers are: they also use cores that our executors leave for a while,
and cores once counted as theirs would never come back. Beyond it the kernel's weights decide."""


class Foreign(Struct, frozen=True):
    """Foreign work, which uses `cores`. `busy_s`, `own_s`: CPU seconds of the machine and of the executors paced here, at the
    last look."""

    cores: float = 0.0
    at_s: float | None = None
    busy_s: float = 0.0
    own_s: float = 0.0

    def leaves(self, cores: float) -> float:
        """Return the cores that foreign work leaves of a machine with `cores`."""
        return cores - min(self.cores, MOST_SHARE * cores)

    def after(self, now_s: float, busy_s: float, own_s: float) -> Foreign:
        """Return the state after a look at `now_s`. `own_s` may fall when an executor has gone."""
        if self.at_s is None:
            return Foreign(0.0, now_s, busy_s, own_s)
        elapsed_s = now_s - self.at_s
        if elapsed_s <= 0:
            return self
        used_s = max(0.0, busy_s - self.busy_s - max(0.0, own_s - self.own_s))
        believed = -math.expm1(-elapsed_s / SMOOTHED_S)
        # this part of a second, not used_s / elapsed_s, which is no number where hardly any time has passed
        cores = self.cores * (1.0 - believed) + used_s * (believed / elapsed_s)
        return Foreign(cores, now_s, busy_s, own_s)
