"""The division of one worker's memory among the applications on it, and whether a further one fits. Pure; all sizes are MiB.

Document 004, section 2.4.1: M = the worker's memory for executors, h = an application's fixed need (heap, overhead, Python),
|A| = the applications with an executor there whose off-heap memory may change; offHeap = (M - sum of h) / |A|, and a newcomer
waits where offHeap is below h.

Where offHeap is below h and there are several priorities, applications of the lowest give first: they are brought down to
their floors one after the other until offHeap is enough for the rest (document 003, preemption). So a newcomer may also join
where applications of lower priority make room; no one loses work, because what is taken is evicted cache and memory that
tasks give back. Not here: which application comes first (`controller.master.core.queue`), how a running executor gets there
(`resize`). See docs/decisions/0012-elastic-memory.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

HEADROOM = 1.25
"""Factor on a job's use: a job that uses all its budget asks for a quarter more; a job that uses less keeps a quarter more
than its use."""
STEADY_SHARE = 1 / 16
"""Part of the off-heap memory that a budget must move by before `by-need` moves any budget: each move costs evictions."""


@dataclass(frozen=True, slots=True)
class Need:
    """One application (its executor) on the worker.

    `fixed_mb` is h. `floor_mb` is the least off-heap budget with which its tasks run, None when its off-heap memory is fixed
    (then `fixed_mb` holds it). Measured: `budget_mb` that it has now (None: not known yet), of which `execution_mb` is held
    by running tasks and cannot be evicted, `storage_mb` by cached data, which can. `priority`: a larger one wins.
    """

    key: str
    fixed_mb: int
    floor_mb: int | None = None
    budget_mb: int | None = None
    execution_mb: int = 0
    storage_mb: int = 0
    priority: int = 0

    @property
    def least_mb(self) -> int:
        """The smallest container that the executor can run in."""
        return self.fixed_mb + (self.floor_mb or 0)


def equal(memory_mb: int, needs: Sequence[Need]) -> dict[str, int]:
    """Return the paper's budgets: the same for all but the `squeezed`. Where a floor is above that, the others have less."""
    floors = _floors(needs)
    return level(_off_heap_mb(memory_mb, needs), floors, _most(memory_mb, needs))


def by_need(memory_mb: int, needs: Sequence[Need]) -> dict[str, int]:
    """Return budgets by measured use with head-room: max-min fair up to what each needs, and memory that no application needs
    is shared equally.

    Execution memory in use counts as a floor, because a budget below it could not be reached. An application whose use is not
    known yet needs an equal share. Budgets in force stay as long as none of them would move by `STEADY_SHARE` of all: memory
    that goes to and fro is evicted cache.
    """
    floors = _floors(needs)
    available = _off_heap_mb(memory_mb, needs)
    fair = available // max(1, len(floors))
    elastic = {need.key: need for need in needs if need.key in floors}
    held = level(available, floors, {key: max(floors[key], need.execution_mb) for key, need in elastic.items()})
    most = _most(memory_mb, needs)
    wishes = {key: max(held[key], min(most[key], _wish_mb(need, fair))) for key, need in elastic.items()}
    served = level(available, held, wishes)
    sharing = [key for key in served if most[key] == memory_mb]
    spare = max(0, available - sum(served.values())) // max(1, len(sharing))
    wanted = {key: budget + (spare if key in sharing else 0) for key, budget in served.items()}
    now = {key: need.budget_mb for key, need in elastic.items() if need.budget_mb is not None}
    step = max(1, int(available * STEADY_SHARE))
    if (
        len(now) == len(wanted)
        and 0 <= available - sum(now.values()) <= step
        and all(now[key] >= held[key] and abs(now[key] - wanted[key]) < step for key in wanted)
    ):
        return now
    return wanted


POLICIES: Mapping[str, Callable[[int, Sequence[Need]], dict[str, int]]] = {"equal": equal, "by-need": by_need}
"""Policies that divide the memory left after the fixed needs: the off-heap budget by key, of needs that have a floor. Every
budget is at least its floor; together with the fixed needs the budgets fit the worker whenever the least containers do; the
order of the needs does not matter."""


def admits(memory_mb: int, present: Sequence[Need], newcomer: Need) -> bool:
    """Check that `newcomer` may join without a squeeze: for every application whose off-heap memory may change, offHeap >= h
    then (the paper's rule, under every policy). An application by itself on a worker takes no other's share: it only has to
    fit."""
    after = [*present, newcomer]
    if sum(need.least_mb for need in after) > memory_mb:
        return False
    share = share_mb(memory_mb, after)
    return len(after) == 1 or all(share >= need.fixed_mb for need in after if need.floor_mb is not None)


def victims(memory_mb: int, present: Sequence[Need], newcomer: Need) -> tuple[str, ...] | None:
    """Return the keys of needs of lower priority that are brought down to their floor if `newcomer` joins; None where that is
    not enough for it, or would take from an application of its own priority or a higher one."""
    after = [*present, newcomer]
    if sum(need.least_mb for need in after) > memory_mb:
        return None
    gone = squeezed(memory_mb, after)
    rest = [need for need in after if need.floor_mb is not None and need.key not in gone]
    left = _off_heap_mb(memory_mb, after) - sum(floor for key, floor in _floors(after).items() if key in gone)
    share = left // max(1, len(rest))
    # with all others at their floors, the newcomer no longer takes a share of theirs: it only has to fit
    if newcomer.key in gone or (rest != [newcomer] and any(share < need.fixed_mb for need in rest)):
        return None
    lower = {need.key for need in present if need.priority < newcomer.priority}
    before = squeezed(memory_mb, present)
    new = tuple(need.key for need in present if need.key in gone and need.key not in before)
    return new if lower.issuperset(new) else None


def squeezed(memory_mb: int, needs: Sequence[Need]) -> frozenset[str]:
    """Return the keys of needs that have only their floor because the equal share would be below h for others: the lowest
    priority first, those of the highest never."""
    elastic = [need for need in needs if need.floor_mb is not None]
    highest = max((need.priority for need in needs), default=0)
    available, rest, gone = _off_heap_mb(memory_mb, needs), list(elastic), set()
    # of the same priority, the application that needs the most room gives first: then fewer have to
    for need in sorted(elastic, key=lambda n: (n.priority, -n.fixed_mb, n.key)):
        if need.priority == highest or available // len(rest) >= max(n.fixed_mb for n in rest):
            break
        rest.remove(need)
        gone.add(need.key)
        available -= need.floor_mb or 0
    return frozenset(gone)


def share_mb(memory_mb: int, needs: Sequence[Need]) -> int:
    """Return the formula's offHeap; all that is left where no off-heap memory may change."""
    return _off_heap_mb(memory_mb, needs) // max(1, len(_floors(needs)))


def level(available: int, least: Mapping[str, int], most: Mapping[str, int]) -> dict[str, int]:
    """Return the max-min fair whole shares: one level for all, but for each key at least `least` and at most `most` (or
    `least`, if that is more); together at most `available`, unless the least shares are more already."""

    def shares(height: int) -> dict[str, int]:
        return {key: max(least[key], min(height, most[key])) for key in least}

    heights = range(max(0, available) + 1)
    above = bisect_right(heights, available, key=lambda height: sum(shares(height).values()))
    return shares(max(0, above - 1))


def _wish_mb(need: Need, fair: int) -> int:
    if need.budget_mb is None:
        return fair
    return int((need.execution_mb + need.storage_mb) * HEADROOM)


def _floors(needs: Sequence[Need]) -> dict[str, int]:
    return {need.key: need.floor_mb for need in needs if need.floor_mb is not None}


def _most(memory_mb: int, needs: Sequence[Need]) -> dict[str, int]:
    """Return the most off-heap memory that each may have: its floor where it is squeezed."""
    gone = squeezed(memory_mb, needs)
    return {key: floor if key in gone else memory_mb for key, floor in _floors(needs).items()}


def _off_heap_mb(memory_mb: int, needs: Sequence[Need]) -> int:
    return max(0, memory_mb - sum(need.fixed_mb for need in needs))
