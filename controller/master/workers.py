"""The workers as last heard of: who is there, what they offer.

Kept across a restart of the master as known but not heard of: such a worker counts as capacity of the applications that
have executors on it, and gets nothing new. Memory is MiB, times are monotonic seconds.
"""

from __future__ import annotations

import logging
import math

import msgspec
from msgspec import structs

from controller.client import WorkerView
from controller.master.application import Application
from controller.master.capacity import Capacity, capacity
from controller.master.executor_spec import executor_slots
from controller.master.store import Store
from controller.messages import ExecutorWish, WorkerInfo

log = logging.getLogger("sparkpace.master")

STALE_S = 10.0
"""A worker not heard of for so long gets no new executors."""


class Worker:
    """A worker as last heard of. `instance` is the life of its agent that numbers the samples."""

    def __init__(self, info: WorkerInfo) -> None:
        self.info, self.seen_s = info, -math.inf
        self.instance = ""
        self.samples_acknowledged = 0


class Workers:
    """All of them; only what they say of themselves is stored."""

    def __init__(self, store: Store) -> None:
        self._store = store
        known = msgspec.json.decode(store.meta("workers") or "[]", type=list[WorkerInfo])
        self.by_id = {info.worker_id: Worker(info) for info in known}

    def heard(self, info: WorkerInfo, now_s: float) -> tuple[Worker, bool]:
        """Takes a worker's word in; also says whether it joins."""
        worker = self.by_id.setdefault(info.worker_id, Worker(info))
        joins, differs = worker.seen_s == -math.inf, worker.info != info
        worker.info, worker.seen_s = info, now_s
        if joins:
            log.info("worker %s joined: %.2f cores, %d MiB", info.worker_id, info.cores, info.memory_mb)
        if joins or differs:
            encoded = msgspec.json.encode([w.info for w in self.by_id.values()])
            self._store.set_meta("workers", encoded.decode())
        return worker, joins

    def fresh(self, now_s: float) -> list[WorkerInfo]:
        """Workers heard of lately."""
        return [w.info for w in self.by_id.values() if now_s - w.seen_s < STALE_S]

    def expected(self, now_s: float) -> list[WorkerInfo]:
        """The fresh ones; just after the master's restart, before any was heard, those it knew before."""
        return self.fresh(now_s) or [w.info for w in self.by_id.values() if w.seen_s == -math.inf]

    def views(self, now_s: float) -> list[WorkerView]:
        heard = [w for w in self.by_id.values() if w.seen_s > -math.inf]
        return [WorkerView(**structs.asdict(w.info), seen_s_ago=round(now_s - w.seen_s, 3)) for w in heard]

    def capacity(self, application: Application, now_s: float) -> Capacity:
        """The most an application can get: of the workers it has executors on, else of all that are there."""
        executors = application.executors.values()
        mine = dict.fromkeys(e.record.worker_id for e in executors if e.live or application.ended)
        infos = [self.by_id[name].info for name in mine if name in self.by_id] if mine else self.fresh(now_s)
        conf = application.record.registration.conf
        wish = next(iter(application.wanted.values()), ExecutorWish())
        return capacity(infos, lambda info: executor_slots(conf, wish, "0", info), wish.count)
