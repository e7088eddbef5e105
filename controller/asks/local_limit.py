"""The limit of an application's bytes of files on a worker's host: the operator's `--local-limit`, pure.

A percentage is of the space that an application finds: its own files and the free space. Measuring is
`controller.agent.executors.local_use`'s.
"""

from __future__ import annotations

import math
import re
from contextlib import suppress
from dataclasses import dataclass

from stage_model.errors import BadInput
from stage_model.units import parse_memory_mb

NONE = "none"
DEFAULT = "90%"
"""Limit by default: no application fills a disk, whatever its size, and harmless ones are not even measured."""
LEAST_SHARE = 0.1
"""Least limit, as a share of the whole disk. On a disk that others have filled, an application that keeps less is not the
cause."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system with the local directory: all bytes, and those that are free for users."""

    size: int
    free: int


@dataclass(frozen=True, slots=True)
class LocalLimit:
    """A limit, with its `text` as given. At most one of `limit` (bytes) and `share` is there; neither: nothing is limited."""

    text: str = NONE
    limit: int | None = None
    share: float | None = None

    def most(self, disk: Disk) -> float:
        """Return the bytes that an application may keep now. With a share s it has too much when used > s * (used + free)."""
        if self.share is not None:
            return max(self.share / (1 - self.share) * disk.free, LEAST_SHARE * disk.size)
        return math.inf if self.limit is None else self.limit

    def may_be_passed(self, disk: Disk) -> bool:
        """Return True if any application can keep too much: none keeps more than all together."""
        return disk.size - disk.free > self.most(disk)

    def passed(self, most: float) -> str:
        """Return the reason for ending the executors of an application that keeps more than `most`."""
        return (
            f"its application keeps more than {most / MIB:,.0f} MiB of files in the local directory of this host, which is "
            f"all that --local-limit {self.text} allows"
        )


def parse_local_limit(text: str) -> LocalLimit:
    """Read a limit like "20g", "90%" or "none". Raise `BadInput`."""
    word = text.strip().lower()
    if word == NONE:
        return LocalLimit()
    if found := re.fullmatch(r"([0-9]{1,2})%", word):
        if int(found[1]):
            return LocalLimit(word, share=int(found[1]) / 100)
    elif "%" not in word:
        with suppress(BadInput):  # whose text names only sizes
            return LocalLimit(word, limit=parse_memory_mb(word) * MIB)
    raise BadInput(f"--local-limit {text[:80]!r} is no limit; accepted: a size as 20g, 1% to 99%, or none")
