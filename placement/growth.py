"""New workers for executors that fit nowhere, and how many workers there should be (document 000, section 3.3).

An infeasible request becomes a worker type; types wait in a queue that holds each type only once, so that one request which
is asked again and again, or several alike, start one worker at a time. A worker that joins is offered to the infeasible
requests. Vertical growth runs whenever it is triggered and comes first; horizontal growth fills up to N. Pure: a provider
starts workers (`controller.master.providers`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from placement.resources import NOTHING, ResourceSet

CORE_STEP = 0.05
LEAST_CORES = 1.0
MEMORY_STEP_MB = 256
START_S = 30.0
"""Seconds that a worker is expected to take from its request to its first report, before any worker has reported."""
MOST_FURTHER = 100
"""Most further workers that are offered to one deadline."""


@dataclass(frozen=True, slots=True)
class WorkerType:
    """The least that a new worker must have; `labels` are sorted pairs."""

    cores: float
    memory_mb: int
    pieces: ResourceSet = NOTHING
    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        parts = [f"{self.cores:g} cores, {self.memory_mb} MiB"]
        parts += [str(self.pieces)] if self.pieces else []
        parts += [self.labels_text] if self.labels else []
        return ", ".join(parts)

    @property
    def labels_text(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.labels)

    def holds(self, other: WorkerType) -> bool:
        """Check that a worker of this type would do for one of the other."""
        return (
            self.cores >= other.cores
            and self.memory_mb >= other.memory_mb
            and other.pieces.within(self.pieces)
            and set(other.labels) <= set(self.labels)
        )


def rounded(
    cores: float, memory_mb: int, pieces: ResourceSet = NOTHING, labels: tuple[tuple[str, str], ...] = ()
) -> WorkerType:
    """Return the type with its amounts rounded up, so that requests which differ by little are of one type."""
    steps = math.ceil(round(cores / CORE_STEP, 6))
    return WorkerType(
        max(1, steps) * 5 / 100, math.ceil(memory_mb / MEMORY_STEP_MB) * MEMORY_STEP_MB, pieces, tuple(sorted(labels))
    )


def ideal_count(in_use: int, utilisation: float, demanded_cores: float, usual_cores: float) -> int:
    """Return N = max(ceil(cn / f), ceil(cd / cpn)): workers in use over the target utilisation (0 to 1], and the demanded
    cores over those of a usual worker."""
    return max(math.ceil(round(in_use / utilisation, 9)), math.ceil(round(demanded_cores / usual_cores, 9)))


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of what may be started: workers at a time; cores, memory and pieces (None: any) of all of them together.

    `join_s`: a worker that has not joined by then will not; `keep_s`: a worker without work for that long goes back;
    `retry_s`: seconds until a failed start is tried again."""

    workers: int = 4
    cores: float = math.inf
    memory_mb: float = math.inf
    pieces: ResourceSet | None = None
    join_s: float = 120.0
    keep_s: float = 300.0
    retry_s: float = 30.0

    def __str__(self) -> str:
        pieces = "" if self.pieces is None else f", {self.pieces or 'no resources'}"
        return f"{self.cores:g} cores, {self.memory_mb:g} MiB{pieces}"

    def hold(self, kinds: Sequence[WorkerType]) -> bool:
        """Check that these may all be there at once."""
        return (
            len(kinds) <= self.workers
            and sum(kind.cores for kind in kinds) <= self.cores + 1e-9
            and sum(kind.memory_mb for kind in kinds) <= self.memory_mb
            and (self.pieces is None or sum((kind.pieces for kind in kinds), NOTHING).within(self.pieces))
        )

    def refuses(self, kind: WorkerType) -> str:
        """Return why no worker of that type can ever be started; empty if one can."""
        if self.workers == 0:
            return "no workers may be started"
        return "" if self.hold([kind]) else f"a worker of {kind} is more than may be started ({self} in all)"


@dataclass(slots=True)
class Started:
    """A worker that was asked for. `seen_s` None: the worker has not joined yet; `ending`: it was ordered to go."""

    name: str
    kind: WorkerType
    since_s: float
    seen_s: float | None = None
    idle_s: float | None = None
    ending: bool = False
    ordered_s: float = 0.0
    """Time at which the worker was last ordered to go."""
    adopted: bool = False
    """True if an earlier life asked for it: how long it takes to join is not known."""


@dataclass(frozen=True, slots=True)
class StartWorker:
    name: str
    kind: WorkerType


@dataclass(frozen=True, slots=True)
class EndWorker:
    name: str
    reason: str


Action = StartWorker | EndWorker


class Growth:
    """The workers to start and to give back. `usual` is the worker of horizontal growth; None: only vertical growth."""

    def __init__(self, limits: Limits, usual: WorkerType | None = None, utilisation: float = 0.8) -> None:
        self.limits, self.usual, self.utilisation = limits, usual, utilisation
        self.queue: list[WorkerType] = []
        """Types to be started, each once."""
        self.started: dict[str, Started] = {}
        self.start_s = START_S
        """Seconds that the last worker which has joined took from its request to its first report."""
        self._number = 0
        self._not_before: dict[WorkerType, float] = {}
        self._wanted: set[WorkerType] = set()

    def sized(self, kind: WorkerType) -> WorkerType:
        """Return the type with a core at least, because no one knows what comes, and with at most the cores that may be
        started: fewer cores only make it slower."""
        return replace(kind, cores=min(max(kind.cores, LEAST_CORES), self.limits.cores))

    def kind_for(self, needed: Callable[[float], WorkerType], cores: float) -> WorkerType:
        """Return the type of a further worker for executors: the usual one, if its memory, pieces and labels will do, else
        one of these cores. `needed` says what a worker of a number of cores must have."""
        usual = self.usual
        if usual is not None and usual.holds(replace(needed(usual.cores), cores=0.0)):
            return usual
        return self.sized(needed(cores))

    def on_the_way(self, kind: WorkerType) -> list[WorkerType]:
        """Return the types of the started workers that have not joined yet and would do for `kind`."""
        coming = (started.kind for started in self.started.values() if started.seen_s is None and not started.ending)
        return [one for one in coming if one.holds(kind)]

    def held(self, kind: WorkerType, now_s: float) -> bool:
        """Return True for a type of which the last start has failed and is not tried again yet."""
        return now_s < self._not_before.get(kind, now_s)

    def room_for(self, kind: WorkerType) -> int:
        """Return how many further workers of that type may be started now, `MOST_FURTHER` at most."""
        there = [started.kind for started in self.started.values()]
        fits = (self.limits.hold([*there, *[kind] * number]) for number in range(1, MOST_FURTHER + 1))
        return sum(1 for _ in takewhile(bool, fits))

    def want(self, kind: WorkerType, now_s: float, count: int = 1) -> None:
        """Take in that executors need `count` further workers of that type. Workers on their way that would do count; each
        call queues at most one start, so several workers may be starting together."""
        self._wanted.add(kind)
        if self.held(kind, now_s) or self.limits.refuses(kind) or len(self.on_the_way(kind)) >= count:
            return
        if kind not in self.queue:
            self.queue.append(kind)

    def failed(self, name: str, kind: WorkerType, now_s: float) -> list[EndWorker]:
        """Take in that a worker could not be started: a half-started worker is ended, and its type is not tried again for
        `retry_s`."""
        self._not_before[kind] = now_s + self.limits.retry_s
        return [self._end(self.started[name], "it could not be started", now_s)] if name in self.started else []

    def adopt(self, name: str, kind: WorkerType, now_s: float) -> None:
        """Take over a worker that an earlier life had started."""
        self.started[name] = Started(name, kind, now_s, adopted=True)
        number = name.rpartition("-")[2]
        self._number = max(self._number, int(number) if number.isdigit() else 0)

    def forget(self, name: str) -> None:
        """Forget a worker that is gone or could not be started."""
        self.started.pop(name, None)

    def step(
        self, now_s: float, present: Mapping[str, bool], others: int, in_use: int, demanded_cores: float
    ) -> list[Action]:
        """Return what to do now. `present`: the started workers that answer, and whether they have work; `others` are the
        workers that `Growth` did not start; `in_use` and `demanded_cores` count over all."""
        lost = self._look(now_s, present)
        self.queue = [kind for kind in self.queue if kind in self._wanted]
        self._wanted.clear()
        started = [self._start(kind, now_s) for kind in iter(self._take, None)]
        ideal = 0 if self.usual is None else ideal_count(in_use, self.utilisation, demanded_cores, self.usual.cores)
        return [*lost, *started, *self._fill(now_s, others, ideal), *self._spare(now_s, others, ideal)]

    def _look(self, now_s: float, present: Mapping[str, bool]) -> list[EndWorker]:
        """Note which workers are there and have work; return the ends of workers that are lost, or should have gone long
        ago."""
        ends = []
        for started in self.started.values():
            if started.ending:
                if now_s - started.ordered_s > self.limits.retry_s:
                    ends.append(self._end(started, "it was not ended when it was ordered to go", now_s))
            elif started.name in present:
                if started.seen_s is None and not started.adopted:
                    self.start_s = now_s - started.since_s
                started.seen_s = now_s
                started.idle_s = None if present[started.name] else now_s if started.idle_s is None else started.idle_s
            elif now_s - (started.since_s if started.seen_s is None else started.seen_s) > self.limits.join_s:
                said = "has not joined" if started.seen_s is None else "was not seen"
                ends.append(self._end(started, f"it {said} within {self.limits.join_s:g} s", now_s))
        return ends

    def _living(self) -> list[Started]:
        return [started for started in self.started.values() if not started.ending]

    def _fill(self, now_s: float, others: int, ideal: int) -> list[StartWorker]:
        """Return the usual workers up to N."""
        starts: list[StartWorker] = []
        if self.usual is None or self.held(self.usual, now_s):
            return starts
        # workers that vertical growth has begun count: N = H + V + n
        while others + len(self._living()) < ideal and self._room(self.usual):
            starts.append(self._start(self.usual, now_s))
        return starts

    def _spare(self, now_s: float, others: int, ideal: int) -> list[EndWorker]:
        """Return the ends of workers beyond N that have had no work for long, longest first."""
        living = self._living()
        spare = len(living) if self.usual is None else max(0, others + len(living) - ideal)
        since = sorted((started.idle_s, started.name) for started in living if started.idle_s is not None)
        long = [name for idle_s, name in since[:spare] if now_s - idle_s >= self.limits.keep_s]
        return [self._end(self.started[name], f"it had no work for {self.limits.keep_s:g} s", now_s) for name in long]

    def end_all(self, reason: str, now_s: float) -> list[EndWorker]:
        """Return the ends of all workers, also of those that were ordered to go before."""
        return [self._end(started, reason, now_s) for started in self.started.values()]

    def _end(self, started: Started, reason: str, now_s: float) -> EndWorker:
        started.ending, started.ordered_s = True, now_s
        return EndWorker(started.name, reason)

    def _take(self) -> WorkerType | None:
        """Return the next type for which there is room now; the types before it wait for room."""
        for _ in range(len(self.queue)):
            kind = self.queue.pop(0)
            if self._room(kind):
                return kind
            self.queue.append(kind)
        return None

    def _room(self, kind: WorkerType) -> bool:
        return self.limits.hold([*(started.kind for started in self.started.values()), kind])

    def _start(self, kind: WorkerType, now_s: float) -> StartWorker:
        self._number += 1
        name = f"grown-{self._number}"
        self.started[name] = Started(name, kind, now_s)
        return StartWorker(name, kind)
