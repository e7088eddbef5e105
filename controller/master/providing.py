"""The shell of growth: asks a provider for what the core wants (`core.growing`), on a thread of its own, and remembers the
workers that were started."""

from __future__ import annotations

import logging
from concurrent.futures import Future, ThreadPoolExecutor

import msgspec

from controller.master.core.growing import Growing
from controller.master.providers import Provider
from controller.master.storage.store import Store
from placement.growth import EndWorker, StartWorker, WorkerType
from placement.resources import ResourceSet
from stage_model.errors import RuntimeFailed

log = logging.getLogger("sparkpace.master")

KEY, START_KEY = "started_workers", "worker_start_s"


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


class Providing:
    """The calls of the provider. Workers that an earlier life of the master had started are taken over."""

    def __init__(self, core: Growing, provider: Provider, store: Store, now_s: float) -> None:
        self.core, self.provider = core, provider
        self._thread = ThreadPoolExecutor(1, "providers")
        self._under_way: dict[Future[None], StartWorker | EndWorker] = {}
        lost = "workers that a provider had started are not given back: end them by hand"
        for one in store.decoded_meta(KEY, list[_Stored], lost) or []:
            core.growth.adopt(one.name, one.kind(), now_s)
        start_s = store.decoded_meta(START_KEY, float, "the time that a worker takes to start is not known")
        if start_s is not None:
            core.growth.start_s = min(max(0.0, start_s), core.growth.limits.join_s)

    @property
    def under_way(self) -> list[Future[None]]:
        return list(self._under_way)

    def stored_form(self) -> list[_Stored]:
        return [_Stored.of(one.name, one.kind) for one in self.core.growth.started.values()]

    def begin(self, action: StartWorker | EndWorker) -> None:
        """Have the provider start or end a worker."""
        if isinstance(action, StartWorker):
            future = self._thread.submit(self.provider.start, action.name, action.kind)
        else:
            future = self._thread.submit(self.provider.end, action.name)
        self._under_way[future] = action

    def look(self, now_s: float) -> None:
        """Tell the core what the provider has done by now."""
        for future in [one for one in self._under_way if one.done()]:
            action, error = self._under_way.pop(future), future.exception()
            if error is not None and not isinstance(error, RuntimeFailed):
                log.error("the provider failed", exc_info=error)
            if isinstance(action, StartWorker):
                if error is not None:
                    self.core.not_started(action, error, now_s)
            elif error is not None:
                self.core.not_ended(action.name, error)
            else:
                self.core.ended(action.name)
