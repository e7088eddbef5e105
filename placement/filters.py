"""Filters: may this executor go to this worker? The first half of document 003's filter, then score.

A filter answers with the reason why not, as a clause for people, or with nothing. Those of `LASTING` stay true when everybody
else has gone, so a worker that fails them will never do; the others are about what is free now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placement.places import Place, Request
from placement.resources import SCALE, amount

Reason = str
Check = Callable[[Request, Place], Reason]


@dataclass(frozen=True, slots=True)
class Filter:
    """`needed`: whether it can refuse any worker for that request; decisions leave the others out."""

    name: str
    check: Check
    needed: Callable[[Request], bool]


def _labels(request: Request, place: Place) -> Reason:
    missed = [str(one) for one in request.labels if not one.holds(place.labels)]
    return f"its labels do not have {','.join(missed)}" if missed else ""


def _pieces_at_all(request: Request, place: Place) -> Reason:
    lacking = request.pieces.lacking(place.pieces)
    return "; ".join(f"it has {amount(place.pieces[n])} {n}, {amount(request.pieces[n])} wanted" for n in lacking)


def _memory_at_all(request: Request, place: Place) -> Reason:
    return "" if request.memory_ever(place) else f"all its {place.memory_mb} MiB are too little for an executor of its slots"


def _pieces(request: Request, place: Place) -> Reason:
    for name, units in request.pieces.items():
        if not place.pools[name].fits(units):
            split = place.free_pieces(name) >= units and units < SCALE
            return f"{amount(place.free_pieces(name))} {name} is free{', of no one piece' if split else ''}"
    return ""


def _ports(request: Request, place: Place) -> Reason:
    taken = sorted(place.ports.intersection(request.ports))
    return f"port {', '.join(map(str, taken))} is taken" if taken else ""


def _apart(request: Request, place: Place) -> Reason:
    if place.shunned.isdisjoint((request.group,)) and not request.apart:
        return ""
    for other in place.occupants.values():
        if other.group in request.apart:
            return f"it wants to be apart from {other.group}, which is there"
        if request.group in other.apart:
            return f"{other.group or other.application_id} is there and wants to be apart from it"
    return ""


def _one_each(request: Request, place: Place) -> Reason:
    return "it has an executor of it" if request.application_id in place.by_application else ""


def _memory(request: Request, place: Place) -> Reason:
    return "" if request.memory_now(place) else "memory does not allow one more now"


LASTING: Sequence[Filter] = (
    Filter("labels", _labels, lambda request: bool(request.labels)),
    Filter("resources", _pieces_at_all, lambda request: bool(request.pieces)),
    Filter("memory-size", _memory_at_all, lambda _: True),
)
PASSING: Sequence[Filter] = (
    Filter("one-each", _one_each, lambda _: True),
    Filter("free-resources", _pieces, lambda request: bool(request.pieces)),
    Filter("ports", _ports, lambda request: bool(request.ports)),
    Filter("apart", _apart, lambda _: True),
    Filter("memory", _memory, lambda _: True),
)


def relevant(filters: Sequence[Filter], request: Request) -> list[Check]:
    """The checks of those that can refuse this request."""
    return [one.check for one in filters if one.needed(request)]


def refusals(filters: Sequence[Filter], request: Request, place: Place) -> list[tuple[str, Reason]]:
    """Filter and reason of each that refuses the worker; the free-resource checks need those of `LASTING` to have passed."""
    return [(one.name, why) for one in filters if one.needed(request) and (why := one.check(request, place))]
