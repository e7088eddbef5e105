"""Filters: may this executor go to this worker? The first half of document 003's filter, then score.

A filter returns the reason why not, as a clause for people, or nothing. The filters of `LASTING` give the same answer when
all other executors have gone, so a worker that fails them will never do; the other filters are about what is free now.
The last question goes to the memory manager: whether memory allows it (`request.Memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placement.request import Request
from placement.resources import SCALE, amount
from placement.worker import WorkerState

Reason = str
Check = Callable[[Request, WorkerState], Reason]


@dataclass(frozen=True, slots=True)
class Filter:
    """`needed`: true if the filter can refuse any worker for that request; decisions leave the others out."""

    name: str
    check: Check
    needed: Callable[[Request], bool]


def _labels(request: Request, worker: WorkerState) -> Reason:
    missed = [str(one) for one in request.labels if not one.holds(worker.labels)]
    return f"its labels do not have {','.join(missed)}" if missed else ""


def _pieces_at_all(request: Request, worker: WorkerState) -> Reason:
    lacking = request.pieces.lacking(worker.pieces)
    return "; ".join(f"it has {amount(worker.pieces[n])} {n}, {amount(request.pieces[n])} wanted" for n in lacking)


def _pieces(request: Request, worker: WorkerState) -> Reason:
    for name, units in request.pieces.items():
        if worker.pools[name].find(units) is None:
            split = worker.free_pieces(name) >= units and units < SCALE
            return f"{amount(worker.free_pieces(name))} {name} is free{', but not in one piece' if split else ''}"
    return ""


def _ports(request: Request, worker: WorkerState) -> Reason:
    taken = sorted(worker.ports.intersection(request.ports))
    return f"port {', '.join(map(str, taken))} is taken" if taken else ""


def _apart(request: Request, worker: WorkerState) -> Reason:
    if worker.shunned.isdisjoint((request.group,)) and not request.apart:
        return ""
    for other in worker.occupants.values():
        if other.group in request.apart:
            return f"it wants to be apart from {other.group}, which is there"
        if request.group in other.apart:
            return f"{other.group or other.application_id} is there and wants to be apart from it"
    return ""


def _one_each(request: Request, worker: WorkerState) -> Reason:
    return "it has an executor of it" if request.application_id in worker.by_application else ""


LASTING: Sequence[Filter] = (
    Filter("labels", _labels, lambda request: bool(request.labels)),
    Filter("resources", _pieces_at_all, lambda request: bool(request.pieces)),
)
PASSING: Sequence[Filter] = (
    Filter("one-each", _one_each, lambda _: True),
    Filter("free-resources", _pieces, lambda request: bool(request.pieces)),
    Filter("ports", _ports, lambda request: bool(request.ports)),
    Filter("apart", _apart, lambda _: True),
)


def passing(filters: Sequence[Filter], request: Request) -> Callable[[WorkerState], bool]:
    """Return a check that none of the filters refuses a worker; only filters that can refuse this request are asked."""
    checks = [rule.check for rule in filters if rule.needed(request)]

    def passes(worker: WorkerState) -> bool:
        # a plain loop: a decision asks it of thousands of workers
        for check in checks:  # noqa: SIM110
            if check(request, worker):
                return False
        return True

    return passes


def refusals(filters: Sequence[Filter], request: Request, worker: WorkerState) -> list[tuple[str, Reason]]:
    """Return filter and reason for each filter that refuses the worker; the free-resource checks need those of `LASTING` to
    have passed."""
    return [(rule.name, why) for rule in filters if rule.needed(request) and (why := rule.check(request, worker))]
