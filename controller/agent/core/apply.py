"""The quota writes that a period needs, in order: pure.

Only changed quotas are written (through Docker, the engine gets each, too), and lowering writes come before raising ones, so
that the sum never passes the worker's capacity on the way.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from controller.runtime.base import ExecutorKey

SAME_CORES = 0.005
"""Quotas closer than this are equal: half of the kernel's finest quota (1 ms of 100 ms)."""


class QuotaChange(Struct, frozen=True):
    key: ExecutorKey
    before: float | None
    cores: float

    @property
    def lowers(self) -> bool:
        """True if the change lowers the quota; an unlimited quota counts as infinite."""
        return self.before is None or self.cores < self.before


def changes(current: Mapping[ExecutorKey, float | None], wanted: Mapping[ExecutorKey, float]) -> list[QuotaChange]:
    """Return writes that bring `current` quotas (None: unlimited) to `wanted` ones; executors not in `current` are left
    out."""
    todo = [
        QuotaChange(key, before, wanted[key])
        for key, before in current.items()
        if key in wanted and (before is None or abs(before - wanted[key]) >= SAME_CORES)
    ]
    return sorted(todo, key=lambda change: (not change.lowers, change.key))
