"""Schedules of tasks, made once in virtual work time; afterwards the end for any number of cores is one short sum.

With L slots and c cores every running task advances at the same speed min(limit, c/k), k = tasks running. List-scheduling the
tasks on L slots in virtual time v (a task takes its work, in core-seconds, of v) does not depend on c. What matters of the
schedule is how long each k lasted, so a `Busy` tuple holds, at index k-1, the virtual seconds with k tasks running. Stages
that follow each other just add up. See docs/control.md for the derivation.

Not covered: where task works come from (`estimate`, `laws`).
"""

from __future__ import annotations

import heapq
import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import NormalDist

from msgspec import Struct

Busy = tuple[float, ...]
Sized = tuple[int, float, float]
"""A stage's tasks, core-seconds and coefficient of variation of a task's work."""

STEADY_WAVES = 16
"""Waves of tasks beyond which tasks are taken as a steady flow on all slots: the tail's shape no longer depends on them."""

LEAST_SHARE = 1e-9
"""Least share of their time that tasks compute; tasks below it count as waiting only: a profile may claim a share close to
0."""

_NORMAL = NormalDist()


def _interleaved(count: int) -> list[int]:
    """Return 0..count-1 in bit-reversed order, so that any run of consecutive tasks is a fair sample of the distribution."""
    bits = max(1, (count - 1).bit_length())
    order = (int(format(i, f"0{bits}b")[::-1], 2) for i in range(1 << bits))
    return [i for i in order if i < count]


@lru_cache(maxsize=256)
def _quantiles(count: int) -> tuple[float, ...]:
    """Return `count` evenly spread quantiles of the standard normal distribution, in an order that is a fair sample
    anywhere."""
    return tuple(_NORMAL.inv_cdf((i + 0.5) / count) for i in _interleaved(count))


def spread(cv: float, skew: float, tasks: int) -> float:
    """Return how much a stage's last task may differ from the mean, as a share of it: `cv`, or a third of the longest task's
    excess over the mean (`skew`: longest / mean), if that is more; so that three of it reach the longest."""
    return max(cv, (min(skew, tasks) - 1) / 3)


def task_works(count: int, mean: float, cv: float) -> list[float]:
    """Return the works (core-seconds) of `count` tasks: quantiles of a log-normal distribution with that mean and coefficient
    of variation, scaled so that their sum is exactly count * mean."""
    if count <= 0 or mean <= 0:
        return [0.0] * max(0, count)
    if cv <= 0.01 or count == 1:
        return [mean] * count
    raw, total = _log_normal(count, cv)
    scale = mean * count / total
    return [x * scale for x in raw]


@lru_cache(maxsize=1024)
def _log_normal(count: int, cv: float) -> tuple[tuple[float, ...], float]:
    """Return the quantiles of a log-normal distribution of no particular mean, and their sum: an agent asks for the same
    quantiles every period until a task of the stage has begun or ended."""
    sigma = math.sqrt(math.log1p(cv * cv))
    raw = tuple([math.exp(sigma * quantile) for quantile in _quantiles(count)])
    return raw, sum(raw)


def schedule(running: Iterable[float], waiting: Sequence[float], slots: int, steady_core_s: float = 0.0) -> Busy:
    """List-schedule `waiting` works (core-seconds, in order) after the `running` remainders on `slots` slots.

    Return the busy tuple of length `slots`. More running tasks than slots are accepted (they count as slots of their own).
    `steady_core_s` more core-seconds keep all slots busy.
    """
    ends = [r for r in running if r > 0]
    first = max(0, slots - len(ends))
    ends = sorted([*ends, *waiting[:first]])
    busy = [0.0] * max(slots, len(ends), 1)
    clock = 0.0
    later = waiting[first:]
    if later:
        while len(ends) > slots:
            busy[len(ends) - 1] += ends[0] - clock
            clock = ends.pop(0)
        # as long as tasks wait all slots are busy; a sorted list is a heap
        begun = clock
        for work in later:
            clock = heapq.heapreplace(ends, ends[0] + work)
        busy[slots - 1] += clock - begun
        ends.sort()
    for running_now, end in zip(range(len(ends), 0, -1), ends, strict=True):
        busy[running_now - 1] += end - clock
        clock = end
    if steady_core_s:
        busy[slots - 1] += steady_core_s / slots
    return tuple(busy)


@lru_cache(maxsize=8192)
def stages_busy(stages: tuple[Sized, ...], slots: int) -> Busy:
    """Return the busy tuple of stages that run at the same time: parallel branches share the slots, the earlier stage's tasks
    first, as Spark's FIFO scheduler has it. The same is asked every period while nothing of these stages has begun."""
    steady_core_s, works = queued(stages, slots)
    return schedule((), works, slots, steady_core_s)


def queued(stages: Sequence[Sized], slots: int) -> tuple[float, list[float]]:
    """Return the queue of stages in order: core-seconds that keep all slots busy at first, and then the works of tasks that
    wait for a slot."""
    steady_core_s, works = 0.0, list[float]()
    for tasks, work_core_s, cv in stages:
        if tasks <= 0 or work_core_s <= 0:
            continue
        mean = work_core_s / tasks
        steady = max(0, tasks - STEADY_WAVES * slots)
        steady_core_s += steady * mean
        works += task_works(tasks - steady, mean, cv)
    return steady_core_s, works


def add(left: Busy, right: Busy) -> Busy:
    """Return the busy tuple of one sequence after the other: busy tuples of stages in sequence add up."""
    if len(left) < len(right):
        left, right = right, left
    return (*map(operator.add, left, right), *left[len(right) :])


def with_waiting(busy: Busy, waiting_s: float, speed_limit: float) -> tuple[Busy, float]:
    """Return the busy tuple of tasks that also wait, together for `waiting_s` seconds of the time they take at full speed;
    and the seconds that no core shortens.

    A task that computes for a share s of its time uses at most s of a core. So k of them last 1/s times as long and use k*s
    cores, which are rarely whole tasks' worth: the time is divided between the whole numbers of tasks below and above, so
    that both the time at full speed and the work stay. Between these two T(c) is then a little above its value without the
    division.
    """
    if waiting_s <= 0:
        return busy, 0.0
    computing_s = sum(busy) / speed_limit
    share = computing_s / (computing_s + waiting_s)
    if share < LEAST_SHARE:
        return busy, waiting_s
    lasting = [0.0] * (len(busy) + 1)
    for k, v in enumerate(busy, 1):
        below = int(k * share)
        part = k * share - below
        lasting[below] += v / share * (1 - part)
        lasting[min(below + 1, k)] += v / share * part
    return tuple(lasting[1:]), lasting[0] / speed_limit


def side_by_side(fixed: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the latency and waiting of stages that run at the same time, from each one's fixed time and the part of it that
    is waiting. These times pass together, so the longest latency and the longest fixed time count."""
    latency_s = max([fixed_s - waiting_s for fixed_s, waiting_s in fixed], default=0.0)
    return latency_s, max([fixed_s for fixed_s, _ in fixed], default=0.0) - latency_s


class Forecast(Struct, frozen=True):
    """The work left to do: `busy` as above and `fixed_s` seconds that no core shortens (driver gaps, start-up, I/O).

    `speed_limit`: cores one task can use at most, in (0, 1]; below 1 where a worker is smaller than a core.
    """

    busy: Busy
    fixed_s: float = 0.0
    speed_limit: float = 1.0

    def time_s(self, cores: float) -> float:
        """Return T(c): seconds until the end with `cores` > 0; convex and falling in cores."""
        slow = 1.0 / self.speed_limit
        # not `max`: a call for each state would be most of the time
        return self.fixed_s + sum([v * (s if (s := k / cores) > slow else slow) for k, v in enumerate(self.busy, 1) if v])

    def least_time_s(self) -> float:
        """Return the end with as many cores as there are running tasks."""
        return self.fixed_s + sum(self.busy) / self.speed_limit

    def work_core_s(self) -> float:
        return float(sum(map(operator.mul, self.busy, itertools.count(1))))

    def least_cores(self, left_s: float) -> float | None:
        """Return the least cores with T(c) <= left_s; None when no number of cores is enough, 0.0 when everything left is
        time that no core shortens and `left_s` is enough for it.

        Between two whole multiples of the speed limit T(c) is a + b/c, so the segment is found and solved directly.
        """
        least_s = self.least_time_s()
        if not any(self.busy):
            return 0.0 if least_s <= left_s else None
        if left_s <= least_s:
            return None
        slow = 1.0 / self.speed_limit
        early, late = 0.0, self.work_core_s()
        for k, v in enumerate((0.0, *self.busy)):
            # states with at most k tasks run at full speed, the others share the cores
            early += v * slow
            late -= k * v
            rest = left_s - self.fixed_s - early
            if rest > 0:
                cores = max(late, 0.0) / rest
                if cores <= (k + 1) * self.speed_limit:
                    return max(cores, k * self.speed_limit)
        return len(self.busy) * self.speed_limit
