"""Document 000's load experiment, simulated: many tasks at a time on unlike workers under each policy of placement.

A closed loop: `parallelism` tasks are always under way; where a task ends the next begins, drawn from the same seed under
every policy. A task asks for cores and memory and really uses somewhat more or less CPU ("what users ask for is not what
tasks use", document 000, 4.3). The product's decision (`placement.plan.place`) is asked, with a worker's account (CPU
included) in place of the memory manager; a task that fits nowhere now waits on the worker that the policy chooses among those
whose totals fit. A worker whose tasks want more CPU than it has makes all of them slower alike.
"""

from __future__ import annotations

import heapq
import random
import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from experiments.simulator.account import WorkerAccount
from placement.fleet import Fleet
from placement.plan import Placed, Wait, place
from placement.request import Request
from placement.resources import ResourceSet
from placement.scores import Weights
from placement.worker import Occupant, WorkerState

PRIORITY = 50


class Node(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cores: float
    memory_mb: int


class TaskKind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tasks of a kind: the resources that each asks for, and its CPU seconds on average."""

    cores: float
    memory_mb: int
    work_core_s: float


class SpilloverRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run. `load`: cores asked for by all tasks at a time / cores; `throughput`: CPU seconds done per second and core;
    `spread`: standard deviation over workers of the part of their cores in use; `slowdown`: mean time / time alone."""

    policy: str
    load: float
    seed: int
    tasks: int
    throughput: float
    spread: float
    slowdown: float
    waited: float


@dataclass(slots=True)
class _Task:
    key: str
    cores: float
    memory_mb: int
    use: float
    left_core_s: float
    alone_s: float
    born_s: float
    started_s: float = 0.0


@dataclass(slots=True)
class _Worker:
    state: WorkerState
    account: WorkerAccount
    queue: deque[_Task] = field(default_factory=deque)
    running: dict[str, _Task] = field(default_factory=dict)
    at_s: float = 0.0
    turn: int = 0
    busy_core_s: float = 0.0

    def speed(self) -> float:
        """Return the part of the CPU that its tasks want and get."""
        wanted = sum(task.use for task in self.running.values())
        return min(1.0, self.state.cores / wanted) if wanted else 1.0

    def advance(self, now_s: float, counted_from_s: float) -> None:
        """Advance the tasks to `now_s`."""
        dt_s, speed = now_s - self.at_s, self.speed()
        for task in self.running.values():
            task.left_core_s -= task.use * speed * dt_s
        used = sum(task.use for task in self.running.values()) * speed
        self.busy_core_s += used * max(0.0, now_s - max(self.at_s, counted_from_s))
        self.at_s = now_s

    def next_end_s(self) -> float | None:
        speed = self.speed()
        ends = [self.at_s + max(0.0, task.left_core_s) / (task.use * speed) for task in self.running.values()]
        return min(ends, default=None)


def simulate_spillover(
    nodes: tuple[Node, ...], kinds: tuple[TaskKind, ...], policy: str, load: float, seed: int, seconds: float
) -> SpilloverRow:
    """Simulate `seconds` of virtual time after a tenth of that to settle."""
    rng, chooser = random.Random(seed), random.Random(seed + 1)
    workers = {
        f"n{number:03}": _Worker(WorkerState(f"n{number:03}", cores=node.cores, memory_mb=node.memory_mb), _account(node))
        for number, node in enumerate(nodes)
    }
    fleet = Fleet((worker.state for worker in workers.values()), weights=Weights(), draw=chooser.random)
    mean_cores = statistics.fmean(kind.cores for kind in kinds)
    parallelism = max(1, round(load * sum(node.cores for node in nodes) / mean_cores))
    settle_s = seconds / 10
    now_s, number = 0.0, 0
    events: list[tuple[float, int, str]] = []
    ended: list[tuple[_Task, float]] = []

    def wake(worker: _Worker) -> None:
        worker.turn += 1
        end_s = worker.next_end_s()
        if end_s is not None:
            heapq.heappush(events, (end_s, worker.turn, worker.state.worker_id))

    def submit() -> None:
        nonlocal number
        number += 1
        kind = rng.choice(kinds)
        use = kind.cores * rng.uniform(0.5, 1.5)
        work = kind.work_core_s * rng.uniform(0.5, 1.5)
        task = _Task(f"t{number}/1", kind.cores, kind.memory_mb, use, work, work / use, now_s)
        worker = workers[_choice(task, workers, fleet, policy)]
        worker.advance(now_s, settle_s)
        worker.queue.append(task)
        worker.state.add(_occupant(task))
        _begin(worker, now_s)
        wake(worker)

    for _ in range(parallelism):
        submit()
    while events:
        at_s, turn, name = heapq.heappop(events)
        worker = workers[name]
        if turn != worker.turn:
            continue
        if at_s > seconds + settle_s:
            break
        now_s = at_s
        worker.advance(now_s, settle_s)
        over = [task for task in worker.running.values() if task.left_core_s <= 1e-9]
        for task in over:
            del worker.running[task.key]
            worker.state.remove(task.key)
            worker.account.release(_asked(task))
            if now_s > settle_s:
                ended.append((task, now_s))
        _begin(worker, now_s)
        wake(worker)
        for _ in over:
            submit()
    for worker in workers.values():
        worker.advance(seconds + settle_s, settle_s)
    shares = [worker.busy_core_s / seconds / worker.state.cores for worker in workers.values()]
    return SpilloverRow(
        policy=policy,
        load=load,
        seed=seed,
        tasks=len(ended),
        throughput=sum(w.busy_core_s for w in workers.values()) / seconds / sum(node.cores for node in nodes),
        spread=statistics.pstdev(shares),
        slowdown=statistics.fmean((end_s - task.born_s) / task.alone_s for task, end_s in ended) if ended else 0.0,
        waited=statistics.fmean(task.started_s - task.born_s for task, _ in ended) if ended else 0.0,
    )


def _account(node: Node) -> WorkerAccount:
    return WorkerAccount(ResourceSet.of(cpu=node.cores, memory=node.memory_mb))


def _asked(task: _Task) -> ResourceSet:
    return ResourceSet.of(cpu=task.cores, memory=task.memory_mb)


def _occupant(task: _Task) -> Occupant:
    return Occupant(task.key, task.key, PRIORITY, task.cores, task.memory_mb)


@dataclass(frozen=True, slots=True)
class _Room:
    """A worker's account as it answers for a task, where placement asks the memory manager."""

    asked: ResourceSet
    workers: Mapping[str, _Worker]
    least_mb: int = -(2**40)
    """No bound: a task that only waits in a worker's queue holds none of its room."""

    def ever(self, worker: WorkerState) -> bool:
        return self.workers[worker.worker_id].account.could(self.asked)

    def now(self, worker: WorkerState) -> bool:
        return self.workers[worker.worker_id].account.fits(self.asked)

    def squeezed(self, worker: WorkerState) -> None:
        """Return None: no one makes room."""

    def lacking(self, workers: Sequence[WorkerState]) -> str:
        return "its account is full"


def _choice(task: _Task, workers: Mapping[str, _Worker], fleet: Fleet, policy: str) -> str:
    """Return the worker where the task fits; else, as document 000 binds it, one of those that it would wait for."""
    request = Request(task.key, PRIORITY, task.cores, policy)
    outcome = place(request, fleet, _Room(_asked(task), workers))
    if isinstance(outcome, Placed):
        return outcome.worker_id
    assert isinstance(outcome, Wait), "a kind of task fits no worker"
    return fleet.choose(request, [workers[name].state for name in outcome.worker_ids]).worker_id


def _begin(worker: _Worker, now_s: float) -> None:
    """Start the tasks at the head of a worker's queue for which there is room."""
    while worker.queue and worker.account.book(_asked(worker.queue[0])):
        task = worker.queue.popleft()
        worker.account.start(_asked(task))
        task.started_s = now_s
        worker.running[task.key] = task
