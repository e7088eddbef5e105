"""The time of a profile by module, each with only the time of its own code."""

from __future__ import annotations

import cProfile
import pstats
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from experiments.harness.machine import PROJECT

WAITING = ("acquire", "select", "sleep", "wait")
"""Built-in functions in which a thread waits."""
SHOWN = 12


def own_time(profile: cProfile.Profile | Path) -> dict[str, float]:
    """Return the share of the time spent in each module's own code, the largest first; all of Python and its libraries by
    package."""
    stats = pstats.Stats(profile if isinstance(profile, cProfile.Profile) else str(profile))
    spent = {key: row[2] for key, row in stats.stats.items()}  # type: ignore[attr-defined]
    return shares(spent)


def shares(spent: Mapping[tuple[str, int, str], float]) -> dict[str, float]:
    """Return the shares; `spent`: own seconds by (file, line, function), as `pstats` has them."""
    parts: dict[str, float] = defaultdict(float)
    for (file, _, function), own_s in spent.items():
        if not any(word in function for word in WAITING):
            parts[_part(file, function)] += own_s
    total = sum(parts.values()) or 1.0
    largest = sorted(parts.items(), key=lambda item: -item[1])[:SHOWN]
    return {name: round(own_s / total, 4) for name, own_s in largest}


def _part(file: str, function: str) -> str:
    path = Path(file)
    if path.is_relative_to(PROJECT) and ".venv" not in path.parts:
        return str(path.relative_to(PROJECT))
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1].removesuffix(".py")
    return "reading and writing files, built in" if "posix" in function or "_io" in function else "Python and its library"
