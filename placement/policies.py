"""The policies that choose among the workers that fit: document 000's for balancing load, and two that fill or spread.

A policy sees the fitting workers only, chooses one, and remembers what it must (round robin, weights). `draw` gives uniform
numbers in [0, 1), so a policy with a seed makes the same choices every time. Worked examples: docs/design.md, section 2;
tests/placement/test_policies.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from placement.request import Request
from placement.scores import Largest, Weights, available, has_room, total
from placement.worker import WorkerState

Draw = Callable[[], float]

SAMPLED = 8
"""k of `pick-kx`: the number of workers looked at for one choice."""


class Policy(ABC):
    def __init__(self, draw: Draw) -> None:
        self._draw = draw

    @abstractmethod
    def __call__(self, request: Request, fitting: Sequence[WorkerState], most: Largest, weights: Weights) -> WorkerState:
        """Choose one of `fitting` (never empty)."""


class Random(Policy):
    """Each worker with the same chance, as in Ray."""

    def __call__(self, request: Request, fitting: Sequence[WorkerState], most: Largest, weights: Weights) -> WorkerState:
        return fitting[int(self._draw() * len(fitting))]


class RoundRobin(Policy):
    """The next worker by name after the last one."""

    _last = ""

    def __call__(self, request: Request, fitting: Sequence[WorkerState], most: Largest, weights: Weights) -> WorkerState:
        after = [worker for worker in fitting if worker.worker_id > self._last]
        chosen = min(after or fitting, key=lambda worker: worker.worker_id)
        self._last = chosen.worker_id
        return chosen


class PickKx(Policy):
    """P_j = X_j / sum X with X_j = (L_total - L_j) / L_total over k sampled workers; L is total - available, load included.
    Without any load, or with one candidate: each with the same chance."""

    def __call__(self, request: Request, fitting: Sequence[WorkerState], most: Largest, weights: Weights) -> WorkerState:
        seen = sample(fitting, SAMPLED, self._draw)
        loads = [total(worker, most, weights) - available(worker, request, most, weights) for worker in seen]
        return pick(seen, less_loaded(loads), self._draw)


class ResourcePickKx(Policy):
    """P_j = A_j / sum A over all workers that fit; A is what is available of their resources. If nothing is, each with the
    same chance."""

    def __call__(self, request: Request, fitting: Sequence[WorkerState], most: Largest, weights: Weights) -> WorkerState:
        return pick(fitting, [available(worker, request, most, weights) for worker in fitting], self._draw)


class SmoothWrr(Policy):
    """Smooth weighted round robin: each candidate's current weight grows by its total resources; the largest is chosen and
    pays the sum of what all grew by. Ties go to the first by name."""

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self._current: dict[str, float] = {}

    def __call__(self, request: Request, fitting: Sequence[WorkerState], most: Largest, weights: Weights) -> WorkerState:
        return smooth(self._current, {worker.worker_id: total(worker, most, weights) for worker in fitting}, fitting)


class Spread(Policy):
    """The worker with the most available resources, then the most free cores, then the fewest executors, then the first by
    name."""

    def __call__(self, request: Request, fitting: Sequence[WorkerState], most: Largest, weights: Weights) -> WorkerState:
        def key(worker: WorkerState) -> tuple[float, float, int, str]:
            # of workers that have more planned than they have cores, all have no CPU available
            free_cores = round(worker.free_cores(request.priority), 9)
            return -round(available(worker, request, most, weights), 9), -free_cores, len(worker.occupants), worker.worker_id

        return min(fitting, key=key)


class Pack(Policy):
    """The worker with the least available resources that has room for the executor, so that large workers stay free for large
    executors; where none has room, the worker with the most."""

    def __call__(self, request: Request, fitting: Sequence[WorkerState], most: Largest, weights: Weights) -> WorkerState:
        roomy = [worker for worker in fitting if has_room(worker, request)]
        sign = 1 if roomy else -1
        return min(roomy or fitting, key=lambda p: (sign * round(available(p, request, most, weights), 9), p.worker_id))


POLICIES: Mapping[str, Callable[[Draw], Policy]] = {
    "spread": Spread,
    "pack": Pack,
    "random": Random,
    "round-robin": RoundRobin,
    "pick-kx": PickKx,
    "resource-pick-kx": ResourcePickKx,
    "smooth-wrr": SmoothWrr,
}


def less_loaded(loads: Sequence[float]) -> list[float]:
    """Return X_j of pick-kx; all alike where there is no load."""
    whole = sum(loads)
    return [(whole - load) / whole for load in loads] if whole > 0 else [1.0] * len(loads)


def pick(workers: Sequence[WorkerState], chances: Sequence[float], draw: Draw) -> WorkerState:
    """Return one of the workers with these chances, which need not sum to 1; each alike where all are 0."""
    whole = sum(chances)
    if whole <= 0:
        return workers[int(draw() * len(workers))]
    left = draw() * whole
    for worker, chance in zip(workers, chances, strict=True):
        left -= chance
        if left < 0:
            return worker
    return next(worker for worker, chance in zip(reversed(workers), reversed(chances), strict=True) if chance > 0)


def sample(workers: Sequence[WorkerState], count: int, draw: Draw) -> Sequence[WorkerState]:
    """Return `count` different workers, each with the same chance; all of them where there are no more."""
    if len(workers) <= count:
        return workers
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        chosen[int(draw() * len(workers))] = None
    return [workers[index] for index in chosen]


def smooth(current: dict[str, float], grows: Mapping[str, float], fitting: Sequence[WorkerState]) -> WorkerState:
    """Return one step of smooth weighted round robin over `fitting`, whose current weights grow by `grows`."""
    for name, weight in grows.items():
        current[name] = current.get(name, 0.0) + weight
    chosen = min(fitting, key=lambda worker: (-round(current[worker.worker_id], 9), worker.worker_id))
    current[chosen.worker_id] -= sum(grows.values())
    return chosen
