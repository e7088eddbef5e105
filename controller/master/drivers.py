"""Drivers' messages are answered: a registration, and then the levels and events that they report (`driver_events`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec import structs

from controller.machine.proc import boot_id
from controller.master import attached, driver_events, executors
from controller.master.access.tokens import digest, mint
from controller.master.admission import Admission, check_usable, checked_id
from controller.master.application import Application
from controller.master.changes import Changes
from controller.master.guard import guarded
from controller.master.lifecycle import Lifecycle
from controller.master.locality import locality
from controller.master.off_loop import OffLoop
from controller.master.outcome import DriverEnd, driver_end
from controller.master.registry import Registry
from controller.master.storage.recorder import Recorder
from controller.wire.driver import DriverReply, DriverSync, Locality, Registered, Registration
from controller.wire.limits import APPLICATIONS, OF_A_USER
from stage_model.errors import BadInput, Denied, TooMuch

log = logging.getLogger("sparkpace.master")

SAME_HOST = Locality(worth=0.0, wait_ms=0)


class Drivers:
    def __init__(self, registry: Registry, lifecycle: Lifecycle, admission: Admission, recorder: Recorder) -> None:
        self.registry, self.lifecycle, self.admission, self.recorder = registry, lifecycle, admission, recorder

    async def register(
        self, registration: Registration, clock: Callable[[], float], off_loop: OffLoop = asyncio.to_thread
    ) -> Registered:
        """Admit an application of a user that somebody vouches for (`vouching`). Raise `BadInput` for unusable settings,
        `Denied` for an application of another driver, `InfeasibleDeadline` when its deadline cannot be met, `NotStored`."""
        async with self.registry.promising:
            check_usable(registration)
            # what is kept of the registration is stored
            credentials, registration = registration.credentials, structs.replace(registration, credentials=None)
            known = self._again(registration, credentials, clock())
            if known:
                return known
            if registration.application_id is None:  # what runs already is not refused
                self._check_number(registration.uid)
            token = mint()
            application = await self.admission.admit(registration, digest(token), clock, off_loop)
            application.credentials = credentials
            with self.lifecycle.changing(clock()):
                with self.recorder.begun(application.id):
                    self.registry.add(application)
                log.info("%s registered: %s, deadline %s", application.id, application.name, application.options.deadline_s)
                for worker in self.registry.workers.by_id.values():
                    for report in worker.reports:
                        if report.application_id == application.id:
                            with guarded(application, "taking over an executor"):
                                executors.adopt(application, worker.info, report, self.registry)
            return Registered(application_id=application.id, token=token, notices=self._new_notices(application))

    def _check_number(self, uid: int) -> None:
        """Raise `TooMuch` where as many applications run or wait as may."""
        live = [one.record.registration.uid for one in self.registry.applications.values() if not one.ended]
        for number, most, whose in ((len(live), APPLICATIONS, ""), (live.count(uid), OF_A_USER, f" of uid {uid}")):
            if number >= most:
                raise TooMuch(f"{number} applications{whose} run or wait here, the most allowed; retry when one has ended")

    def _again(self, registration: Registration, credentials: bytes | None, now_s: float) -> Registered | None:
        """Return a new token to a bridge that registers its application once more; None for an application that is not known
        here. Raise `Denied` for an application of another driver, `BadInput` for an ended application."""
        application_id = registration.application_id or ""
        application = self.registry.applications.get(application_id)
        if application is None:
            if application_id in self.registry.past or (
                application_id and self.recorder.recorded(checked_id(application_id))
            ):
                raise BadInput(f"application {application_id} has ended; register without its id")
            return None
        if application.record.registration.instance != registration.instance:
            raise Denied(f"application {application_id} is another driver's; register without its id")
        token = mint()
        with self.lifecycle.changing(now_s) as changes:
            application.record.token_hash = digest(token)
            application.heard_s = now_s
            application.credentials = credentials
            changes.application(application)
            self.registry.save(application)
        return Registered(application_id=application.id, token=token, acknowledged=application.acknowledged)

    async def sync(self, application_id: str, sync: DriverSync, clock: Callable[[], float]) -> DriverReply:
        """Take a driver's levels and events in; other tasks have their turn in between."""
        now_s = clock()
        application = self.registry.known(application_id)
        application.heard_s = now_s
        self._take_clock(application, sync, now_s)
        for number, part in enumerate(driver_events.parts(sync, application.run.size)):
            if number:
                await asyncio.sleep(0)
                now_s = clock()
            driver_events.take(application, part, self.registry, now_s)
        with self.lifecycle.changing(now_s) as changes:
            self._take_levels(application, sync, changes, now_s)
        stops = application.record.cut_off is not None and not application.succeeded and not sync.ended
        near, starved = None, dict[str, int]()
        with guarded(application, "planning its waits for data"):
            near = None if application.attached else SAME_HOST if self._on_one_host(application) else locality(application)
        with guarded(application, "finding its starved executors"):
            starved = application.starved()
        return DriverReply(
            acknowledged=application.acknowledged,
            taken=application.taken if self.registry.store.failing else None,
            gone=() if application.attached else application.gone(),
            stop=application.record.end_reason if stops else None,
            notices=self._new_notices(application),
            locality=near,
            lacks_credentials=application.lacks_credentials,
            starved=starved,
        )

    def _take_clock(self, application: Application, sync: DriverSync, now_s: float) -> None:
        """Take in when the driver's clock says that the application was submitted. What a message takes on its way makes its
        sender look younger, so the oldest look is the best. A restart of this machine takes a time that only its wall clock
        would tell."""
        if sync.steady_ms is None:
            return
        started_s = now_s - application.since_submission(sync.steady_ms)
        restarted = application.record.boot_id != boot_id()
        started_s = started_s if restarted else min(application.started_s, started_s)
        if started_s != application.started_s:
            application.started_s = started_s
            self.registry.changes.order(application)

    def _take_levels(self, application: Application, sync: DriverSync, changes: Changes, now_s: float) -> None:
        """Take in what the driver says whole each time."""
        record = application.record
        killed = application.executors.keys() & set(sync.killed)
        if application.wanted != sync.wanted or not killed <= application.unwanted:
            application.wanted = dict(sync.wanted)
            application.unwanted |= killed
            changes.application(application)
        if sync.instance != application.instance:
            application.instance = sync.instance
            changes.application(application)
        if sync.ports and sync.ports != record.registration.ports:
            record.registration = structs.replace(record.registration, ports=sync.ports)
            changes.application(application)
            self.registry.save(application)
        if sync.credentials and application.lacks_credentials:
            application.credentials = sync.credentials
            changes.application(application)
        if sync.driver_end and record.driver_end in (None, DriverEnd.TO_COME):
            record.driver_end = driver_end(sync.driver_end)
            self.registry.save(application)
        application.farewell = application.farewell or sync.ended
        if sync.ended and not application.ended:
            self.registry.end(application, now_s)
        if application.attached:
            attached.take_executors(application, sync, self.registry, now_s)

    def _on_one_host(self, application: Application) -> bool:
        """Return True if the application's executors have addresses of their own on one host: then Spark takes each for a
        host, and would have tasks wait for the executor that has their data, though none is farther from it."""
        on = {executor.record.worker_id for executor in application.live_executors()}
        return any(worker.info.own_networks for name, worker in self.registry.workers.by_id.items() if name in on)

    def token_hash(self, application_id: str) -> str | None:
        """Return the hash of the application's token; None for an application that is not known here."""
        application = self.registry.applications.get(application_id)
        return application.record.token_hash if application else None

    def _new_notices(self, application: Application) -> tuple[str, ...]:
        new = tuple(application.notices[application.noticed :])
        application.noticed = len(application.notices)
        return new
