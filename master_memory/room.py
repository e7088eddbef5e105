"""The room that a worker's memory has for one more executor, and what is lacking where it has none. Sizes are MiB."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from master_memory.split import Need, admits, share_mb, victims
from stage_model.errors import BadInput

NEVER_MB = 2**40
"""MiB, more than any worker has."""


class WorkerLike(Protocol):
    """The properties of a worker that must be known; `occupants` has the keys of the executors on it."""

    worker_id: str
    cores: float
    memory_mb: int

    @property
    def occupants(self) -> Collection[str]: ...


class Newcomer:
    """One more executor, as placement asks about it (`placement.request.Memory`).

    `need_on` returns the executor's need on a worker of a number of cores and raises `BadInput` if it cannot run there; it is
    called once for each number of cores. `sizes` are the numbers of cores that workers have, `present` what the executors on
    each need."""

    def __init__(
        self, need_on: Callable[[float], Need], sizes: Iterable[float], present: Mapping[str, Sequence[Need]]
    ) -> None:
        self._need_on, self._sizes, self._present = need_on, sizes, present
        self._needs: dict[float, Need] = {}

    @property
    def least_mb(self) -> int:
        """The smallest container that the executor could have on any worker."""
        return min(self.each_mb, default=0)

    @property
    def each_mb(self) -> tuple[int, ...]:
        """The smallest containers by number of cores that a worker has, in the order of these."""
        return tuple(self._need(cores).least_mb for cores in self._sizes)

    def ever(self, worker: WorkerLike) -> bool:
        """Check that the executor would fit the worker by itself."""
        return self._need(worker.cores).least_mb <= worker.memory_mb

    def now(self, worker: WorkerLike) -> bool:
        """Check that the executor may join the executors on the worker without a squeeze."""
        need = self._needs.get(worker.cores) or self._need(worker.cores)
        return admits(worker.memory_mb, self._there(worker), need)

    def squeezed(self, worker: WorkerLike) -> tuple[str, ...] | None:
        """Return the keys of executors of lower priority that are brought down to their floor if it joins; None where this
        memory is not enough."""
        return victims(worker.memory_mb, self._there(worker), self._need(worker.cores))

    def lacking(self, workers: Sequence[WorkerLike]) -> str:
        """Return what memory lacks on these workers, as one clause."""
        found = [(worker, self._there(worker), self._need(worker.cores)) for worker in workers]
        best, present, need = max(found, key=lambda one: share_mb(one[0].memory_mb, [*one[1], one[2]]))
        after = [*present, need]
        elastic = [each for each in after if each.floor_mb is not None]
        if not elastic or sum(each.least_mb for each in after) > best.memory_mb:
            free = max(0, *(one.memory_mb - sum(there.least_mb for there in present) for one, present, _ in found))
            return f"an executor needs {need.least_mb} MiB and the most that is free on a worker is {free} MiB"
        share, most = share_mb(best.memory_mb, after), max(each.fixed_mb for each in elastic)
        return (
            f"with it each of {len(elastic)} on worker {best.worker_id} would have {share} MiB of off-heap memory, less than "
            f"the {most} MiB of heap, overhead and Python"
        )

    def _need(self, cores: float) -> Need:
        if cores not in self._needs:
            try:
                self._needs[cores] = self._need_on(cores)
            except BadInput:
                # off-heap memory of a fixed size that is too little for this many slots
                self._needs[cores] = Need("", NEVER_MB)
        return self._needs[cores]

    def _there(self, worker: WorkerLike) -> list[Need]:
        """Return the needs on a worker, also on one from which an executor was left out."""
        return [need for need in self._present.get(worker.worker_id, ()) if need.key in worker.occupants]


def check_fits_somewhere(container_mb: int, worker_memories_mb: Iterable[int]) -> None:
    """Raise `BadInput` when an executor is larger than every worker, so that waiting would never end."""
    largest = max(worker_memories_mb, default=None)
    if largest is not None and container_mb > largest:
        raise BadInput(
            f"an executor of this application needs {container_mb} MiB (heap, overhead, off-heap and Python), more than any "
            f"worker has ({largest} MiB); lower --executor-memory or spark.executor.memoryOverhead, or add a larger worker"
        )
