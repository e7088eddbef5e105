"""The limit of an application's bytes of files on a worker's host: the operator's `--local-limit`, pure.

A percentage is of the space that an application finds: its own files and the free space.
`controller.agent.executors.local_use` measures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from controller.asks.amounts import MIB, Amount, parse_size_or_part

DEFAULT = "90%"
"""Limit by default: no application fills a disk of any size, and harmless applications are not even measured."""
LEAST_SHARE = 0.1
"""Least limit, as a share of the whole disk. On a disk that others have filled, an application that keeps less is not the
cause."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system with the local directory: all bytes, and the bytes that are free for users."""

    size: int
    free: int


@dataclass(frozen=True, slots=True)
class LocalLimit:
    """A limit; with the amount "none", nothing is limited."""

    amount: Amount

    @property
    def text(self) -> str:
        return self.amount.text

    def most(self, disk: Disk) -> float:
        """Return the bytes that an application may keep now. With a share s it has too much when used > s * (used + free)."""
        share, size = self.amount.share, self.amount.size
        if share is not None:
            return max(share / (1 - share) * disk.free, LEAST_SHARE * disk.size)
        return math.inf if size is None else size

    def may_be_passed(self, disk: Disk) -> bool:
        """Return True if any application can keep too much: no application keeps more than all together."""
        return disk.size - disk.free > self.most(disk)

    def passed(self, most: float) -> str:
        """Return the reason for ending the executors of an application that keeps more than `most`."""
        return (
            f"its application keeps more than {most / MIB:,.0f} MiB of files in the local directory of this host, which is "
            f"all that --local-limit {self.text} allows"
        )


def parse_local_limit(text: str) -> LocalLimit:
    """Read a limit like "20g", "90%" or "none". Raise `BadInput`."""
    return LocalLimit(parse_size_or_part(text, option="--local-limit"))
