"""The shell of growth: asks a provider for the workers that `placement.growth` wants, and remembers which those are.

One thread does the slow work of providers. A worker is stored before it is asked for, so that a restarted master gives it
back. Times are monotonic seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from controller.master.core import queue
from controller.master.core.application import Application
from controller.master.core.guard import guarded
from controller.master.core.placing import Placing
from controller.master.core.registry import Registry
from controller.master.providers import Provider
from placement.growth import EndWorker, Growth, StartWorker, WorkerType
from placement.resources import ResourceSet
from stage_model.errors import RuntimeFailed

log = logging.getLogger("sparkpace.master")

KEY = "started_workers"


class _Stored(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    cores: float
    memory_mb: int
    pieces: dict[str, int] = {}
    labels: tuple[tuple[str, str], ...] = ()

    @staticmethod
    def of(name: str, kind: WorkerType) -> _Stored:
        return _Stored(name=name, cores=kind.cores, memory_mb=kind.memory_mb, pieces=dict(kind.pieces), labels=kind.labels)

    def kind(self) -> WorkerType:
        return WorkerType(self.cores, self.memory_mb, ResourceSet(self.pieces), self.labels)


class Growing:
    def __init__(self, registry: Registry, placing: Placing, growth: Growth, provider: Provider, now_s: float) -> None:
        self.registry, self.placing, self.growth, self.provider = registry, placing, growth, provider
        self._thread = ThreadPoolExecutor(1, "providers")
        self._under_way: dict[Future[None], StartWorker | EndWorker] = {}
        self._leaving: set[str] = set()
        lost = "workers that a provider had started are not given back: end them by hand"
        for one in registry.store.decoded_meta(KEY, list[_Stored], lost) or []:
            growth.adopt(one.name, one.kind(), now_s)

    def tick(self, now_s: float) -> None:
        """Look at the workers that are wanted and those that are there, and begin what follows."""
        workers = self.registry.workers
        self._leaving -= {name for name in self._leaving if workers.forget_silent(name, now_s)}
        for future in [one for one in self._under_way if one.done()]:
            self._finished(future, now_s)
        if not workers.all_heard(now_s):
            return  # after a restart: workers that were there before have not reported yet
        applications = [a for a in self.registry.applications.values() if not a.ended]
        fresh = workers.fresh(now_s).keys()
        for application in applications:
            if application.infeasible is not None and queue.waits(application):
                with guarded(application, "looking for a worker to start for it"):
                    self._want(application, self.growth.sized(application.infeasible), fresh, now_s)
        busy = {e.record.worker_id for a in applications for e in a.executors.values() if not e.cleaned}
        present = {name: name in busy for name in self.growth.started if name in fresh}
        actions = self.growth.step(
            now_s, present, len(fresh - self.growth.started.keys()), len(fresh & busy), self._demanded(applications, now_s)
        )
        self._begin(actions)

    def _want(self, application: Application, kind: WorkerType, fresh: Collection[str], now_s: float) -> None:
        """Want a worker for the application, unless one was started as just that and is not: another would be no better."""
        unlike = [one.name for one in self.growth.started.values() if one.name in fresh and one.kind == kind]
        if unlike:
            application.notify(f"worker {unlike[0]} was started as {kind} and is not that; see `sparkpace explain`")
        else:
            self.growth.want(kind, now_s)

    def refuses(self, kind: WorkerType) -> str:
        """Return the reason why no worker that would do for `kind` can ever be started; empty if one can."""
        return self.growth.limits.refuses(self.growth.sized(kind))

    def end_all(self, now_s: float) -> list[Future[None]]:
        """Begin to give every started worker back; return the futures to wait for."""
        self._begin(self.growth.end_all("the cluster goes down", now_s))
        return list(self._under_way)

    def _demanded(self, applications: list[Application], now_s: float) -> float:
        """Return the planned cores of all executors that are there or wanted."""
        total = 0.0
        for application in applications:
            if application.held_back:
                continue
            with guarded(application, "counting the cores it wants"):
                wanted = sum(1 if wish.count is None else wish.count for wish in application.wanted.values())
                there = sum(1 for _ in application.live_executors())
                total += max(wanted, there) * self.placing.planned_cores(application, now_s)
        return total

    def _begin(self, actions: Sequence[StartWorker | EndWorker]) -> None:
        if actions:
            self._store()  # before anything is asked for
        for action in actions:
            if isinstance(action, StartWorker):
                log.info("starting worker %s: %s", action.name, action.kind)
                future = self._thread.submit(self.provider.start, action.name, action.kind)
            else:
                log.info("giving worker %s back: %s", action.name, action.reason)
                self.registry.workers.close(action.name)
                future = self._thread.submit(self.provider.end, action.name)
            self._under_way[future] = action

    def _finished(self, future: Future[None], now_s: float) -> None:
        action = self._under_way.pop(future)
        error = future.exception()
        if error is not None and not isinstance(error, RuntimeFailed):
            log.error("the provider failed", exc_info=error)
        if isinstance(action, EndWorker):
            if error is not None:
                log.error("worker %s was not ended and will be tried again: %s", action.name, error)
                return
            self.growth.forget(action.name)
            self._leaving.add(action.name)
            self._store()
        elif error is not None:
            log.error("worker %s was not started: %s", action.name, error)
            for application in self.registry.applications.values():
                if application.infeasible is not None and action.kind.holds(self.growth.sized(application.infeasible)):
                    application.notify(f"a worker for it could not be started: {error}")
            # the start is tried again later as long as an application wants it
            self._begin(self.growth.failed(action.name, action.kind, now_s))

    def _store(self) -> None:
        self.registry.store.later(KEY, self._put)

    def _put(self) -> None:
        stored = [_Stored.of(one.name, one.kind) for one in self.growth.started.values()]
        self.registry.store.set_meta(KEY, msgspec.json.encode(stored).decode())
