"""The world outside of the master's core: its shell feeds the core with what happens, and carries out the effects.

What counts once it is stored is stored first (`store_application`, `store_labels`, `store_driver`, `store_events`). What
counts already is stored with the effects; a full disk only puts that off, and control goes on from memory.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec

from controller.master.core.application import Application
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.changes import Changes
from controller.master.core.core import Core
from controller.master.core.effects import (
    DropDetails,
    Effect,
    Level,
    Log,
    StoreApplication,
    StoreEvents,
    StoreMeta,
    Storing,
    Wake,
    WriteRecord,
    WriteSamples,
)
from controller.master.core.executor_state import Executor, ExecutorRecord
from controller.master.core.guard import Caught, guarded
from controller.master.core.hosted_driver import HostedDriver
from controller.master.core.workers import Labels
from controller.master.providing import Providing
from controller.master.recording import Recording
from controller.master.storage.store import Store
from controller.wire.limits import SAMPLES_BYTES
from placement.growth import EndWorker, StartWorker
from stage_model.errors import NotStored

log = logging.getLogger("sparkpace.master")

LEVELS: dict[Level, int] = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Outside:
    """The carrier of effects. `wake` is called with the ids of workers whose agents should look again."""

    def __init__(self, core: Core, store: Store, recording: Recording, wake: Callable[[Collection[str]], None]) -> None:
        self.core, self.registry, self.store = core, core.registry, store
        self.recording, self.recorder, self._wake = recording, recording.recorder, wake
        self.providing: Providing | None = None
        self.replaced = False
        """True if the store's log holds what is not needed any more, and what may be secret."""

    # ------------------------------------------------------------------ effects

    @contextmanager
    def changing(self, now_s: float) -> Iterator[Changes]:
        """Run a block that feeds the core. Then let the core follow the changes up, and carry the effects out. After an
        exception the next block's end does it."""
        yield self.registry.changes
        self.carry_out(self.core.follow_up(now_s), now_s)

    def carry_out(self, effects: Iterable[Effect], now_s: float) -> None:
        """Carry effects out, and those that follow. What must survive a restart is stored before anything is begun."""
        effects = list(effects)
        while effects:
            others = []
            for effect in effects:
                if isinstance(effect, Storing):
                    self.store.later(effect, partial(self._put, effect))
                else:
                    others.append(effect)
            self.store.catch_up()
            for effect in others:
                with Caught() as problem:
                    self._do(effect, now_s)
                if problem.error is not None:  # the other effects are carried out all the same
                    log.error("%s could not be carried out", type(effect).__name__, exc_info=problem.error)
            effects = self.core.take_effects()

    def _do(self, effect: Effect, now_s: float) -> None:
        match effect:
            case Log(level, line, error):
                log.log(LEVELS[level], "%s", line, exc_info=error)
            case Wake(worker_ids):
                self._wake(worker_ids)
            case WriteSamples():
                self._write_samples(effect)
            case WriteRecord(ending):
                with Caught() as problem:
                    self.recording.begin(ending)
                if problem.error is not None:
                    application = self.registry.applications[ending.application_id]
                    self.core.lifecycle.records.failed(application, problem.error, now_s)
            case DropDetails():
                self._drop_details(effect, now_s)
            case StartWorker() | EndWorker():
                assert self.providing is not None
                self.providing.begin(effect)

    def _write_samples(self, effect: WriteSamples) -> None:
        application = self.registry.applications.get(effect.application_id)
        if application is None:
            return
        with guarded(application, "writing its samples"):
            if not self.recorder.add(application.id, effect.samples):
                application.notify(f"its samples are over {SAMPLES_BYTES} bytes: further ones are not recorded")

    def _drop_details(self, effect: DropDetails, now_s: float) -> None:
        application, records = self.registry.applications[effect.application_id], self.core.lifecycle.records
        application.record.drop_environment()
        for executor in application.executors.values():
            executor.record.drop_environment()
        with Caught() as problem, self.store.transaction():
            self._put_application(application, live=False)
            for executor in application.executors.values():
                self._put_executor(application, executor)
            self.store.drop_details(application.id)
            for old in effect.removed:
                self.store.forget(old)
        if problem.error is not None:
            records.failed(application, problem.error, now_s, passes=True)
        else:
            self.registry.finished(application, effect.removed)
            records.over(application)
            self.replaced = True

    # ------------------------------------------------------------------ the store

    def store_application(self, record: ApplicationRecord) -> None:
        """Store the record of an application that is not finished, before what is new in it counts. Raise `NotStored`."""
        with self.store.transaction():
            self.store.put_application(record.application_id, True, msgspec.json.encode(record))

    def store_labels(self, labels: Labels) -> None:
        """Store labels before they count. Raise `NotStored`."""
        with self.store.transaction():
            self.store.set_meta("labels", msgspec.json.encode(labels).decode())

    def store_driver(self, driver: HostedDriver) -> None:
        """Store a new hosted driver before it counts. Raise `NotStored`."""
        with self.store.transaction():
            self.store.set_meta("drivers", msgspec.json.encode([*self.core.hosting.drivers.values(), driver]).decode())

    def store_events(self, new: StoreEvents) -> bool:
        """Store what a driver reports; return False where that cannot be: the driver sends it once more."""
        try:
            with self.store.attempt():
                if new.snapshot is not None:
                    data = msgspec.json.encode(new.snapshot)
                    self.store.add_snapshot(new.application_id, new.behind, new.next_seq, data)
                self.store.add_events(new.application_id, ((e.seq, bytes(e.event)) for e in new.events))
        except NotStored:
            return False
        return True

    def _put(self, effect: Storing) -> None:
        """Write the newest state; nothing of an application that is forgotten."""
        if isinstance(effect, StoreMeta):
            self.store.set_meta(effect.what, msgspec.json.encode(self._meta(effect)).decode())
            return
        application = self.registry.applications.get(effect.application_id)
        if application is None:
            return
        if isinstance(effect, StoreApplication):
            self._put_application(application, live=not application.finished)
        else:
            self._put_executor(application, application.executors[effect.executor_id])

    def _meta(self, effect: StoreMeta) -> object:
        if effect.what == "workers":
            return [worker.info for worker in self.registry.workers.by_id.values()]
        if effect.what == "labels":
            return self.registry.workers.labels
        if effect.what == "drivers":
            self.replaced = True
            return list(self.core.hosting.drivers.values())
        if self.providing is None:
            return ()
        growth = self.providing.core.growth
        return growth.start_s if effect.what == "worker_start_s" else self.providing.stored_form()

    def _put_application(self, application: Application, *, live: bool) -> None:
        data = b""
        with guarded(application, "storing it"):
            data = _stored_form(application.record)
        if data:
            self.store.put_application(application.id, live, data)

    def _put_executor(self, application: Application, executor: Executor) -> None:
        data = b""
        with guarded(application, "storing an executor"):
            data = _stored_form(executor.record)
        if data:
            self.store.put_executor(application.id, executor.record.executor_id, data)


def _stored_form(record: ApplicationRecord | ExecutorRecord) -> bytes:
    return msgspec.json.encode(record)
