"""The schedulers with which the paper compares, as controls of the virtual cluster.

`Queued` gives static executors in order of arrival: FIFO (one queue with everything), Reserve (queues of fixed shares), and,
with `takes_back`, the means by which a queue takes cores from another's executors: killing them (YARN) or suspending them to
the least quota (BiG-C). `Shares` gives every application executors everywhere and lets the kernel share by weight. Not
covered: the production laws (`pacing`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from experiments.simulator.engine import Engine
from experiments.simulator.state import App, SimExecutor, SimWorker, Task

LEAST_CORES = 0.01
"""A suspended executor's quota: the kernel's least, 1 ms of 100 ms."""
NOTHING = 1e-9


@dataclass(frozen=True, slots=True)
class QueueShare:
    """`share` of the cluster's cores that the queue is sure of; `most`: the share to which it may grow; above `share`: by
    taking back."""

    share: float
    most: float


FIFO: Mapping[str, QueueShare] = {"all": QueueShare(1.0, 1.0)}
RESERVE: Mapping[str, QueueShare] = {"short": QueueShare(0.4, 0.4), "long": QueueShare(0.6, 0.6)}
PREEMPTIVE: Mapping[str, QueueShare] = {"short": QueueShare(0.4, 0.8), "long": QueueShare(0.6, 0.6)}
"""The sizes of the paper's experiment (document 004, section 3.3; docs/design.md)."""


@dataclass(slots=True, eq=False)
class _Waiting:
    app: App
    missing: float


@dataclass(slots=True)
class Queued:
    """Applications get `SimSubmission.cores` (None: all of the queue's), whole cores, in order of arrival in their queue; the
    first application takes what is free and the rest when it becomes free, as Spark standalone does. An application's queue
    is its kind's, else the first queue. `takes_back`: what happens to executors of other queues when a queue is below `most`
    and no core is free; they get their cores back when those are free again."""

    queues: Mapping[str, QueueShare]
    takes_back: Literal["nothing", "kill", "suspend"] = "nothing"
    engine: Engine | None = None
    waiting: dict[str, list[_Waiting]] = field(default_factory=dict)
    suspended: list[SimExecutor] = field(default_factory=list)

    def begin(self, engine: Engine) -> None:
        self.engine = engine
        self.waiting = {name: [] for name in self.queues}

    def arrived(self, app: App) -> None:
        queue = self._queue(app)
        asked = self._cores(queue) if app.asked.cores is None else app.asked.cores
        self.waiting[queue].append(_Waiting(app, asked))
        self._serve()

    def ended(self, app: App) -> None:
        self.waiting[self._queue(app)] = [w for w in self.waiting[self._queue(app)] if w.app is not app]
        self.suspended = [e for e in self.suspended if not e.over]
        self._serve()

    def stage_submitted(self, app: App, stage: int) -> None:
        pass

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        pass

    def stage_completed(self, app: App, stage: int) -> None:
        pass

    # ------------------------------------------------------------------ rules

    def _serve(self) -> None:
        """Give free cores out: queues that may take back come first, because their applications must not wait."""
        for name in sorted(self.queues, key=lambda n: self.queues[n].share - self.queues[n].most):
            for waits in self.waiting[name]:
                waits.missing -= self._grow(waits.app, min(waits.missing, self._room(name)))
                if self.takes_back != "nothing" and self.queues[name].most > self.queues[name].share:
                    wanted = min(waits.missing, self._room(name))
                    if wanted > NOTHING and self._take_back(name, wanted):
                        waits.missing -= self._grow(waits.app, wanted)
                if waits.missing > NOTHING:
                    break
            self.waiting[name] = [w for w in self.waiting[name] if w.missing > NOTHING]
        self._resume()

    def _room(self, name: str) -> float:
        """Return the cores that a queue may still get."""
        assert self.engine
        most = self.queues[name].most * math.fsum(w.cores for w in self.engine.workers)
        return max(0.0, most - math.fsum(self._held(a) for a in self._running() if self._queue(a) == name))

    def _grow(self, app: App, cores: float) -> float:
        """Start new executors on the freest workers, one core a slot; return how many cores they have."""
        assert self.engine
        given = 0.0
        while cores - given >= 1 - NOTHING:
            free, _, worker = max((self._free(w), -n, w) for n, w in enumerate(self.engine.workers))
            size = math.floor(min(free, cores - given) + NOTHING)
            if size < 1:
                break
            self.engine.start(app, worker, float(size), size)
            given += size
        return given

    def _take_back(self, name: str, cores: float) -> bool:
        """Take cores from executors of other queues, the latest application's first, until `cores` more are free."""
        assert self.engine
        others = [a for a in reversed(self._running()) if self._queue(a) != name]
        freed = 0.0
        for executor in [e for a in others for e in reversed(a.live)]:
            if freed >= cores - NOTHING:
                break
            if executor in self.suspended:
                continue
            freed += executor.ordered
            if self.takes_back == "kill":
                self.engine.stop(executor)
                self._wants_again(executor.app, float(executor.slots))
            else:
                self.engine.set_quota(executor, LEAST_CORES)
                self.suspended.append(executor)
        return freed > 0

    def _wants_again(self, app: App, cores: float) -> None:
        """Put an application whose executor was killed first in its queue again."""
        queue = self.waiting[self._queue(app)]
        mine = next((w for w in queue if w.app is app), None)
        if mine is None:
            queue.insert(0, _Waiting(app, cores))
        else:
            mine.missing += cores

    def _resume(self) -> None:
        """Give suspended executors their cores again once these are free: they get no further cores, so nothing is
        compensated."""
        assert self.engine
        for executor in list(self.suspended):
            if self._free(executor.worker) + executor.ordered >= executor.slots - NOTHING:
                self.engine.set_quota(executor, float(executor.slots))
                self.suspended.remove(executor)

    def _free(self, worker: SimWorker) -> float:
        """Return the cores of a worker that no executor holds; the quotas of suspended executors are too little to count."""
        here = (e for a in self._running() for e in a.live if e.worker is worker and e not in self.suspended)
        return worker.cores - math.fsum(e.ordered for e in here)

    def _held(self, app: App) -> float:
        return math.fsum(e.ordered for e in app.live if e not in self.suspended)

    def _running(self) -> list[App]:
        assert self.engine
        return [a for a in self.engine.apps if a.end_s is None and a.executors]

    def _queue(self, app: App) -> str:
        return app.asked.kind if app.asked.kind in self.queues else next(iter(self.queues))

    def _cores(self, queue: str) -> float:
        assert self.engine
        return self.queues[queue].share * math.fsum(w.cores for w in self.engine.workers)


def by_priority(app: App) -> float:
    """Return cpu-shares in proportion to 1 + priority."""
    return 1.0 + app.asked.priority


@dataclass(slots=True)
class Shares:
    """Every application has an executor on every worker; the kernel shares each worker's cores by `weight` among executors
    with running tasks, none getting more than its tasks can use (cpu-shares: nothing is capped while there is room)."""

    weight: Callable[[App], float] = by_priority
    engine: Engine | None = None

    def begin(self, engine: Engine) -> None:
        self.engine = engine

    def arrived(self, app: App) -> None:
        assert self.engine
        for worker in self.engine.workers[: app.asked.executors]:
            self.engine.start(app, worker, LEAST_CORES)

    def stage_submitted(self, app: App, stage: int) -> None:
        self._share()

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        self._share()

    def stage_completed(self, app: App, stage: int) -> None:
        self._share()

    def ended(self, app: App) -> None:
        self._share()

    def _share(self) -> None:
        assert self.engine
        for worker in self.engine.workers:
            here = [e for a in self.engine.apps if a.end_s is None for e in a.live if e.worker is worker]
            wishes = [(e, self.weight(e.app), e.computing * worker.speed_limit) for e in here]
            for executor, share in water_filling(wishes, worker.cores):
                cores = max(LEAST_CORES, share)
                if abs(cores - executor.ordered) > NOTHING:
                    self.engine.set_quota(executor, cores)


def water_filling(wishes: list[tuple[SimExecutor, float, float]], cores: float) -> list[tuple[SimExecutor, float]]:
    """Return the shares of `cores` for (executor, weight, most): in proportion to weight, none above its most, nothing
    wasted."""
    open_, given = [w for w in wishes if w[2] > 0], [(e, 0.0) for e, _, most in wishes if most <= 0]
    while open_:
        per_weight = cores / math.fsum(weight for _, weight, _ in open_)
        full = [w for w in open_ if w[2] <= w[1] * per_weight + NOTHING]
        if not full:
            return given + [(e, weight * per_weight) for e, weight, _ in open_]
        given += [(e, most) for e, _, most in full]
        cores -= math.fsum(most for _, _, most in full)
        open_ = [w for w in open_ if w not in full]
    return given
