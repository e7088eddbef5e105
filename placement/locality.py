"""The forecast whether waiting for a worker with the data is worth it, as in document 002 (RFD; docs/design.md, section 4).

E is the number of requests that machines with unprocessed blocks of the job are expected to make within the time that moving
one block takes: E = TT * S * K / t. With E of 1 or more, waiting is worth it. Machines that jobs ahead in the queue want too
are left to those jobs, as the document's text argues; its formula 5, as printed, counts only those
(`experiments.simulator.waiting` has both).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

WORTH = 1.0
"""Expectation from which on waiting is worth it."""


@dataclass(frozen=True, slots=True)
class DataOutlook:
    """`move_s`: TT, seconds to move one block; `slots`: S of a machine; `task_s`: t, mean time of a task; `machines`: K,
    machines that hold unprocessed blocks of the job; `shared`: R, those of them that jobs ahead want too."""

    move_s: float
    slots: float
    task_s: float
    machines: int
    shared: int = 0
    ahead: bool = False
    """True if a job is ahead in the queue."""


def expected_requests(outlook: DataOutlook) -> float:
    """Return E, requests of machines with data: TT * S * (K - R) / t with jobs ahead, TT * S * K / t without."""
    machines = outlook.machines - outlook.shared if outlook.ahead else outlook.machines
    if outlook.task_s <= 0:
        # such tasks ask for the next task all the time
        return math.inf if machines else 0.0
    return outlook.move_s * outlook.slots * machines / outlook.task_s


PATIENCE = 3.0
"""Longest wait in times of moving the input: with an expectation of one arrival in that time, none comes in three of them
with a chance of e^-3, one in twenty."""
