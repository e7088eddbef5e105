"""The whole decision of placement: where an executor goes, or for what it waits (documents 000, 002, 003; docs/placement.md).

Spillover first (document 000, section 3.1): the workers where it fits now, of which the best located with room for its cores
are kept (`Fleet.located`) and a policy chooses one; else the workers where it would fit by itself. Where only workers without
its input are free, the executor may rather wait (document 002). Where nothing is free, executors of lower
priority may make room (document 003). If no worker could ever take it, it is infeasible, which asks for a new worker
(`growth`).

Document 003 takes the worker with the fewest victims of lower priority. No one loses work: victims are squeezed to their
floor, of CPU by the agent, of off-heap memory by the memory manager. Only `--evict` may also end executors. Preemption at
run time is `WorkerState.free_cores`, which ignores lower-priority use, the agents' arbitration, and on a machine under
pressure their `core.relief`.

`place` has no clock, file or chance of its own and changes only what the fleet remembers of its searches; the caller carries
the decision out. Memory is handed in as a few questions (`request.Memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from placement.data_wait import DataWait, data_wait
from placement.filters import LASTING, PASSING, passing
from placement.fleet import Fleet
from placement.growth import WorkerType, rounded
from placement.request import Memory, Request
from placement.worker import Occupant, WorkerState

Check = Callable[[WorkerState], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """`data_wait`: the application's wait for its input, begun, going on or just over; None where it does not wait."""

    data_wait: DataWait | None = None


@dataclass(frozen=True, slots=True)
class Placed(_Outcome):
    """The executor goes to this worker."""

    worker_id: str


@dataclass(frozen=True, slots=True)
class Squeeze(_Outcome):
    """The executor goes to this worker, where executors of lower priority (keys) are brought down to their floor of off-heap
    memory."""

    worker_id: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Evict(_Outcome):
    """The executor waits for this worker, where executors of lower priority (keys) must end before it can come."""

    worker_id: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait(_Outcome):
    """The executor waits for one of these workers."""

    worker_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Infeasible(_Outcome):
    """No worker that is there could ever take the executor."""


PlaceAnswer = Placed | Squeeze | Evict | Wait | Infeasible


def place(request: Request, fleet: Fleet, memory: Memory) -> PlaceAnswer:
    """Return what becomes of one more executor; `memory` answers for it."""
    fits, kept = passing([*LASTING, *PASSING], request), request.kept

    def room_now(worker: WorkerState) -> bool:
        return worker.worker_id not in kept and fits(worker) and memory.now(worker)

    fitting = fleet.find(request, memory.least_mb, room_now)
    chosen = fleet.choose(request, fleet.located(request, fitting)) if fitting else None
    waited = None
    if request.patience is not None:
        near = with_data(request, fleet, memory)
        waited = data_wait(request.patience, chosen, near)
        if waited is not None and waited.local is None:
            return Wait(tuple(worker.worker_id for worker in near), data_wait=waited)
    if chosen is not None:
        return Placed(chosen.worker_id, data_wait=waited)
    ever = ever_fitting(request, fleet, memory)
    candidates = [worker for worker in ever if worker.worker_id not in kept]
    outcome = (
        _squeezing(request, fleet, memory, [worker for worker in candidates if fits(worker)])
        or (_evicting(request, memory, candidates, fits) if request.evict else None)
        or (Wait(tuple(worker.worker_id for worker in ever)) if ever else Infeasible())
    )
    return replace(outcome, data_wait=waited)


# ---------------------------------------------------------------- which workers


def fits_ever(request: Request, memory: Memory) -> Check:
    """Return a check that a worker without other executors could take the executor."""
    passes = passing(LASTING, request)
    return lambda worker: passes(worker) and memory.ever(worker)


def ever_fitting(request: Request, fleet: Fleet, memory: Memory) -> list[WorkerState]:
    """Return the workers that could take it if they had no other executors, by name."""
    could, least_mb = fits_ever(request, memory), memory.least_mb
    return [worker for worker in fleet.among(request) if worker.memory_mb >= least_mb and could(worker)]


def taking(request: Request, fleet: Fleet, memory: Memory) -> list[WorkerState]:
    """Return the workers that would take the executor now, by name. On some of them, executors of lower priority would make
    room, as `place` has it."""
    fits = passing([*LASTING, *PASSING], request)

    def takes(worker: WorkerState) -> bool:
        if worker.worker_id in request.kept:
            return False
        if fits(worker) and (memory.now(worker) or memory.squeezed(worker) is not None):
            return True
        return request.evict and _evicting(request, memory, [worker], fits) is not None

    return [worker for worker in ever_fitting(request, fleet, memory) if takes(worker)]


def with_data(request: Request, fleet: Fleet, memory: Memory) -> list[WorkerState]:
    """Return the workers that have some of its input and could take a further executor of it sooner or later, by name."""
    could = fits_ever(request, memory)
    there = fleet.on(host for host, share in request.prefer.items() if share)
    found = [worker for worker in there if could(worker) and request.application_id not in worker.by_application]
    return sorted(found, key=lambda worker: worker.worker_id)


def needed_type(request: Request, fleet: Fleet, memory: Memory, least_mb_on: Callable[[float], int]) -> WorkerType | None:
    """Return the worker that the executor needs, if no worker that is there could ever take it; `least_mb_on` says how small
    its container can be on a worker of a number of cores."""
    return None if ever_fitting(request, fleet, memory) else type_for(request, least_mb_on)


def type_for(request: Request, least_mb_on: Callable[[float], int]) -> WorkerType:
    """Return the least worker that could take the executor; `least_mb_on` is as above."""
    labels = tuple((label.name, "true" if label.value is None else label.value) for label in request.labels if label.wanted)
    cores = rounded(request.cores, 0).cores
    return rounded(cores, least_mb_on(cores), request.pieces, labels)


# ---------------------------------------------------------------- making room


def _squeezing(request: Request, fleet: Fleet, memory: Memory, workers: Sequence[WorkerState]) -> Squeeze | Placed | None:
    """Return the worker where the fewest executors of lower priority must give up off-heap memory for it; an executor that
    has only its floor need not give anything."""
    found = [(worker, keys) for worker in workers if (keys := memory.squeezed(worker)) is not None]
    if not found:
        return None
    least = min(len(keys) for _, keys in found)
    best = {worker.worker_id: (worker, keys) for worker, keys in found if len(keys) == least}
    chosen = fleet.located(request, [worker for worker, _ in best.values()])[0]
    keys = best[chosen.worker_id][1]
    return Squeeze(chosen.worker_id, keys) if keys else Placed(chosen.worker_id)


def _evicting(request: Request, memory: Memory, workers: Sequence[WorkerState], fits: Check) -> Evict | Wait | None:
    """Return the worker where the fewest of lower priority must end for it; the executor only waits where enough are ending
    already."""

    def enough(worker: WorkerState, gone: Sequence[Occupant]) -> bool:
        ending = {occupant.key for occupant in worker.occupants.values() if occupant.ending}
        left = worker.without(ending.union(occupant.key for occupant in gone))
        return fits(left) and memory.squeezed(left) is not None

    found = fewest(workers, request.priority, enough)
    if found is None:
        return None
    worker_id = found.worker.worker_id
    keys = tuple(occupant.key for occupant in found.occupants)
    return Evict(worker_id, keys) if keys else Wait((worker_id,))


@dataclass(frozen=True, slots=True)
class Victims:
    """The occupants that make room on `worker`."""

    worker: WorkerState
    occupants: tuple[Occupant, ...]


def fewest(
    candidates: Sequence[WorkerState], priority: int, enough: Callable[[WorkerState, Sequence[Occupant]], bool]
) -> Victims | None:
    """Return the worker where the fewest occupants of lower priority must give way, and these occupants: lowest priority
    first, then the most planned cores, then by name. `enough` says whether the executor would fit without these. None where
    giving way does not help."""
    found = [victims for worker in candidates if (victims := _on(worker, priority, enough)) is not None]

    def key(victims: Victims) -> tuple[int, int, str]:
        return len(victims.occupants), sum(occupant.priority for occupant in victims.occupants), victims.worker.worker_id

    return min(found, key=key, default=None)


def _on(worker: WorkerState, priority: int, enough: Callable[[WorkerState, Sequence[Occupant]], bool]) -> Victims | None:
    lower = sorted(
        (one for one in worker.occupants.values() if one.priority < priority and not one.ending and not one.stays),
        key=lambda occupant: (occupant.priority, -occupant.cores, occupant.key),
    )
    if not enough(worker, lower):
        return None
    chosen: list[Occupant] = []
    for occupant in lower:
        if enough(worker, chosen):
            break
        chosen.append(occupant)
    # an occupant taken early may turn out not to be needed
    for occupant in tuple(reversed(chosen)):
        rest = [other for other in chosen if other is not occupant]
        if enough(worker, rest):
            chosen = rest
    return Victims(worker, tuple(chosen))
