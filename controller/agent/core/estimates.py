"""Estimates that an agent carries from one look to the next: CPU that an executor claims, other load. Pure."""

from __future__ import annotations

import math

from msgspec import Struct

KEPT_S = 5.0
"""Seconds of the quota that may be claimed at once. An executor reports twice a second, by its driver and the master."""
SMOOTHED_S = 10.0
"""Time after which two thirds of a change in other load are believed."""
MOST_SHARE = 0.5
"""Largest share of a machine that counts as other load: other programs also use cores that our executors leave for a while,
and cores once counted as theirs would never come back. Beyond it the kernel's weights decide."""


class ClaimedCpu(Struct, frozen=True):
    """CPU of one executor that only the executor itself reports: `cpu_s` is the core-seconds that count.

    The claim comes from user code, so it counts only as far as the executor's quota allows: each second brings as much
    as the quota, and unused seconds are kept for a while, because reports arrive late. Claims beyond that are counted later,
    at the pace of the quota. Counting begins with the first report; a counter that starts again takes nothing back.

    `claimed_s`: value up to which its own counter is taken in. `room_s`: core-seconds that the executor may claim now.
    `quota`: cores at the last look."""

    cpu_s: float = 0.0
    claimed_s: float | None = None
    room_s: float = 0.0
    at_s: float | None = None
    quota: float = 0.0

    def after(self, now_s: float, claimed_s: float | None, quota: float) -> ClaimedCpu:
        """Return the CPU after a look. `claimed_s` is the executor's own counter (None: it reported nothing), `quota` cores
        that are in force."""
        elapsed_s = 0.0 if self.at_s is None else max(0.0, now_s - self.at_s)
        most = max(quota, self.quota)  # it changed at some time between the looks
        room_s = min(self.room_s + most * elapsed_s, most * KEPT_S)
        if claimed_s is None or self.claimed_s is None or claimed_s < self.claimed_s:
            return ClaimedCpu(self.cpu_s, self.claimed_s if claimed_s is None else claimed_s, room_s, now_s, quota)
        counted_s = min(claimed_s - self.claimed_s, room_s)
        return ClaimedCpu(self.cpu_s + counted_s, self.claimed_s + counted_s, room_s - counted_s, now_s, quota)


class OtherLoad(Struct, frozen=True):
    """Load of a machine besides the executors that are paced here: `cores` that other programs use.

    It is the machine's busy time less that of our executors. It moves, so it is smoothed: other programs keep the cores that
    they take from one period to the next anyway, because nothing holds them back.

    `busy_s`, `own_s`: CPU seconds of the machine and of our executors, at the last look."""

    cores: float = 0.0
    at_s: float | None = None
    busy_s: float = 0.0
    own_s: float = 0.0

    def available(self, cores: float) -> float:
        """Return the cores that other load leaves of a machine with `cores`."""
        return cores - min(self.cores, MOST_SHARE * cores)

    def after(self, now_s: float, busy_s: float, own_s: float) -> OtherLoad:
        """Return the load after a look at `now_s`. `own_s` may fall when an executor has gone."""
        if self.at_s is None:
            return OtherLoad(0.0, now_s, busy_s, own_s)
        elapsed_s = now_s - self.at_s
        if elapsed_s <= 0:
            return self
        used_s = max(0.0, busy_s - self.busy_s - max(0.0, own_s - self.own_s))
        believed = -math.expm1(-elapsed_s / SMOOTHED_S)
        # this part of a second, not used_s / elapsed_s, which is no number where hardly any time has passed
        cores = self.cores * (1.0 - believed) + used_s * (believed / elapsed_s)
        return OtherLoad(cores, now_s, busy_s, own_s)
