"""Who comes first where memory is short: higher priority, then who was submitted first; nobody overtakes.

Only applications that want executors and have none wait. See docs/decisions/0012-elastic-memory.md."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

Rank = tuple[int, float, str]
"""Less comes first; the last part is the application's key."""


def rank(priority: int, submitted_s: float, key: str) -> Rank:
    """`submitted_s` is of one clock for all."""
    return -priority, submitted_s, key


def ahead(mine: Rank, line: Sequence[Rank]) -> int:
    """How many come first, of those in a line that is in order."""
    return bisect_left(line, mine)
