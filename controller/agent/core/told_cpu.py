"""CPU that an executor itself reports, where nothing else counts it: pure.

It comes from user code, so it is believed only as far as the executor's quota allows: each second brings as much as the
quota, and unused seconds are kept for a while, because reports arrive late. Claims beyond that are counted later, at the pace
of the quota. Counting begins with the first report; a counter that starts again takes nothing back.
"""

from __future__ import annotations

from msgspec import Struct

KEPT_S = 5.0
"""Seconds of the quota that may be claimed at once. An executor reports twice a second, by its driver and the master."""


class ToldCpu(Struct, frozen=True):
    """CPU of one executor. `cpu_s`: core-seconds that count. `told_s`: value up to which its own counter is taken in.
    `room_s`: core-seconds that the executor may claim now. `quota`: cores at the last look."""

    cpu_s: float = 0.0
    told_s: float | None = None
    room_s: float = 0.0
    at_s: float | None = None
    quota: float = 0.0

    def after(self, now_s: float, told_s: float | None, quota: float) -> ToldCpu:
        """Return the CPU after a look. `told_s` is the executor's own counter (None: it reported nothing), `quota` cores that
        are in force."""
        elapsed_s = 0.0 if self.at_s is None else max(0.0, now_s - self.at_s)
        most = max(quota, self.quota)  # it changed at some time between the looks
        room_s = min(self.room_s + most * elapsed_s, most * KEPT_S)
        if told_s is None or self.told_s is None or told_s < self.told_s:
            return ToldCpu(self.cpu_s, self.told_s if told_s is None else told_s, room_s, now_s, quota)
        counted_s = min(told_s - self.told_s, room_s)
        return ToldCpu(self.cpu_s + counted_s, self.told_s + counted_s, room_s - counted_s, now_s, quota)
