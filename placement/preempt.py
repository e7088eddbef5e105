"""Preemption at scheduling time: which executors make room on which worker when nothing is free for one of higher priority.

Document 003 takes the worker with the fewest victims of lower priority. No one loses work: victims are squeezed to their
floor, of CPU by the agent, of off-heap memory by the memory manager. Only `--evict` may also end executors. Preemption at run
time is `WorkerState.busy_cores`, which ignores lower-priority use, the agents' arbitration, and on a machine under pressure
their `core.relief`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placement.worker import Occupant, WorkerState


@dataclass(frozen=True, slots=True)
class Victims:
    """The occupants that make room on `worker`."""

    worker: WorkerState
    occupants: tuple[Occupant, ...]


def fewest(
    candidates: Sequence[WorkerState], priority: int, enough: Callable[[WorkerState, Sequence[Occupant]], bool]
) -> Victims | None:
    """Return the worker where the fewest occupants of lower priority must give way, and these occupants: lowest priority
    first, then the most planned cores, then by name. `enough` says whether the executor would fit without those. None where
    no one's giving way helps."""
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
