"""Admission of a deadline next to deadlines that were promised before: a fluid model of the arbitration rules. Pure.

Claims are served by priority, then by deadline; each takes the least constant number of cores that keeps its deadline, from
what the claims before it leave (docs/control.md, "Admission with promises to others"). A newcomer is admitted if it can be
served in its place and no promise of the same or a higher priority is broken by it. Not covered: where forecasts come from
(`controller.master.core.remaining`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stage_model.forecast.virtual_time import Forecast

Room = tuple[tuple[float, float], ...]
"""Cores that are free over time: (until, cores), `until` in seconds from now, ascending, the last one infinite."""

HALVINGS = 16
"""Steps of a bisection: to a 65,000th of its range."""


def least_enough(low: float, high: float, enough: Callable[[float], bool]) -> float:
    """Return the least number between `low` and `high` that is `enough`, by bisection; `high` is known to be enough."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class Claim:
    """The work that one application still has to do in `left_s` seconds. `own_cores` are the cores of workers that are still
    to come for it: no other claim gets them, and this claim takes that many fewer of the rest."""

    forecast: Forecast
    left_s: float
    priority: int
    own_cores: float = 0.0


@dataclass(frozen=True, slots=True)
class Promised:
    """The promises made to running applications on a cluster of `cores` cores."""

    claims: Sequence[Claim] = ()
    cores: float = 0.0

    def to_rank(self, priority: int) -> Promised:
        """Return only the claims that are served before or with `priority`."""
        return replace(self, claims=[claim for claim in self.claims if claim.priority >= priority])


NOTHING_PROMISED = Promised()


def constant_room(cores: float) -> Room:
    """Return a room with the same cores for ever."""
    return ((math.inf, max(0.0, cores)),)


def end_s(forecast: Forecast, room: Room, most: float = math.inf) -> float:
    """Return when the work ends with at most `most` cores of what is free; the most parallel part comes first."""
    todo = list(forecast.states)
    now_s = forecast.fixed_s
    for until_s, free in room:
        while todo and now_s < until_s:
            tasks, work = todo[-1]
            speed = min(forecast.speed_limit, min(free, most) / tasks)
            if speed <= 0:
                break
            ready_s = now_s + work / speed
            if ready_s <= until_s:
                todo.pop()
            else:
                todo[-1] = (tasks, work - (until_s - now_s) * speed)
            now_s = min(ready_s, until_s)
        if not todo:
            return now_s
        now_s = max(now_s, until_s)
    return math.inf


def cores_to_keep(claim: Claim, room: Room) -> float | None:
    """Return the least constant cores of `room` that keep the claim's deadline; None when all of the room is not enough."""
    alone = claim.forecast.least_cores(claim.left_s)
    if alone is not None:
        begins_s = (0.0, *(until_s for until_s, _ in room))
        there = (free for since_s, (_, free) in zip(begins_s, room, strict=False) if since_s < claim.left_s)
        if alone <= min(there, default=math.inf):
            return alone
    if end_s(claim.forecast, room) > claim.left_s:
        return None
    most = max(cores for _, cores in room)
    return least_enough(0.0, most, lambda cores: end_s(claim.forecast, room, cores) <= claim.left_s)


def without(room: Room, cores: float, until_s: float) -> Room:
    """Return the rest of `room` when `cores` of it are taken until then."""
    rest: list[tuple[float, float]] = []
    since_s = 0.0
    for end, free in room:
        if since_s < until_s:
            rest.append((min(end, until_s), max(0.0, free - cores)))
        if end > until_s:
            rest.append((end, free))
        since_s = end
    return tuple(rest)


def _widened(room: Room, cores: float) -> Room:
    """Return the room with that many more cores at any time."""
    return tuple((until_s, free + cores) for until_s, free in room)


def _serve(claims: Sequence[Claim], cores: float) -> tuple[list[bool], Room]:
    """Return which claims, in the order given, are kept, and the room that no claim takes. A claim that cannot be kept is
    served last of its priority: it takes all that the other claims leave."""
    kept = [False] * len(claims)
    room = constant_room(cores)
    for priority in sorted({claim.priority for claim in claims}, reverse=True):
        mine = sorted((i for i, c in enumerate(claims) if c.priority == priority), key=lambda i: claims[i].left_s)
        hopeless = list[Claim]()
        for index in mine:
            claim = claims[index]
            its_room = _widened(room, claim.own_cores)
            needed = cores_to_keep(claim, its_room)
            if needed is None:
                hopeless.append(claim)
                continue
            kept[index] = True
            room = without(room, max(0.0, needed - claim.own_cores), end_s(claim.forecast, its_room, needed))
        for claim in hopeless:
            room = without(room, math.inf, end_s(claim.forecast, _widened(room, claim.own_cores)))
    return kept, room


def fits(new: Claim, promised: Promised) -> bool:
    """Return True if `new` is kept and no promise of its priority or above is broken that would be kept without `new`."""
    before, _ = _serve(promised.claims, promised.cores)
    return _fits(new, promised, before)


def _fits(new: Claim, promised: Promised, before: Sequence[bool]) -> bool:
    """Return the answer of `fits`; `before`: which promises are kept without `new`."""
    after, _ = _serve([*promised.claims, new], promised.cores)
    held = (after[i] for i, claim in enumerate(promised.claims) if before[i] and claim.priority >= new.priority)
    return after[-1] and all(held)


def least_deadline_s(new: Claim, promised: Promised) -> float:
    """Return the earliest deadline with which `new` fits; inf if no deadline does."""
    _, room = _serve(promised.to_rank(new.priority).claims, promised.cores)
    high = end_s(new.forecast, room)
    if math.isinf(high):
        return math.inf
    low = end_s(new.forecast, constant_room(promised.cores))
    before, _ = _serve(promised.claims, promised.cores)
    if _fits(replace(new, left_s=low), promised, before):
        return low
    return least_enough(low, high, lambda left_s: _fits(replace(new, left_s=left_s), promised, before))
