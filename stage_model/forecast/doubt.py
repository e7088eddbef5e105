"""Standard errors of a profile's work, for one stage and for many together. Pure.

Each stage's work is the profile's times two factors: one of its own, and one that all stages of a run share (other data,
another machine, a cold cache). Either may be off by `PROFILE_DOUBT`. The own factors of many stages even out; the shared
factor shows in the stages that have ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

PROFILE_DOUBT = 0.3
"""Relative standard error of a profile's work of one stage."""


def as_equal(works: Iterable[float]) -> float:
    """Return the number of stages of equal work that spread like these: (sum)^2 / sum of squares; 0 when there is no work."""
    known = tuple(works)
    squares = math.fsum(work * work for work in known)
    return math.fsum(known) ** 2 / squares if squares > 0 else 0.0


def doubt(works: Iterable[float], shown: float) -> float:
    """Return the relative standard error of the sum of these works, when `shown` stages of this run (`as_equal`) have shown
    theirs; at most that of one stage."""
    stages = as_equal(works)
    return PROFILE_DOUBT * math.sqrt(min(1.0, (1 / stages if stages else 1.0) + 1 / (1 + shown)))
