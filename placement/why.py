"""The reasons of placement's decision in words, by the rules that `plan.place` follows: why an executor goes somewhere or
waits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from placement.filters import LASTING, PASSING, Reason, passing, refusals
from placement.fleet import Fleet
from placement.plan import ever_fitting, with_data
from placement.request import Memory, Request
from placement.scores import available, details, has_room
from placement.worker import WorkerState


@dataclass(frozen=True, slots=True)
class Why:
    """The answer for one worker: what refuses it, by filter, else its scores and how much of it is available."""

    worker_id: str
    refused: tuple[tuple[str, Reason], ...] = ()
    scores: dict[str, float] = field(default_factory=dict)
    available: float = 0.0
    free_cores: float = 0.0
    """Cores that the executors there leave to one of its priority; below 0 where more are planned than the worker has."""
    local: bool = False
    crowded: bool = False
    """True if being the driver's host does not count: the planned cores leave too few, or the worker is under pressure."""
    kept: bool = False
    """True if the worker is among those that the policy chooses from."""


def explain(request: Request, fleet: Fleet, memory: Memory) -> list[Why]:
    """Return for every worker why or why not."""
    whys, fit = [], []
    for worker in fleet.ordered:
        refused = _never(request, memory, worker)
        if not refused:
            refused = refusals(PASSING, request, worker)
            if worker.worker_id in request.kept or not memory.now(worker):
                refused.append(("memory", _memory_reason(request, memory, worker)))
        if not refused:
            fit.append(worker)
        whys.append(
            Why(
                worker.worker_id,
                tuple(refused),
                dict(details(request, worker, fleet.weights)),
                round(available(worker, request, fleet.most, fleet.weights), 4),
                round(worker.free_cores(request.priority), 3),
                bool(worker.host) and worker.host == request.local,
                not request.prefer and not has_room(worker, request),
            )
        )
    chosen_from = {worker.worker_id for worker in fleet.located(request, fit)} if fit else set()
    return [replace(why, kept=why.worker_id in chosen_from) for why in whys]


def why_waiting(request: Request, fleet: Fleet, memory: Memory) -> str:
    """Return one clause that says why no worker takes the executor now."""
    if not len(fleet):
        return "no worker has joined"
    ever = ever_fitting(request, fleet, memory)
    if not ever:
        return _joined((worker, _never(request, memory, worker)) for worker in fleet.ordered)
    passes = passing(PASSING, request)
    by_memory = [worker for worker in ever if passes(worker)]
    if not by_memory and any(request.application_id in worker.by_application for worker in ever):
        return "its executor on every worker that has room is not removed yet"
    if not by_memory:
        return _joined((worker, refusals(PASSING, request, worker)) for worker in ever)
    left = [worker for worker in by_memory if worker.worker_id not in request.kept]
    if request.waits_for_data and any(memory.now(worker) for worker in left):
        hosts = ", ".join(worker.worker_id for worker in with_data(request, fleet, memory))
        return f"others are free, but it waits for a worker that has its input ({hosts})"
    return memory.lacking(left) if left else behind(request.ahead)


def behind(ahead: int) -> str:
    """Return a clause for an executor that has `ahead` others before it, where they want every worker that would do."""
    return f"{ahead} ahead of it {'waits' if ahead == 1 else 'wait'} for memory, too"


def _never(request: Request, memory: Memory, worker: WorkerState) -> list[tuple[str, Reason]]:
    """Return what refuses the worker even if it had no other executors."""
    refused = refusals(LASTING, request, worker)
    if not memory.ever(worker):
        refused.append(("memory-size", f"all its {worker.memory_mb} MiB are too little for an executor of its slots"))
    return refused


def _memory_reason(request: Request, memory: Memory, worker: WorkerState) -> Reason:
    if worker.worker_id in request.kept:
        return "one ahead of it waits for memory there"
    gone = memory.squeezed(worker)
    if gone is not None:
        return f"nothing is free, but {len(gone)} of lower priority would be brought down to their floor"
    return memory.lacking([worker])


def _joined(refused: Iterable[tuple[WorkerState, list[tuple[str, Reason]]]]) -> str:
    """Return text such as "w1: port 80 is taken; w2 and w3: ..." of at most three reasons."""
    by_reason: dict[Reason, list[str]] = {}
    for worker, reasons in refused:
        by_reason.setdefault(reasons[0][1] if reasons else "", []).append(worker.worker_id)
    shown = [f"{_names(names)}: {reason}" for reason, names in list(by_reason.items())[:3]]
    return "; ".join(shown) + ("; and so on" if len(by_reason) > 3 else "")


def _names(workers: Sequence[str]) -> str:
    if len(workers) > 3:
        return f"{', '.join(workers[:2])} and {len(workers) - 2} more"
    return " and ".join(filter(None, (", ".join(workers[:-1]), workers[-1])))
