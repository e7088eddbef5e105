"""Workers and requests for tests of placement: only what a test is about is said."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from placement.fleet import Fleet
from placement.policies import Draw
from placement.request import Request
from placement.scores import Weights
from placement.worker import Occupant, WorkerState

CPU_ONLY = Weights()


@dataclass
class Room:
    """A memory manager by plain sums: an executor of `mb` fits next to the others' least. `floors_mb` by key: the part of
    their least that they would do without."""

    mb: int = 100
    priority: int = 50
    floors_mb: dict[str, int] = field(default_factory=dict)

    @property
    def least_mb(self) -> int:
        return self.mb

    def ever(self, worker: WorkerState) -> bool:
        return worker.memory_mb >= self.mb

    def now(self, worker: WorkerState) -> bool:
        return worker.free_mb >= self.mb

    def squeezed(self, worker: WorkerState) -> tuple[str, ...] | None:
        """Return the first executors of lower priority by name, until they are enough."""
        keys, free_mb = [], worker.free_mb
        for key, one in sorted(worker.occupants.items()):
            if free_mb < self.mb and one.priority < self.priority and key in self.floors_mb:
                keys.append(key)
                free_mb += one.least_mb - self.floors_mb[key]
        return tuple(keys) if free_mb >= self.mb else None

    def lacking(self, workers: Iterable[WorkerState]) -> str:
        return f"no {self.mb} MiB on {', '.join(names(workers))}"


def fleet(*workers: WorkerState, weights: Weights = CPU_ONLY, draw: Draw | None = None) -> Fleet:
    return Fleet(workers, weights=weights, draw=draw or random.Random(1).random)


def worker(name: str, cores: float = 1.0, memory_mb: int = 1000, **more: object) -> WorkerState:
    return WorkerState(name, cores=cores, memory_mb=memory_mb, **more)  # type: ignore[arg-type]


def request(priority: int = 50, **more: object) -> Request:
    """Make a request of an application `new`."""
    return Request(**{"application_id": "new", "priority": priority, "cores": 1.0, **more})  # type: ignore[arg-type]


def occupied(one: WorkerState, *cores: float, priority: int = 50, least_mb: int = 100, **more: object) -> WorkerState:
    """Fill that worker with an executor of an application of its own for each of these planned peaks."""
    for number, peak in enumerate(cores, len(one.occupants) + 1):
        key = f"{one.worker_id}-app{number}/1"
        application = f"{one.worker_id}-app{number}"
        one.add(Occupant(key, application, priority, peak, least_mb, **more))  # type: ignore[arg-type]
    return one


def names(workers: Iterable[WorkerState]) -> list[str]:
    return [one.worker_id for one in workers]
