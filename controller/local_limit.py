"""How many bytes of files an application may keep on a worker's host: the operator's `--local-limit`, pure.

A percentage is of the space that an application finds: what it has taken and what is still free. Measuring is
`controller.agent.local_use`'s.
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
"""So no application fills a disk, whatever its size; one that does no harm is not even measured."""
LEAST_SHARE = 0.1
"""Of the whole disk. On a disk that others have filled, an application that keeps less than this is not what fills it."""
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Disk:
    """Of the file system with the local directory: all bytes, and those that are free for users."""

    size: int
    free: int


@dataclass(frozen=True, slots=True)
class LocalLimit:
    """`text` as it was given. At most one of `limit` (bytes) and `share` is there; neither: nothing is limited."""

    text: str = NONE
    limit: int | None = None
    share: float | None = None

    def most(self, disk: Disk) -> float:
        """Bytes that an application may keep now. Of a share s it has too much when used > s * (used + free)."""
        if self.share is not None:
            return max(self.share / (1 - self.share) * disk.free, LEAST_SHARE * disk.size)
        return math.inf if self.limit is None else self.limit

    def may_be_passed(self, disk: Disk) -> bool:
        """Whether anybody can keep too much: no application keeps more than all do."""
        return disk.size - disk.free > self.most(disk)

    def passed(self, most: float) -> str:
        """Why the executors of an application end that keeps more than `most`."""
        return (
            f"its application keeps more than {most / MIB:,.0f} MiB of files in the local directory of this host, which is "
            f"all that --local-limit {self.text} allows"
        )


def parse_local_limit(text: str) -> LocalLimit:
    """Of "20g", "90%" or "none". Raises `BadInput`."""
    word = text.strip().lower()
    if word == NONE:
        return LocalLimit()
    if found := re.fullmatch(r"([0-9]{1,2})%", word):
        if int(found[1]):
            return LocalLimit(word, share=int(found[1]) / 100)
    elif "%" not in word:
        with suppress(BadInput):  # which names sizes alone
            return LocalLimit(word, limit=parse_memory_mb(word) * MIB)
    raise BadInput(f"--local-limit {text[:80]!r} is no limit; accepted: a size as 20g, 1% to 99%, or none")
