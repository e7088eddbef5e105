"""Division of a worker's cores among executors this period (docs/control.md, "From law to quota"). Pure.

Floors first; then demands by priority; within a priority the applications that can still make their deadline (earliest
first), then applications past it or beyond saving (largest debt first), then applications without a deadline. Cores that no
executor asks for stay unallocated. Everything is counted in whole quanta, so no sum drifts. Not covered: the demands (the
laws) and the writing of quotas (`step`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from controller.runtime.base import ExecutorKey

LEAST_CORES = 0.01
"""No floor shrinks below this; it is the kernel's least quota."""


class CoreRequest(Struct, frozen=True):
    """One executor's request, in cores except where a name says otherwise.

    `left_s` until the application's deadline (None: it has none; 0 or less: past), `beyond_saving`: no number of cores
    makes it any more, `debt_core_s`: withheld from the application by earlier squeezes. A larger `priority` wins.
    """

    key: ExecutorKey
    demand: float
    floor: float
    priority: int
    left_s: float | None = None
    beyond_saving: bool = False
    debt_core_s: float = 0.0


def arbitrate(requests: Sequence[CoreRequest], capacity: float, quantum: float, period_s: float) -> dict[ExecutorKey, float]:
    """Return cores for every request, in the order given; their sum never exceeds `capacity`.

    Grants are multiples of `quantum`: demands and floors are rounded up to it, the capacity down. Only where the sum of the
    floors exceeds the capacity do all shrink alike, in quanta if that leaves each at least one, else in hundredths of a core;
    below 0.01 core each, nothing can be kept and every executor gets 0.01 (admission prevents that). The outcome does not
    depend on the order of the requests. Deadlines closer than `period_s` are equal, because the laws cannot tell them apart.
    """
    total = max(0, _floor(capacity, quantum))
    ordered = sorted(requests, key=lambda request: request.key)
    floors = {request.key: _ceil(request.floor, quantum) for request in ordered}
    if sum(floors.values()) > total:
        shrunk = _shrink(ordered, capacity, quantum)
        return {request.key: shrunk[request.key] for request in requests}
    granted = dict(floors)
    left = total - sum(floors.values())
    for rank in _ranks(ordered, period_s):
        # an unlimited demand is for the whole worker
        demands = {r.key: capacity if r.demand == math.inf else r.demand for r in rank}
        wishes = {key: max(0, _ceil(demand, quantum) - floors[key]) for key, demand in demands.items()}
        shares = _in_proportion(wishes, left)
        for key, share in shares.items():
            granted[key] += share
        left -= sum(shares.values())
    # Ten decimals: 3 * 0.05 reads 0.15, not 0.15000000000000002.
    return {request.key: round(granted[request.key] * quantum, 10) for request in requests}


def _ranks(requests: Sequence[CoreRequest], period_s: float) -> Iterator[list[CoreRequest]]:
    """Yield groups that share alike, first served first. Executors of one application always share a group."""
    for priority in sorted({request.priority for request in requests}, reverse=True):
        same = [request for request in requests if request.priority == priority]
        late = [r for r in same if r.left_s is not None and (r.beyond_saving or r.left_s <= 0)]
        timely = [r for r in same if r.left_s is not None and not (r.beyond_saving or r.left_s <= 0)]
        yield from _by_deadline(timely, period_s)
        for debt in sorted({request.debt_core_s for request in late}, reverse=True):
            yield [request for request in late if request.debt_core_s == debt]
        yield [request for request in same if request.left_s is None]


def _by_deadline(requests: Sequence[CoreRequest], period_s: float) -> Iterator[list[CoreRequest]]:
    """Yield groups, earliest first; each holds requests less than a period after its earliest, so none chains endlessly."""
    group: list[CoreRequest] = []
    start_s = -math.inf
    for request in sorted(requests, key=lambda r: r.left_s or 0.0):
        left_s = request.left_s or 0.0
        if group and left_s - start_s >= period_s:
            yield group
            group = []
        if not group:
            start_s = left_s
        group.append(request)
    if group:
        yield group


def _in_proportion(wishes: Mapping[ExecutorKey, int], available: int) -> dict[ExecutorKey, int]:
    """Return whole shares in proportion to the wishes, none above its wish; largest remainder, then the order given."""
    asked = sum(wishes.values())
    if asked <= available:
        return dict(wishes)
    shares = {key: wish * available // asked for key, wish in wishes.items()}
    spare = available - sum(shares.values())
    by_remainder = sorted(wishes, key=lambda key: -(wishes[key] * available % asked))
    for key in by_remainder[:spare]:
        shares[key] += 1
    return shares


def _shrink(requests: Sequence[CoreRequest], capacity: float, quantum: float) -> dict[ExecutorKey, float]:
    """Cut all floors to one fraction of themselves: to whole quanta if each keeps one, else to hundredths of a core."""
    fraction = min(1.0, capacity / math.fsum(request.floor for request in requests))
    quanta = {request.key: _floor(request.floor * fraction, quantum) for request in requests}
    if all(quanta.values()):
        return {key: round(count * quantum, 10) for key, count in quanta.items()}
    # Each keeps one hundredth; the cores above that shrink alike.
    above = {request.key: max(0, _ceil(request.floor, LEAST_CORES) - 1) for request in requests}
    rest = max(0, _floor(capacity, LEAST_CORES) - len(requests))
    asked = max(1, rest, sum(above.values()))
    return {key: round((1 + count * rest // asked) * LEAST_CORES, 10) for key, count in above.items()}


def _ceil(cores: float, quantum: float) -> int:
    """Return the whole quanta that cover `cores`; rounding errors of floats (0.15 / 0.05) do not count."""
    return max(0, math.ceil(cores / quantum - 1e-9))


def _floor(cores: float, quantum: float) -> int:
    return math.floor(cores / quantum + 1e-9)
