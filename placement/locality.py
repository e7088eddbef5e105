"""Is waiting for a worker with the data worth it? Document 002's forecast (RFD; docs/design.md, section 4).

E is the number of requests that machines with unprocessed blocks of the job are expected to make within the time that moving
one block takes: E = TT * S * K / t. With E of 1 or more, waiting is worth it. With jobs ahead in the queue that want the same
machines there are two variants: `printed`, as the document prints it, and `intended`, what it argues for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Variant = Literal["intended", "printed"]

WORTH = 1.0
"""With an expectation of so much, waiting is worth it."""


@dataclass(frozen=True, slots=True)
class DataOutlook:
    """`move_s`: TT, seconds to move one block; `slots`: S of a machine; `task_s`: t, mean time of a task; `machines`: K,
    those that hold unprocessed blocks of the job; `shared`: R, those of them that jobs ahead want too."""

    move_s: float
    slots: float
    task_s: float
    machines: int
    shared: int = 0
    ahead: bool = False
    """Whether anybody is ahead in the queue."""


def expected_requests(outlook: DataOutlook, variant: Variant = "intended") -> float:
    """E, requests of machines with data. As printed, E = TT * S * R / t with jobs ahead: a job that shares no machine with
    them has E = 0 and never waits. Intended: those that are shared go to the jobs ahead, TT * S * (K - R) / t."""
    machines = outlook.machines
    if outlook.ahead:
        machines = outlook.shared if variant == "printed" else outlook.machines - outlook.shared
    if outlook.task_s <= 0:
        # such tasks ask for the next one all the time
        return math.inf if machines else 0.0
    return outlook.move_s * outlook.slots * machines / outlook.task_s


PATIENCE = 3.0
"""So many times the time to move its input somebody waits at most: with an expectation of one arrival in that time, none
comes in three of them with a chance of e^-3, one in twenty."""
