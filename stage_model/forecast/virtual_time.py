"""Schedules of tasks, made once in virtual work time; afterwards the end for any number of cores is one short sum.

With L slots and c cores every running task advances at the same speed min(limit, c/k), k = tasks running. List-scheduling the
tasks on L slots in virtual time v (a task takes its work, in core-seconds, of v) does not depend on c. What matters of the
schedule is how long each k lasted, so a `Busy` tuple holds, at index k-1, the virtual seconds with k tasks running. Tasks of
a stage that waits have a lower limit of their own, so k of them count as fewer, and not as a whole number (`Limited`). Stages
that follow each other just add up. See docs/control.md for the derivation.

Not covered: where task works come from (`estimate`, `laws`).
"""

from __future__ import annotations

import heapq
import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache, reduce
from statistics import NormalDist

from msgspec import Struct

Busy = tuple[float, ...]
Limited = tuple[tuple[float, float], ...]
"""States of tasks that wait, the least first: how many tasks that never wait could use as many cores, which need not be a
whole number, and the virtual seconds that the state lasts."""
State = tuple[int, float, float]
"""The number of tasks that run at once, the virtual seconds for which they do, and a weight: states wait in proportion to
their weights."""
Sized = tuple[int, float, float]
"""A stage's tasks, core-seconds and coefficient of variation of a task's work."""

STEADY_WAVES = 16
"""Waves of tasks beyond which tasks are taken as a steady flow on all slots: the tail's shape no longer depends on them."""

STEPS = 16
"""Numbers of tasks, for each doubling, between which a state of `Limited` is divided: messages then have a few hundred of
them, whatever stages wait."""

LEAST_CORE_S = 1e-9
"""Core-seconds of a stage up to which its tasks count as having no work: a profile may claim work close to 0."""
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


def merged(parts: Iterable[Limited]) -> Limited:
    """Return the states of sequences that follow each other."""
    seconds: dict[float, float] = {}
    for tasks, lasting in itertools.chain.from_iterable(parts):
        seconds[tasks] = seconds.get(tasks, 0.0) + lasting
    return tuple(sorted(seconds.items()))


class WorkLeft(Struct, frozen=True):
    """Core-seconds left of each running and each waiting task of a stage, and of the waiting tasks beyond `STEADY_WAVES`,
    which keep all slots busy; the seconds left that no core shortens, and the part of them that is waiting."""

    running: list[float]
    waiting: list[float]
    steady_core_s: float
    fixed_s: float
    waiting_s: float = 0.0


def weighed(stages: Sequence[WorkLeft], slots: int) -> list[State]:
    """Return the states of `schedule` for stages side by side, weighed by how long the running tasks wait.

    If a stage of W core-seconds waits for w seconds with a tasks at once, one of its tasks waits a * w / W seconds for each
    core-second. A state's weight is the mean of that over its running tasks, times its length.
    """
    found = dict[tuple[int, float], float]()  # seconds by the number of running tasks and the sum of their rates
    running, waiting = list[tuple[float, float]](), list[tuple[float, float]]()
    for stage in stages:
        at_once = slots if stage.steady_core_s else min(slots, len(stage.running) + len(stage.waiting))
        work_core_s = math.fsum(stage.running) + math.fsum(stage.waiting) + stage.steady_core_s
        rate = stage.waiting_s * at_once / work_core_s if work_core_s > LEAST_CORE_S else 0.0
        running += [(work, rate) for work in stage.running if work > 0]
        waiting += [(work, rate) for work in stage.waiting]
        if stage.steady_core_s:
            place = slots, slots * rate
            found[place] = found.get(place, 0.0) + stage.steady_core_s / slots
    first = max(0, slots - len(running))
    ends = sorted([*running, *waiting[:first]])  # a sorted list is a heap
    later = iter(waiting[first:])
    clock, rates = 0.0, math.fsum([rate for _, rate in ends])
    while ends:
        end, rate = ends[0]
        if end > clock:
            place = len(ends), rates
            found[place] = found.get(place, 0.0) + (end - clock)
            clock = end
        following = next(later, None) if len(ends) <= slots else None
        if following is None:
            heapq.heappop(ends)
            rates -= rate
        else:
            heapq.heapreplace(ends, (clock + following[0], following[1]))
            rates += following[1] - rate
    return [(k, lasting, lasting * max(0.0, total) / k) for (k, total), lasting in found.items()]


@lru_cache(maxsize=8192)
def stages_weighed(stages: tuple[Sized, ...], waiting_s: tuple[float, ...], slots: int) -> tuple[State, ...]:
    """Return the states of `stages_busy`, weighed by the seconds for which each stage waits (`weighed`)."""
    left = list[WorkLeft]()
    for stage, seconds in zip(stages, waiting_s, strict=True):
        steady_core_s, works = queued((stage,), slots)
        left.append(WorkLeft([], works, steady_core_s, seconds, seconds))
    return tuple(weighed(left, slots))


def with_waiting(busy: Busy, fixed_s: float, waiting_s: float, speed_limit: float, states: Sequence[State] = ()) -> Forecast:
    """Return the forecast of tasks that also wait, together for `waiting_s` seconds of the time they take at full speed, and
    of `fixed_s` seconds that no core shortens. `states` are those of `busy`, weighed; without them all tasks wait alike.

    A task that computes for a share s of its time uses at most s of a core. So k of them last 1/s times as long and use the
    cores of k*s tasks. That state is divided between the steps below and above, but never above k, so that both the time at
    full speed and the work stay. Between these two T(c) is then up to 1.1% of the state above its value without the division.
    """
    if waiting_s <= 0:
        return Forecast(busy, fixed_s, speed_limit)
    states = states or [(k, v, v) for k, v in enumerate(busy, 1) if v > 0]
    whole = math.fsum([weight for _, _, weight in states])
    if whole <= 0:
        return Forecast(busy, fixed_s + waiting_s, speed_limit)
    seconds: dict[float, float] = {}
    for k, v, weight in states:
        lasting = v + waiting_s * speed_limit * (weight / whole)
        if v <= LEAST_SHARE * lasting:
            fixed_s += (lasting - v) / speed_limit
            lasting = v
        tasks = k * (v / lasting) if v > 0 else float(k)
        place = math.floor(math.log2(tasks) * STEPS)
        below, above = 2.0 ** (place / STEPS), min(2.0 ** ((place + 1) / STEPS), float(k))
        part = min(1.0, max(0.0, (tasks - below) / (above - below))) if above > below else 0.0
        seconds[below] = seconds.get(below, 0.0) + lasting * (1 - part)
        seconds[above] = seconds.get(above, 0.0) + lasting * part
    return Forecast((), fixed_s, speed_limit, tuple(sorted((n, lasting) for n, lasting in seconds.items() if lasting > 0)))


def side_by_side(fixed: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the latency and waiting of stages that run at the same time, from each one's fixed time and the part of it that
    is waiting. These times pass together, so the longest latency and the longest fixed time count."""
    latency_s = max([fixed_s - waiting_s for fixed_s, waiting_s in fixed], default=0.0)
    return latency_s, max([fixed_s for fixed_s, _ in fixed], default=0.0) - latency_s


class Forecast(Struct, frozen=True, dict=True):
    """The work left to do: `busy` and `limited` as above, and `fixed_s` seconds that no core shortens (driver gaps, start-up,
    I/O).

    `speed_limit`: cores one task can use at most, in (0, 1]; below 1 where a worker is smaller than a core.
    """

    busy: Busy
    fixed_s: float = 0.0
    speed_limit: float = 1.0
    limited: Limited = ()

    @cached_property
    def states(self) -> Limited:
        """All states that last, whether their tasks wait or not; empty where no work is left."""
        found: Limited = (*enumerate(self.busy, 1), *self.limited)
        lasting = [state for state in found if state[1] > 0]
        return tuple(sorted(lasting) if self.limited else lasting)

    def then(self, *others: Forecast) -> Forecast:
        """Return the forecast of this work and, after it, of the others, which have the same speed limit."""
        busy = reduce(add, [other.busy for other in others], self.busy)
        fixed_s = sum([other.fixed_s for other in others], self.fixed_s)
        return Forecast(busy, fixed_s, self.speed_limit, merged([self.limited, *[other.limited for other in others]]))

    def times(self, share: float) -> Forecast:
        """Return the forecast with `share` times the work and the same fixed seconds."""
        limited = tuple([(tasks, share * v) for tasks, v in self.limited])
        return Forecast(tuple([share * v for v in self.busy]), self.fixed_s, self.speed_limit, limited)

    def time_s(self, cores: float) -> float:
        """Return T(c): seconds until the end with `cores` > 0; convex and falling in cores."""
        slow = 1.0 / self.speed_limit
        # not `max`: a call for each state would be most of the time
        return self.fixed_s + sum([v * (s if (s := tasks / cores) > slow else slow) for tasks, v in self.states])

    def least_time_s(self) -> float:
        """Return the end with as many cores as there are running tasks."""
        return self.fixed_s + sum([v for _, v in self.states]) / self.speed_limit

    def work_core_s(self) -> float:
        return sum([tasks * v for tasks, v in self.states], 0.0)

    def least_cores(self, left_s: float) -> float | None:
        """Return the least cores with T(c) <= left_s; None when no number of cores is enough, 0.0 when everything left is
        time that no core shortens and `left_s` is enough for it.

        Between the cores that two neighbouring states can use T(c) is a + b/c, so the segment is found and solved directly.
        """
        least_s = self.least_time_s()
        if not self.states:
            return 0.0 if least_s <= left_s else None
        if left_s <= least_s:
            return None
        slow = 1.0 / self.speed_limit
        early, late, most = 0.0, self.work_core_s(), 0.0
        for tasks, v in self.states:
            # the states before this one run at full speed, the others share the cores
            rest = left_s - self.fixed_s - early
            if rest > 0:
                cores = max(late, 0.0) / rest
                if cores <= tasks * self.speed_limit:
                    return max(cores, most)
            early += v * slow
            late -= tasks * v
            most = tasks * self.speed_limit
        return most
