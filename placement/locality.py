"""Is waiting for a worker with the data worth it? Document 002's forecast (RFD; docs/design.md, section 4).

E is the number of requests that machines with unprocessed blocks of the job are expected to make within the time that moving
one block takes: E = TT * S * K / t. With E of 1 or more, waiting is worth it. Machines that jobs ahead in the queue want too
are left to those jobs, as the document's text argues; its formula 5, as printed, counts only those
(`experiments.simulator.waiting` has both).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

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


def expected_requests(outlook: DataOutlook) -> float:
    """E, requests of machines with data: TT * S * (K - R) / t with jobs ahead, TT * S * K / t without."""
    machines = outlook.machines - outlook.shared if outlook.ahead else outlook.machines
    if outlook.task_s <= 0:
        # such tasks ask for the next one all the time
        return math.inf if machines else 0.0
    return outlook.move_s * outlook.slots * machines / outlook.task_s


PATIENCE = 3.0
"""So many times the time to move its input somebody waits at most: with an expectation of one arrival in that time, none
comes in three of them with a chance of e^-3, one in twenty."""
