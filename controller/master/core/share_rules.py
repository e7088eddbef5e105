"""The rules of a user's share: from the limits, what the user has now and what is asked for follows a refusal, a wait, or
neither. Pure.

A priority and a promise that are over a limit are refused. What needs room, an executor's memory or one more application
that runs, waits until the user has less. Limits take nothing away: what was promised before they were set stays. Not covered:
how much a user has (`shares`).
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.asks.user_limits import UserLimits
from stage_model.forecast.promises import Claim
from stage_model.units import PRIORITIES

LOWEST = min(PRIORITIES.values())
"""The lowest priority there is."""
ROUNDING = 0.005
"""Cores are shown to a hundredth: a share that looks full is full."""


@dataclass(frozen=True, slots=True)
class InUse:
    """The use that a user has of the cluster now: cores that are promised to its deadlines, MiB that are promised to its
    executors, its applications that run, and the highest priority of those that have not ended."""

    cores: float = 0.0
    memory_mb: int = 0
    applications: int = 0
    priority: int = LOWEST


def cores_of(claim: Claim, most_cores: float) -> float:
    """Return the cores that a promise takes from now on: the least constant ones that keep it. A deadline that cannot be kept
    takes the most that its application can get (0: not known)."""
    needed = claim.forecast.least_cores(claim.left_s)
    if needed is None:
        return most_cores
    return min(needed, most_cores) if most_cores > 0 else needed


def share_refusal(limits: UserLimits, has: InUse, priority: int | None = None, cores: float | None = None) -> str:
    """Return a sentence that refuses a priority or a deadline; empty for what the limits allow. `priority` None: none is
    named. `cores` None: no deadline is asked for, or the deadline takes no more than the user has; 0: no one knows how many
    cores the deadline takes."""
    highest, most = limits.priority, limits.cores
    if highest is not None and priority is not None and priority > highest:
        return f"priority {priority} is over the highest of {_whose(limits)}; accepted: {highest} or lower"
    if most is None or cores is None or has.cores + cores <= most + ROUNDING:
        return ""
    takes = f"takes {cores:.2f} cores more" if cores > 0 else "takes more cores"
    left = max(0.0, most - has.cores)
    return f"the deadline {takes}, and {has.cores:.2f} of the {most:.2f} of {_whose(limits)} are promised; accepted: " + (
        f"a later one for which {left:.2f} are enough" if left >= ROUNDING else "no deadline until fewer are promised"
    )


def executor_refusal(limits: UserLimits, executor_mb: int) -> str:
    """Return a sentence that refuses an executor for which the user would never have room; empty for any other."""
    if limits.memory_mb is None or executor_mb <= limits.memory_mb:
        return ""
    return (
        f"an executor of this application needs {executor_mb} MiB, more than the {limits.memory_mb} MiB of {_whose(limits)}; "
        "lower --executor-memory or spark.executor.memoryOverhead"
    )


def executors_left(limits: UserLimits, has: InUse, executor_mb: int) -> int | None:
    """Return how many executors of that size the user has memory left for; None: as many as there are."""
    if limits.memory_mb is None or executor_mb <= 0:
        return None
    return max(0, limits.memory_mb - has.memory_mb) // executor_mb


def share_wait(limits: UserLimits, has: InUse, executor_mb: int) -> str:
    """Return a clause that says why an application may not have its first executor yet, which needs that many MiB; empty
    where it may."""
    if limits.applications is not None and has.applications >= limits.applications:
        return f"as many applications of {_whose(limits)} run as may at a time ({limits.applications})"
    return "" if executors_left(limits, has, executor_mb) != 0 else memory_wait(limits, has, executor_mb)


def memory_wait(limits: UserLimits, has: InUse, executor_mb: int) -> str:
    """Return a clause that says what memory the user lacks for an executor."""
    return (
        f"an executor needs {executor_mb} MiB, and the executors of {_whose(limits)} have {has.memory_mb} of "
        f"{limits.memory_mb} MiB"
    )


def over_limits(limits: UserLimits, has: InUse) -> str:
    """Return a sentence that says what a user has more of than the limits allow; empty for a user within them."""
    each: tuple[tuple[float | None, float, str], ...] = (
        (limits.priority, has.priority, f"priority {has.priority} of {limits.priority}"),
        (limits.cores, has.cores - ROUNDING, f"{has.cores:.2f} of {limits.cores or 0:.2f} cores"),
        (limits.memory_mb, has.memory_mb, f"{has.memory_mb} of {limits.memory_mb} MiB"),
        (limits.applications, has.applications, f"{has.applications} of {limits.applications} applications"),
    )
    over = [said for limit, amount, said in each if limit is not None and amount > limit]
    if not over:
        return ""
    return f"{_whose(limits)} has more than its limits allow ({', '.join(over)}): that goes on, and nothing more is promised"


def _whose(limits: UserLimits) -> str:
    return f"user {limits.user}"
