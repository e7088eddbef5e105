"""The order of applications where memory is short: higher priority, then earlier submission; no one overtakes.

Only applications that want executors and have no executor wait. See docs/decisions/0012-elastic-memory.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

Rank = tuple[int, float, str]
"""A smaller rank comes first; the last part is the application's key."""


def rank(priority: int, submitted_s: float, key: str) -> Rank:
    """Return the rank of an application; `submitted_s` is of one clock for all."""
    return -priority, submitted_s, key


def ahead(mine: Rank, line: Sequence[Rank]) -> int:
    """Return the number of ranks that come first, of a line that is in order."""
    return bisect_left(line, mine)
