"""Logs of executors that people read: the place of each log, and the wish that its worker's agent send the end of it.

The wish is a level, like everything that an agent gets: it stands in the worker's desired state until the shell has the
answer, or has waited long enough (`controller.master.log_calls`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from controller.master.core.executor_state import ExecutorRecord
from controller.master.core.lifecycle import Lifecycle
from controller.master.core.registry import Registry
from controller.master.core.workers import Worker
from controller.runtime.base import ExecutorKey
from controller.wire.command import ExecutorPlace
from controller.wire.limits import LOGS
from stage_model.errors import BadInput, TooMuch, Unavailable
from stage_model.nearest import nearest_names


class Logs:
    """The logs of all executors. `records` are of the executors that an application has or had, as the master knows them or
    has stored them."""

    def __init__(self, registry: Registry, lifecycle: Lifecycle) -> None:
        self.registry, self.lifecycle = registry, lifecycle

    def places(self, records: Iterable[ExecutorRecord]) -> tuple[ExecutorPlace, ...]:
        """Return where the executors are, or were, in order of their starts."""
        return tuple(map(self._place, sorted(records, key=lambda record: (record.created_s, record.executor_id))))

    def place(self, application_id: str, executor_id: str, records: Iterable[ExecutorRecord]) -> ExecutorPlace:
        """Return where an executor is, or was. Raise `BadInput` for an unknown executor, and for an executor whose log
        another cluster manager has."""
        known = {record.executor_id: record for record in records}
        if executor_id not in known:
            names = nearest_names(executor_id, known)
            raise BadInput(f"executor {executor_id[:80]!r} of {application_id} is not known here; {names}")
        if known[executor_id].adopted is not None:
            raise BadInput(
                f"executor {executor_id} of {application_id} was started by another cluster manager, which has its log; "
                f"look for it there"
            )
        return self._place(known[executor_id])

    def _place(self, record: ExecutorRecord) -> ExecutorPlace:
        worker = self.registry.workers.by_id.get(record.worker_id)
        host = "" if worker is None else worker.info.host
        return ExecutorPlace(executor_id=record.executor_id, worker_id=record.worker_id, host=host, log_dir=record.log_dir)

    def want(self, key: ExecutorKey, place: ExecutorPlace) -> None:
        """Have the worker's agent send the end of a log from now on. Raise `Unavailable` where it does not; a repeated wish
        changes nothing."""
        worker = self.registry.workers.by_id.get(place.worker_id)
        if worker is None:
            raise self.unread(place, f"worker {place.worker_id} is not known here any more")
        if reason := _why_not(worker):
            raise self.unread(place, reason)
        if key.text in worker.wanted_logs:
            return
        if len(worker.wanted_logs) >= LOGS:
            raise TooMuch(f"{LOGS} logs are read from worker {place.worker_id} already; try again in a moment")
        worker.wanted_logs.add(key.text)
        self.lifecycle.wake((place.worker_id,))

    def unwant(self, key: ExecutorKey, worker_id: str) -> None:
        """End the wish for the log."""
        worker = self.registry.workers.by_id.get(worker_id)
        if worker is not None and key.text in worker.wanted_logs:
            worker.wanted_logs.discard(key.text)
            self.lifecycle.wake((worker_id,))  # a report that has it is sent again until there is another one

    def unread(self, place: ExecutorPlace, reason: str) -> Unavailable:
        """Return the error of a log that cannot be read for this reason."""
        where = f"{place.log_dir or 'the log'} on {place.host or 'its machine'}"
        return Unavailable(f"the log of executor {place.executor_id} cannot be read from here: {reason}; look at {where}")


def _why_not(worker: Worker) -> str:
    """Return the reason why a worker's agent sends no logs now; empty if it does."""
    name = worker.info.worker_id
    if worker.left:
        return f"worker {name} has left the cluster"
    if worker.silence:
        return worker.silence
    if worker.seen_s == -math.inf:
        return f"worker {name} has not reported since the master began"
    if not worker.sends_logs:
        return f"the agent of worker {name} is of an earlier release, which sends no logs; install this release there"
    return ""
