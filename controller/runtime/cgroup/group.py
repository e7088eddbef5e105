"""A control group and what is read of it, in either version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from controller.runtime.base import CPU_PERIOD_US

ADOPTED = "sparkpace-adopted"
"""Name of the group in which the groups of adopted executors lie; these are emptied, never killed."""
MIN_QUOTA_US = 1_000
"""Smallest quota: the kernel refuses less."""


@dataclass(frozen=True, slots=True)
class Group:
    """The directories of one control group: on v2 the same one three times. `memory` None: no memory controller."""

    cpu: Path
    cpuacct: Path
    memory: Path | None

    def directories(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(path for path in (self.cpu, self.cpuacct, self.memory) if path is not None))


@dataclass(frozen=True, slots=True)
class Usage:
    """A reading of a group. `cpu_s` and `throttled_s` count since the group was made; `quota_cores` None: no quota;
    `memory_bytes` leaves out file cache, which the kernel can drop (None: no memory controller); `memory_limit_bytes` None:
    no limit. `throttled_s`: seconds that threads which could have run stood still because the quota of a period was used up,
    summed over the CPUs they would have run on; None where the kernel counts none."""

    cpu_s: float
    quota_cores: float | None
    memory_bytes: int | None
    memory_limit_bytes: int | None = None
    throttled_s: float | None = None


def quota_us(cores: float) -> int:
    """Return the microseconds of CPU per period of `CPU_PERIOD_US` for `cores` (> 0), not below what the kernel accepts."""
    return max(MIN_QUOTA_US, round(cores * CPU_PERIOD_US))
