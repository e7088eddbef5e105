"""How one worker's memory is divided among the applications on it, and whether a further one fits. Pure; all sizes are MiB.

mission.md section 1 (Memory): M = the worker's memory for executors, h = an application's fixed need (heap, overhead,
Python), |A| = the applications with an executor there whose off-heap memory may change; offHeap = (M - sum of h) / |A|, and a
newcomer waits where that is below h. Not here: who asks and in which order (`controller.master.memory`), how a running
executor gets there (`controller.agent.memory`). See docs/decisions/0012-elastic-memory.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

HEADROOM = 1.25
"""A job that uses all it has asks for a quarter more; one that uses less gives the rest up but for a quarter of its use."""
STEADY_SHARE = 1 / 16
"""Part of the off-heap memory that a budget must move by before `by-need` moves any: each move costs evictions."""


@dataclass(frozen=True, slots=True)
class Need:
    """One application (its executor) on the worker.

    `fixed_mb` is h. `floor_mb` is the least off-heap budget with which its tasks run, None when its off-heap memory is fixed
    (then `fixed_mb` holds it). Measured: `budget_mb` that it has now (None: not heard of yet), of which `execution_mb` is
    held by running tasks and cannot be evicted, `storage_mb` by cached data, which can.
    """

    key: str
    fixed_mb: int
    floor_mb: int | None = None
    budget_mb: int | None = None
    execution_mb: int = 0
    storage_mb: int = 0

    @property
    def least_mb(self) -> int:
        """The smallest container it can run in."""
        return self.fixed_mb + (self.floor_mb or 0)


class Policy(Protocol):
    """Divides what is left beside the fixed needs. Every budget is at least its floor; together with the fixed needs they fit
    the worker whenever the least containers do; the order of `needs` does not matter."""

    def __call__(self, memory_mb: int, needs: Sequence[Need]) -> dict[str, int]:
        """Off-heap budget by key, of those that have a floor."""
        ...


def equal(memory_mb: int, needs: Sequence[Need]) -> dict[str, int]:
    """The paper's: the same for all. Where a floor is above that, the others have less."""
    floors = _floors(needs)
    return level(_off_heap_mb(memory_mb, needs), floors, dict.fromkeys(floors, memory_mb))


def by_need(memory_mb: int, needs: Sequence[Need]) -> dict[str, int]:
    """By measured use with head-room: max-min fair up to what each needs, and what nobody needs is shared equally.

    Execution memory in use counts as a floor, because a budget below it could not be reached. Whoever was not heard of yet
    needs an equal share. Budgets in force stay as long as none of them would move by `STEADY_SHARE` of all: memory that goes
    to and fro is evicted cache.
    """
    floors = _floors(needs)
    available = _off_heap_mb(memory_mb, needs)
    fair = available // max(1, len(floors))
    elastic = {need.key: need for need in needs if need.key in floors}
    held = level(available, floors, {key: max(floors[key], need.execution_mb) for key, need in elastic.items()})
    wishes = {key: max(held[key], _wish_mb(need, fair)) for key, need in elastic.items()}
    served = level(available, held, wishes)
    spare = max(0, available - sum(served.values())) // max(1, len(served))
    wanted = {key: budget + spare for key, budget in served.items()}
    now = {key: need.budget_mb for key, need in elastic.items() if need.budget_mb is not None}
    step = max(1, int(available * STEADY_SHARE))
    if (
        len(now) == len(wanted)
        and 0 <= available - sum(now.values()) <= step
        and all(now[key] >= held[key] and abs(now[key] - wanted[key]) < step for key in wanted)
    ):
        return now
    return wanted


POLICIES: Mapping[str, Policy] = {"equal": equal, "by-need": by_need}


def admits(memory_mb: int, present: Sequence[Need], newcomer: Need) -> bool:
    """Whether `newcomer` may join: for everybody whose off-heap memory may change, offHeap >= h then (the paper's rule, under
    every policy). An application alone on a worker takes nobody's share: it only has to fit."""
    after = [*present, newcomer]
    if sum(need.least_mb for need in after) > memory_mb:
        return False
    share = share_mb(memory_mb, after)
    return len(after) == 1 or all(share >= need.fixed_mb for need in after if need.floor_mb is not None)


def share_mb(memory_mb: int, needs: Sequence[Need]) -> int:
    """The formula's offHeap; all that is left where no off-heap memory may change."""
    return _off_heap_mb(memory_mb, needs) // max(1, len(_floors(needs)))


def level(available: int, least: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    """Max-min fair whole shares: one level for all, but at least `least` and at most `most` of each (or its `least`, if that
    is more); together at most `available`, unless the least shares are more already."""

    def shares(height: int) -> dict[str, int]:
        return {key: max(least[key], min(height, most[key])) for key in least}

    low, high = 0, max(0, available)
    while low < high:
        height = (low + high + 1) // 2
        if sum(shares(height).values()) <= available:
            low = height
        else:
            high = height - 1
    return shares(low)


def _wish_mb(need: Need, fair: int) -> int:
    if need.budget_mb is None:
        return fair
    return int((need.execution_mb + need.storage_mb) * HEADROOM)


def _floors(needs: Sequence[Need]) -> dict[str, int]:
    return {need.key: need.floor_mb for need in needs if need.floor_mb is not None}


def _off_heap_mb(memory_mb: int, needs: Sequence[Need]) -> int:
    return max(0, memory_mb - sum(need.fixed_mb for need in needs))
