"""What work that is not ours uses of a machine whose executors other cluster managers start: pure.

The machine's busy time less that of the executors that are paced here. It moves, so it is smoothed: what strangers take from
one period to the next is theirs anyway, as nothing holds them back."""

from __future__ import annotations

import math

from msgspec import Struct

SMOOTHED_S = 10.0
"""After so long two thirds of a change are believed."""
MOST_SHARE = 0.5
"""Of the machine, however busy strangers are: they also use what ours leave for a while, and what once counted as theirs
would never come back. Beyond that the kernel's weights decide."""


class Foreign(Struct, frozen=True):
    """`cores` that foreign work uses. `busy_s`, `own_s`: CPU seconds of the machine and of the executors paced here, at the
    last look."""

    cores: float = 0.0
    at_s: float | None = None
    busy_s: float = 0.0
    own_s: float = 0.0

    def leaves(self, cores: float) -> float:
        """Of a machine of so many cores."""
        return cores - min(self.cores, MOST_SHARE * cores)

    def after(self, now_s: float, busy_s: float, own_s: float) -> Foreign:
        """`own_s` may fall when an executor has gone."""
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
