"""Rates of executors on a busy disk or network: lower priorities get what the others leave of its limit. Pure.

A thing with a limit is busy once the executors of this worker together use nearly all of it, while an executor of higher
priority wants some, too. Then the arbiter of the cores (`arbitrate`) divides the limit: everything is counted in parts of
it. What an executor wants is what it uses and half as much again, or, where its application has a deadline and a profile, its
part of the bytes left / the time left, but no more than a few times what it uses. Executors of the highest priority that
wants some have no rate. The others share the rest, so nothing lies idle.

The first look at a whole period on a full device sets the rates. So a lower priority has its rate at the second look after a
higher priority has arrived, because the first look may see only the end of a period. What an executor uses rises with the
newest look and falls with the mean, so that the rates do not follow each pause. Not covered: how rates are measured and set
(`controller.agent.rating`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from msgspec import Struct, structs

from controller.agent.core.arbitrate import CoreRequest, arbitrate
from controller.runtime.base import ExecutorKey
from stage_model.plan import ApplicationPlan

REACHED = 0.9
"""Use at one look from which on a thing is busy: the rates measured on a full device vary."""
EASED = 0.6
"""Use at one look below which a thing with rates in force is not busy. If the lower priorities want all that they can get,
their rates leave no less than 0.68 in use: a use of t is given 1.5 t, and the others at least `FLOOR`."""
CALM_S = 5.0
"""Time for which a thing must not be busy before the rates are lifted: stages pause between reading and writing."""
GROWTH = 1.5
"""Wanted / used: what is used may grow by that much from look to look."""
ASKED_GROWTH, ASKED_IDLE = 3.0, 0.1
"""Most that a deadline may ask for: that many times what is used, and this part if hardly anything is used. An application
that is late and only computes holds no one back."""
IDLE = 0.01
"""Use below which an executor wants nothing."""
FLOOR, QUANTUM = 0.05, 0.01
"""Least rate of an executor, because tasks that stand still run into time-outs, and the step of rates."""
LEAST_SIDE = 0.05
"""Least part of a rate that is kept for reading, and for writing."""
SMOOTHING = 0.5
"""Weight of the newest rate in the mean."""

Pair = tuple[float, float]
"""Amounts of both directions: a disk's are read and written, a network's are received and sent."""


class Sharer(Struct, frozen=True):
    """An executor that may use things with limits. Of `request` only the rank counts. `asked` are bytes per second that its
    application's deadline asks for, read and written (None: no deadline or no profile). `watched`: nothing is set for it."""

    request: CoreRequest
    asked: Pair | None = None
    watched: bool = False


class ThingUse(Struct, frozen=True):
    """An executor's use of one thing at the last look, its mean over the last looks, and what its deadline asks for, in parts
    of the limit."""

    sharer: Sharer
    used: Pair
    asked: Pair | None = None
    mean: Pair = (0.0, 0.0)

    @property
    def steady(self) -> Pair:
        """The use that rises at once and falls slowly."""
        return max(self.used[0], self.mean[0]), max(self.used[1], self.mean[1])


class Meter(Struct, frozen=True):
    """The bytes counted at a look, the rates since the look before, and the mean of those so far, in bytes per second. A new
    process begins with a new meter."""

    pid: int
    counts: Pair
    at_s: float
    rates: Pair = (0.0, 0.0)
    mean: Pair = (0.0, 0.0)

    def after(self, pid: int, counts: Pair, now_s: float) -> Meter:
        if pid != self.pid or now_s <= self.at_s:
            return Meter(pid, counts, now_s)
        elapsed_s = now_s - self.at_s
        read, written = (max(0.0, now - then) / elapsed_s for now, then in zip(counts, self.counts, strict=True))
        before = self.mean
        mean = (SMOOTHING * read + (1 - SMOOTHING) * before[0], SMOOTHING * written + (1 - SMOOTHING) * before[1])
        return Meter(pid, counts, now_s, (read, written), mean)


class _Flow(Struct, frozen=True):
    """`used` at the last look, `steady` as in `ThingUse`."""

    request: CoreRequest
    used: float
    steady: float
    asked: float | None
    watched: bool

    @property
    def wanted(self) -> float:
        if self.asked:
            return min(self.asked, max(ASKED_GROWTH * self.steady, ASKED_IDLE))
        return GROWTH * self.steady if self.steady >= IDLE else 0.0

    @property
    def priority(self) -> int:
        return self.request.priority


class Busy(Struct, frozen=True):
    """The state of a thing from look to look. `used` is its use at the last look, in parts of the limit; `busy_s` the time of
    the last look at which it was busy (None: no rates are in force)."""

    used: float = 0.0
    busy_s: float | None = None

    def after(self, flows: Sequence[_Flow], now_s: float) -> Busy:
        used = math.fsum(flow.used for flow in flows)
        if _top(flows) is not None and used >= (REACHED if self.busy_s is None else EASED):
            return Busy(used, now_s)
        over = self.busy_s is None or now_s - self.busy_s >= CALM_S
        return Busy(used, None if over else self.busy_s)


def asked_rates(plan: ApplicationPlan) -> Pair | None:
    """Return the bytes per second that each of the application's executors has to read and to write until its deadline, inf
    past it; None without a deadline, or where the bytes left are not known. `plan` is aged to now."""
    if plan.left_s is None or plan.bytes_left is None:
        return None
    if plan.left_s <= 0:
        return math.inf, math.inf
    read, written = (left / plan.left_s / max(1, plan.executors) for left in plan.bytes_left)
    return read, written


def joint_rates(uses: Sequence[ThingUse], busy: Busy, now_s: float, period_s: float) -> tuple[dict[ExecutorKey, Pair], Busy]:
    """Return rates, in parts of a limit for both directions together, by executor; those left out have none. A rate is
    divided as the executor reads and writes now."""
    flows = [_flow(use, sum, None if use.asked is None else sum(use.asked)) for use in uses]
    rates, busy = _rates(flows, busy, now_s, period_s)
    sides = {use.sharer.request.key: _sides(use.steady) for use in uses}
    return {key: (rate * sides[key], rate * (1 - sides[key])) for key, rate in rates.items()}, busy


def separate_rates(
    uses: Sequence[ThingUse], busy: tuple[Busy, Busy], now_s: float, period_s: float
) -> tuple[dict[ExecutorKey, Pair], tuple[Busy, Busy]]:
    """Return rates, in parts of a limit that each direction has, by executor; those left out have none. A direction that is
    not busy has the whole limit."""
    found, after = [], []
    for side in (0, 1):
        flows = [_flow(use, itemgetter(side), None if use.asked is None else use.asked[side]) for use in uses]
        rates, now = _rates(flows, busy[side], now_s, period_s)
        found.append(rates)
        after.append(now)
    first, second = found
    return {key: (first.get(key, 1.0), second.get(key, 1.0)) for key in first.keys() | second.keys()}, (after[0], after[1])


def _flow(use: ThingUse, counted: Callable[[Pair], float], asked: float | None) -> _Flow:
    """Return the flow of the directions that `counted` takes."""
    steady = max(counted(use.used), counted(use.mean))
    return _Flow(use.sharer.request, counted(use.used), steady, asked, use.sharer.watched)


def _top(flows: Sequence[_Flow]) -> int | None:
    """Return the highest priority that wants some, if an executor of a lower one could leave it more."""
    top = max((flow.priority for flow in flows if flow.wanted > 0), default=None)
    return top if top is not None and any(flow.priority < top and not flow.watched for flow in flows) else None


def _rates(flows: Sequence[_Flow], busy: Busy, now_s: float, period_s: float) -> tuple[Mapping[ExecutorKey, float], Busy]:
    busy = busy.after(flows, now_s)
    if busy.busy_s is None:
        return {}, busy
    top = _top(flows)
    if top is None:  # higher priorities pause
        top = max((flow.priority for flow in flows), default=0)
    requests = [_requested(flow, top) for flow in flows]
    granted = arbitrate(requests, 1.0, QUANTUM, period_s)
    held = {flow.request.key: flow.wanted for flow in flows if flow.priority < top and not flow.watched}
    spare = max(0.0, 1.0 - math.fsum(granted.values()))
    rates = {key: granted[key] + spare / len(held) for key in held}
    # an idle executor may begin to read
    return {key: rate if held[key] > 0 else max(FLOOR, rate) for key, rate in rates.items()}, busy


def _requested(flow: _Flow, top: int) -> CoreRequest:
    """Return the flow's request to the arbiter. Nothing is set aside for an idle executor, and a watched executor has at
    least what it uses."""
    if not flow.watched:
        return structs.replace(flow.request, demand=flow.wanted, floor=min(FLOOR, flow.wanted))
    demand = flow.wanted if flow.priority >= top else flow.steady
    return structs.replace(flow.request, demand=demand, floor=flow.steady)


def _sides(used: Pair) -> float:
    """Return the part of the first direction."""
    total = sum(used)
    return min(1 - LEAST_SIDE, max(LEAST_SIDE, used[0] / total)) if total > 0 else 0.5
