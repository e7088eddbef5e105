"""Spillover: which worker takes an executor, or for which one it waits (document 000, section 3.1).

The local worker if it fits; else the workers whose available resources fit, of which the best located are kept and a policy
chooses one; else the workers whose totals fit: it waits for one of them; else it is infeasible, which asks for a new worker
(`growth`). Among very many workers a decision looks at fitting ones only until it has `ENOUGH`, beginning where the last one
ended, as kube-scheduler does. `explain` looks at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from placement.filters import LASTING, PASSING, refusals, relevant
from placement.places import Place, Request
from placement.policies import Policy
from placement.scores import Largest, Weights, available, details, largest, location_score

ENOUGH = 200
"""Fitting workers among which a choice is made."""


class Places:
    """All workers that may get executors, by name."""

    def __init__(self, places: Iterable[Place] = ()) -> None:
        self._by_id = {place.worker_id: place for place in places}
        self._changed()

    def __len__(self) -> int:
        return len(self._ordered)

    def get(self, worker_id: str) -> Place | None:
        return self._by_id.get(worker_id)

    def change(self, gone: Iterable[str], new: Iterable[Place]) -> None:
        """Workers that are there no more, and those that are new or offer something else from now on; the occupants of these
        are the caller's to add."""
        for worker_id in gone:
            self._by_id.pop(worker_id, None)
        self._by_id.update((place.worker_id, place) for place in new)
        self._changed()

    def _changed(self) -> None:
        self._ordered = [self._by_id[name] for name in sorted(self._by_id)]
        self.most: Largest = largest(self._ordered)
        self.sizes = list({place.cores: place for place in self._ordered}.values())
        """A worker of each number of cores."""
        self._on_host: dict[str, list[Place]] = {}
        self._having: dict[str, list[Place]] = {}
        """By resource."""
        self._labelled: dict[tuple[str, str | None], list[Place]] = {}
        for place in self._ordered:
            self._on_host.setdefault(place.host, []).append(place)
            for name in place.pieces:
                self._having.setdefault(name, []).append(place)
            for label in place.labels.items():
                self._labelled.setdefault(label, []).append(place)
        self._next = 0

    def all(self) -> Sequence[Place]:
        return self._ordered

    def fitting(self, request: Request) -> list[Place]:
        """Workers that could take it now: those on the hosts it prefers, and as many more as make `ENOUGH`."""
        checks = [*relevant(LASTING, request), *relevant(PASSING, request)]
        ordered, least_mb = self._among(request), request.least_mb
        near = [place for host in {request.local, *request.prefer} - {""} for place in self._on_host.get(host, ())]
        found = {
            place.worker_id: place
            for place in near
            if place.free_mb >= least_mb and not any(check(request, place) for check in checks)
        }
        begin = self._next % max(1, len(ordered))
        for index in range(begin, begin + len(ordered)):
            if len(found) >= ENOUGH:
                self._next = index
                break
            place = ordered[index - len(ordered)]
            if place.free_mb >= least_mb and not any(check(request, place) for check in checks):
                found[place.worker_id] = place
        return [found[name] for name in sorted(found)]

    def ever(self, request: Request) -> list[Place]:
        """Workers that could take it if nobody else were there."""
        checks = relevant(LASTING, request)
        least_mb = request.least_mb
        return [
            place
            for place in self._among(request)
            if place.memory_mb >= least_mb and not any(check(request, place) for check in checks)
        ]

    def _among(self, request: Request) -> Sequence[Place]:
        """Workers outside which none will do: those with the rarest of the resources and labels that it asks for."""
        groups = [self._having.get(name, []) for name in request.pieces]
        groups += [
            self._labelled.get((one.name, one.value), []) for one in request.labels if one.wanted and one.value is not None
        ]
        return min(groups, key=len, default=self._ordered)


@dataclass(frozen=True, slots=True)
class Decision:
    """`place`: where it goes now; None: it waits for one of `waits_for`, or is `infeasible`."""

    place: Place | None
    waits_for: tuple[str, ...] = ()
    infeasible: bool = False


def decide(request: Request, places: Places, policy: Policy, weights: Weights) -> Decision:
    """Where it goes now."""
    fitting = places.fitting(request)
    if fitting:
        return Decision(policy(request, located(request, fitting, weights), places.most, weights))
    ever = places.ever(request)
    return Decision(None, tuple(place.worker_id for place in ever), infeasible=not ever)


def located(request: Request, fitting: Sequence[Place], weights: Weights) -> Sequence[Place]:
    """The best located of them: near the input where that is known, else on the driver's host if one is there."""
    score = location_score(request, weights)
    if score is not None:
        scored = [(round(score(place), 9), place) for place in fitting]
        best = max(value for value, _ in scored)
        fitting = [place for value, place in scored if value == best]
    if request.prefer:
        return fitting
    return [place for place in fitting if place.host == request.local] or fitting


# ---------------------------------------------------------------- why


@dataclass(frozen=True, slots=True)
class Why:
    """Of one worker: what refuses it, by filter, else its scores and how much of it is available."""

    worker_id: str
    refused: tuple[tuple[str, str], ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    available: float = 0.0
    local: bool = False
    kept: bool = False
    """It is among those that the policy chooses from."""


def explain(request: Request, places: Places, weights: Weights, more: Callable[[Place], str] | None = None) -> list[Why]:
    """For every worker why or why not; `more` gives the memory manager's own words where memory refuses."""
    whys, fit = [], []
    for place in places.all():
        lasting = refusals(LASTING, request, place)
        refused = lasting or refusals(PASSING, request, place)
        if more is not None:
            refused = [(name, more(place) or why) if name == "memory" else (name, why) for name, why in refused]
        if not refused:
            fit.append(place)
        whys.append(
            Why(
                place.worker_id,
                tuple(refused),
                dict(details(request, place, weights)),
                round(available(place, request, places.most, weights), 4),
                bool(place.host) and place.host == request.local,
            )
        )
    kept = {place.worker_id for place in located(request, fit, weights)} if fit else set()
    return [Why(w.worker_id, w.refused, w.scores, w.available, w.local, w.worker_id in kept) for w in whys]
