"""A start of the master: what its earlier lives have stored goes back into the core. What cannot be read is set aside and
reported in the log; the rest is restored all the same."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from controller.master.core import driver_events
from controller.master.core.application import Application
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.arrival import make_application
from controller.master.core.executor_state import Executor, ExecutorRecord
from controller.master.core.guard import Caught
from controller.master.core.hosted_driver import HostedDriver
from controller.master.core.hosting import Hosting
from controller.master.core.registry import Registry
from controller.master.profiles import look_up
from controller.master.storage.store import Store
from controller.runs.profile_store import ProfileStore
from controller.wire.worker import WorkerInfo
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput, NotStored

log = logging.getLogger("sparkpace.master")


def restore(registry: Registry, store: Store, profiles: ProfileStore, now_s: float) -> None:
    """Restore workers, applications and what is left of those that are finished."""
    infos = store.decoded_meta("workers", list[WorkerInfo], "workers count again once their agents report")
    lost = "labels given with `sparkpace label` are lost: give them again"
    labels = store.decoded_meta("labels", dict[str, dict[str, str | None]], lost)
    registry.workers.restore(infos or [], labels or {})
    for application_id, live, data in store.applications():
        with Caught() as problem:
            record = msgspec.json.decode(data, type=ApplicationRecord)
            if record.application_id != application_id:
                raise BadInput(f"the row of {application_id!r} holds the record of {record.application_id!r}")
            application = _made(record, registry, profiles, now_s) if live else None
        if problem.error is not None:
            error = str(problem.error)
            log.error("application %s cannot be read (%s), so it is forgotten; its rows are set aside", application_id, error)
            with suppress(NotStored), store.transaction():
                store.set_aside(application_id, error)
        elif application is not None:
            registry.restore(application, _executors(application, store), now_s)
        else:
            registry.remember(record)
    for application in registry.applications.values():
        driver_events.replay(application, store.events(application.id), store.snapshots(application.id), registry, now_s)
        log.info("restored %s at event %d", application.id, application.stream.acknowledged)


def restore_drivers(hosting: Hosting, store: Store) -> None:
    """Restore the hosted drivers; those of a list that cannot be read go on without the master's care."""
    lost = "drivers that workers host go on, but are not shown and not started again"
    hosting.restore(store.decoded_meta("drivers", list[HostedDriver], lost) or [])


def _made(record: ApplicationRecord, registry: Registry, profiles: ProfileStore, now_s: float) -> Application:
    same_boot = record.boot_id == registry.life.boot_id
    started_s = record.started_monotonic_s if same_boot else now_s - (time.time() - record.started_epoch_s)
    return make_application(record, look_up(record, profiles), registry.untaught, started_s, now_s, restored=True)


def _executors(application: Application, store: Store) -> Iterator[Executor]:
    for executor_id, blob in store.executors(application.id):
        try:
            yield Executor(msgspec.json.decode(blob, type=ExecutorRecord), ran=True)
        except (*UNREADABLE, TypeError) as error:
            log.error("executor %s of %s cannot be read (%s); it is set aside", executor_id, application.id, error)
            application.notify(f"the master has lost its record of executor {executor_id}, which goes on uncontrolled")
            with suppress(NotStored), store.transaction():
                store.set_executor_aside(application.id, executor_id, str(error))
