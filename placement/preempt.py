"""Preemption at scheduling time: who makes room on which worker when nothing is free for somebody of higher priority.

Document 003 takes the worker with the fewest victims of lower priority. Nobody loses work: victims are squeezed to their
floor, of CPU by the agent, of off-heap memory by the memory manager. Only `--evict` may also end executors. Preemption at run
time is `Place.busy_cores`, which ignores lower-priority use, and the agents' arbitration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placement.places import Occupant, Place


@dataclass(frozen=True, slots=True)
class Victims:
    """On `place` these make room."""

    place: Place
    occupants: tuple[Occupant, ...]


def fewest(candidates: Sequence[Place], priority: int, enough: Callable[[Place, Sequence[Occupant]], bool]) -> Victims | None:
    """The worker where the fewest occupants of lower priority must give way, and who: lowest priority first, then the most
    planned cores, then by name. `enough` says whether it would fit without those. None where nobody's giving way helps."""
    found = [victims for place in candidates if (victims := _on(place, priority, enough)) is not None]
    return min(found, key=lambda v: (len(v.occupants), _worth(v.occupants), v.place.worker_id), default=None)


def _on(place: Place, priority: int, enough: Callable[[Place, Sequence[Occupant]], bool]) -> Victims | None:
    lower = sorted(
        (one for one in place.occupants.values() if one.priority < priority and not one.ending),
        key=lambda one: (one.priority, -one.cores, one.key),
    )
    if not enough(place, lower):
        return None
    chosen: list[Occupant] = []
    for one in lower:
        if enough(place, chosen):
            break
        chosen.append(one)
    # one taken early may turn out not to be needed
    for one in tuple(reversed(chosen)):
        rest = [other for other in chosen if other is not one]
        if enough(place, rest):
            chosen = rest
    return Victims(place, tuple(chosen))


def _worth(occupants: Sequence[Occupant]) -> int:
    return sum(one.priority for one in occupants)
