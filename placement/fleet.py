"""All workers that may get executors, indexed so that a decision among thousands looks at few.

Among very many workers a search looks at fitting ones only until it has `ENOUGH`, beginning where the last one ended, as
kube-scheduler does; workers on the hosts that the request prefers are never missed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from placement.policies import POLICIES, Draw, Policy
from placement.request import Request
from placement.scores import Largest, Weights, as_good, has_room, largest, location_score
from placement.worker import WorkerState

ENOUGH = 200
"""Fitting workers among which a choice is made."""


class Fleet:
    """The workers by name, and what choosing among them needs: `weights` of the scores, and `draw`, which gives the policies
    numbers in [0, 1). The fleet remembers where the last search ended and what policies remember, and nothing else of a
    decision."""

    def __init__(self, workers: Iterable[WorkerState] = (), *, weights: Weights, draw: Draw) -> None:
        self.weights, self._draw = weights, draw
        self._policies: dict[str, Policy] = {}
        self._by_id = {worker.worker_id: worker for worker in workers}
        self._changed()

    def __len__(self) -> int:
        return len(self.ordered)

    def get(self, worker_id: str) -> WorkerState | None:
        return self._by_id.get(worker_id)

    def change(self, gone: Iterable[str], new: Iterable[WorkerState]) -> None:
        """Remove the workers that are `gone`, and take in workers that are new or offer something else from now on; the
        caller adds the occupants of these."""
        for worker_id in gone:
            self._by_id.pop(worker_id, None)
        self._by_id.update((worker.worker_id, worker) for worker in new)
        self._changed()

    def _changed(self) -> None:
        self.ordered = [self._by_id[name] for name in sorted(self._by_id)]
        """All workers, by name."""
        self.most: Largest = largest(self.ordered)
        self.sizes = list(dict.fromkeys(worker.cores for worker in self.ordered))
        """Each number of cores that a worker has."""
        self._on_host: dict[str, list[WorkerState]] = {}
        self._having: dict[str, list[WorkerState]] = {}
        """Workers by resource."""
        self._labelled: dict[tuple[str, str | None], list[WorkerState]] = {}
        for worker in self.ordered:
            self._on_host.setdefault(worker.host, []).append(worker)
            for name in worker.pieces:
                self._having.setdefault(name, []).append(worker)
            for label in worker.labels.items():
                self._labelled.setdefault(label, []).append(worker)
        self._next = 0

    def on(self, hosts: Iterable[str]) -> list[WorkerState]:
        return [worker for host in hosts for worker in self._on_host.get(host, ())]

    def among(self, request: Request) -> Sequence[WorkerState]:
        """Return the only workers that can fit: the workers with the rarest of the resources and labels that the request asks
        for."""
        groups = [self._having.get(name, []) for name in request.pieces]
        groups += [
            self._labelled.get((label.name, label.value), [])
            for label in request.labels
            if label.wanted and label.value is not None
        ]
        return min(groups, key=len, default=self.ordered)

    def find(self, request: Request, least_mb: int, fits: Callable[[WorkerState], bool]) -> list[WorkerState]:
        """Return workers with room for the executor, for which `fits` holds, by name: all such workers on the hosts that the
        request prefers, and as many others as make `ENOUGH`."""
        ordered, near = self.among(request), self.on({request.local, *request.prefer} - {""})
        found = {worker.worker_id: worker for worker in near if worker.free_mb >= least_mb and fits(worker)}
        begin = self._next % max(1, len(ordered))
        for index in range(begin, begin + len(ordered)):
            if len(found) >= ENOUGH:
                self._next = index
                break
            worker = ordered[index - len(ordered)]
            if worker.free_mb >= least_mb and fits(worker):
                found[worker.worker_id] = worker
        return [found[name] for name in sorted(found)]

    def located(self, request: Request, fitting: Sequence[WorkerState]) -> Sequence[WorkerState]:
        """Return the workers that the policy chooses from: those with the best location score; of these the ones where the
        planned cores leave room, and those that are as good (`as_good`), if there are any; of these the ones on the driver's
        host, if a worker there has room and the input is not known."""
        score = location_score(request, self.weights)
        if score is not None:
            scored = [(round(score(worker), 9), worker) for worker in fitting]
            best = max(value for value, _ in scored)
            fitting = [worker for value, worker in scored if value == best]
        roomy = [worker for worker in fitting if has_room(worker, request)]
        good = as_good(fitting, roomy, request) or fitting
        if request.prefer or not request.local or request.local not in {worker.host for worker in roomy}:
            return good
        return [worker for worker in good if worker.host == request.local]

    def choose(self, request: Request, fitting: Sequence[WorkerState]) -> WorkerState:
        """Return the worker of `fitting` (never empty) that the request's policy takes."""
        policy = self._policies.get(request.policy)
        if policy is None:
            policy = self._policies[request.policy] = POLICIES[request.policy](self._draw)
        return policy(request, fitting, self.most, self.weights)
