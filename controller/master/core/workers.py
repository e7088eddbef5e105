"""The workers by their last reports: which are there, what they offer.

They are kept across a restart of the master as known but silent: such a worker counts as capacity of the applications that
have executors on it, and gets nothing new. Memory is MiB, times are monotonic seconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from controller.asks.allocation import most_executors
from controller.master.core.application import Application
from controller.master.core.capacity import Capacity, asked_capacity, capacity, capacity_of, expected_worker
from controller.master.core.changes import Changes
from controller.master.core.effects import StoreMeta
from controller.master.core.executor_spec import executor_slots
from controller.master.core.executor_state import Executor
from controller.runtime.base import ExecutorKey
from controller.wire.command import WorkerView
from controller.wire.durations import Timings
from controller.wire.worker import ExecutorReport, WorkerInfo
from placement.labels import parse_labels
from stage_model.errors import BadInput
from stage_model.nearest import nearest_names

Labels = dict[str, dict[str, str | None]]

STALE_S = 10.0
"""A worker without a report for this long gets no new executors, and plans do not count on it."""


class Worker:
    """A worker by its last report. `instance` is the life of its agent that numbers the samples; `closing`: it is given
    back; `leaving`: its agent is to end, `left`: it has said that it ends."""

    def __init__(self, info: WorkerInfo) -> None:
        self.info, self.seen_s = info, -math.inf
        self.instance = ""
        self.samples_acknowledged = 0
        self.closing = False
        self.silence = ""
        """The sentence on its silence (`silence`); empty while it reports."""
        self.lost = False
        """True after `lost_after_s` of silence, when its executors are given up."""
        self.leaving, self.left = False, False
        self.timings: Timings | None = None
        """The timings of its agent's life; None: it reports none."""
        self.relief_steps = 0
        """Steps by which executors of lower priority make room, because its machine is under pressure."""
        self.reports: tuple[ExecutorReport, ...] = ()
        """The last reports: applications that are not known here may register again."""
        self.strays: frozenset[ExecutorKey] = frozenset()
        """Executors in its last report that no longer belong to an application here."""
        self.sends_logs = False
        """True if its agent's release sends logs."""
        self.wanted_logs: set[str] = set()
        """Executors ("APPLICATION/EXECUTOR") whose logs people read now (`logs`)."""


@dataclass(frozen=True, slots=True)
class _Fresh:
    """The fresh workers by id, those of them that start executors, and the time of the oldest of their reports."""

    all: dict[str, WorkerInfo]
    starting: dict[str, WorkerInfo]
    oldest_s: float


class Workers:
    """All workers."""

    def __init__(self, changes: Changes, now_s: float) -> None:
        self._changes, self._begun_s = changes, now_s
        self.by_id: dict[str, Worker] = {}
        self.labels: Labels = {}
        """The labels that people have changed, by worker (None: taken away)."""
        self._fresh: _Fresh | None = None
        """The last look for fresh workers; None since one has changed, has joined or is to go."""

    def restore(self, infos: Iterable[WorkerInfo], labels: Labels) -> None:
        """Take in what an earlier life of the master had stored."""
        self.by_id, self.labels = {info.worker_id: Worker(info) for info in infos}, labels

    def heard(self, info: WorkerInfo, now_s: float, *, leaves: bool = False) -> tuple[Worker, bool]:
        """Take a worker's report in, which may be a farewell; return the worker, and True if it joins, or is back after a
        silence."""
        info = self._labelled(info)
        worker = self.by_id.setdefault(info.worker_id, Worker(info))
        joins = not leaves and (worker.left or now_s - worker.seen_s >= STALE_S)
        differs = worker.info != info
        worker.seen_s = now_s
        if worker.left != leaves:  # a farewell, which may come twice, or another agent of that name
            worker.left = worker.closing = leaves
            worker.leaving = worker.leaving and leaves
            self._fresh = None
        if differs:
            worker.info = info
        if joins:
            self._changes.log(f"worker {info.worker_id} joined: {info.cores:.2f} cores, {info.memory_mb} MiB")
        if joins or differs:
            self._save()
        return worker, joins

    def has_reported(self, worker_id: str) -> bool:
        """Return True if the worker has reported in this life of the master."""
        worker = self.by_id.get(worker_id)
        return worker is not None and worker.seen_s > -math.inf

    def _save(self) -> None:
        self._fresh = None
        self._changes.effect(StoreMeta("workers"))

    def relabelled(self, worker_id: str, changes: Mapping[str, str | None]) -> Labels:
        """Return the labels where those of a worker are set in addition to those its agent says, or taken away (None). Raise
        `BadInput` for an unknown worker or a label that cannot be."""
        worker = self.by_id.get(worker_id)
        if worker is None:
            raise BadInput(f"worker {worker_id[:80]!r} is not known here; {nearest_names(worker_id, self.by_id)}")
        for name, value in changes.items():
            label = f"{name}={'x' if value is None else value}"
            # one at a time: a name or a value with commas would pass for several labels
            if parse_labels(label, option="label").keys() != {name}:
                raise BadInput(f"{label[:80]!r} is not a label; use NAME=VALUE, as zone=a")
        return {**self.labels, worker_id: {**self.labels.get(worker_id, {}), **changes}}

    def relabel(self, worker_id: str, labels: Labels) -> dict[str, str]:
        """Take `relabelled` labels of that worker; return all it has then."""
        worker = self.by_id[worker_id]
        self.labels = labels
        worker.info = self._labelled(worker.info)
        self._save()
        return worker.info.labels

    def _labelled(self, info: WorkerInfo) -> WorkerInfo:
        changes = self.labels.get(info.worker_id)
        if not changes:
            return info
        labels = {**info.labels, **changes}
        return structs.replace(info, labels={name: value for name, value in labels.items() if value is not None})

    def fresh(self, now_s: float) -> Mapping[str, WorkerInfo]:
        """Return the workers with a recent report that are to go on, by id."""
        return self._look(now_s).all

    def starting(self, now_s: float) -> Mapping[str, WorkerInfo]:
        """Return the fresh workers that start executors: the same mapping each time, until one of them changes."""
        return self._look(now_s).starting

    def _look(self, now_s: float) -> _Fresh:
        """Return the fresh workers. They are looked for again when the report that is the oldest by now may be too old."""
        last = self._fresh
        if last is None or now_s - last.oldest_s >= STALE_S:
            there = [w for w in self.by_id.values() if now_s - w.seen_s < STALE_S and not w.closing]
            found = {w.info.worker_id: w.info for w in there}
            starting = {name: info for name, info in found.items() if not info.adopts}
            if last is not None and last.starting == starting:
                starting = last.starting
            last = self._fresh = _Fresh(found, starting, min((w.seen_s for w in there), default=math.inf))
        return last

    def adopting(self, now_s: float) -> list[WorkerInfo]:
        """Return the fresh workers that pace executors of other cluster managers, in the order in which they joined."""
        return [info for info in self.fresh(now_s).values() if info.adopts]

    def close(self, worker_id: str) -> None:
        """Note that the worker is given back: nothing new goes there."""
        if worker_id in self.by_id:
            self.by_id[worker_id].closing = True
            self._fresh = None

    def end(self, worker_id: str) -> None:
        """Have the agent of a worker end. Raise `BadInput` for an unknown worker."""
        if worker_id not in self.by_id:
            raise BadInput(f"worker {worker_id[:80]!r} is not known here; {nearest_names(worker_id, self.by_id)}")
        self.close(worker_id)
        self.by_id[worker_id].leaving = True

    def forget_silent(self, worker_id: str, now_s: float) -> bool:
        """Forget a worker that was given back, or has left, once it is silent; a last report may still be on its way. Return
        True if it is gone."""
        worker = self.by_id.get(worker_id)
        if worker is not None and now_s - worker.seen_s < STALE_S:
            return False
        if self.labels.pop(worker_id, None) is not None:
            self._changes.effect(StoreMeta("labels"))
        if worker is not None:
            del self.by_id[worker_id]
            self._save()
        return True

    def all_heard(self, now_s: float) -> bool:
        """Return True if each worker known before the master's restart has reported since, or had the time to."""
        return now_s - self._begun_s >= STALE_S or all(worker.seen_s > -math.inf for worker in self.by_id.values())

    def known(self, now_s: float) -> list[WorkerInfo]:
        """Return the workers that have reported and, until all have had the time to report, the workers known before the
        master's restart."""
        settled = self.all_heard(now_s)
        return [w.info for w in self.by_id.values() if w.seen_s > -math.inf or not settled]

    def expected(self, now_s: float, *, adopts: bool = False) -> list[WorkerInfo]:
        """Return the fresh workers that start, or adopt; just after the master's restart, before any worker has reported, the
        workers known before."""
        fresh = self.adopting(now_s) if adopts else list(self.starting(now_s).values())
        return fresh or [w.info for w in self.by_id.values() if w.seen_s == -math.inf and w.info.adopts == adopts]

    def cores(self, now_s: float, *, adopts: bool = False) -> float:
        """Return the cores of all workers that are `expected`."""
        return sum(info.cores for info in self.expected(now_s, adopts=adopts))

    def views(self, now_s: float) -> list[WorkerView]:
        heard = [w for w in self.by_id.values() if w.seen_s > -math.inf and not w.left]
        return [WorkerView(**structs.asdict(w.info), seen_s_ago=round(now_s - w.seen_s, 3), silence=w.silence) for w in heard]

    def is_lost(self, worker_id: str) -> bool:
        """Return True for a worker that is lost, or not known any more."""
        worker = self.by_id.get(worker_id)
        return worker is None or worker.lost

    def is_host_lost(self, boot_id: str) -> bool:
        """Return True for a host of which workers are known here, if each of them is lost."""
        there = [worker.lost for worker in self.by_id.values() if worker.info.boot_id == boot_id]
        return bool(there) and all(there)

    def capacity(
        self,
        application: Application,
        now_s: float,
        further: Sequence[WorkerInfo] = (),
        among: Collection[str] | None = None,
    ) -> Capacity:
        """Return the most an application can get: from the workers that it has executors on, without silent workers, else
        from the present workers `among` these (None: from all); and from `further` workers in addition. An application that
        has ended had all of them."""
        mine = [e for e in application.executors.values() if e.present or application.ended]
        names = dict.fromkeys(e.record.worker_id for e in mine)
        infos = [self.by_id[name].info for name in names if name in self.by_id]
        if application.attached:
            return attached_capacity(application, mine, infos or self.adopting(now_s))
        if not mine:
            infos = [info for name, info in self.starting(now_s).items() if among is None or name in among]
        infos = [*infos, *further]
        conf = application.record.registration.conf
        _, wish = application.placement.first_wish
        most = most_executors(conf, wish.count)
        return capacity(infos, lambda info: executor_slots(conf, wish, "0", info.cores), most)

    def awaited_capacity(self, application: Application, most: Capacity, now_s: float) -> Capacity:
        """Return the most that an application, which can get `most` now, can get once the workers that its deadline counts on
        have joined."""
        further = [expected_worker(kind) for kind in application.placement.awaited]
        return self.capacity(application, now_s, further) if further else most


def attached_capacity(application: Application, executors: Sequence[Executor], workers: Sequence[WorkerInfo]) -> Capacity:
    """Return what the workers of the application's executors have for them; before there are any, what its settings ask
    for."""
    slots_on = Counter[str]()
    for executor in executors:
        slots_on[executor.record.worker_id] += executor.record.slots
    if not executors:
        return asked_capacity(application.record.registration.conf, workers)
    shares = [(w.cores, slots_on[w.worker_id]) for w in workers if w.worker_id in slots_on]
    return capacity_of(shares, len(executors), workers)
