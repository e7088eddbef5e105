"""Calls of drivers and agents: what they report goes into the core, and the answer comes out.

A driver's registration and events are stored first (`core.drivers`, `core.driver_events`). The effects of an agent's report
are carried out before it is answered (`core.agents`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import structs

from controller.asks.job_options import SETTINGS
from controller.asks.job_setting import with_annotations
from controller.master.access.tokens import digest, mint
from controller.master.admitting import Admitting
from controller.master.core import agents, driver_events, drivers
from controller.master.core.arrival import check_usable, checked_id
from controller.master.core.hosting import Hosting
from controller.master.log_calls import LogCalls
from controller.master.off_loop import OffLoop
from controller.master.outside import Outside
from controller.wire.driver import DriverReply, DriverSync, Registered, Registration
from controller.wire.worker import WorkerReply, WorkerSync


class DriverCalls:
    def __init__(self, core: drivers.Drivers, hosting: Hosting, admission: Admitting, outside: Outside) -> None:
        self.core, self.hosting, self.admission, self.outside = core, hosting, admission, outside

    async def register(
        self, registration: Registration, clock: Callable[[], float], off_loop: OffLoop = asyncio.to_thread
    ) -> Registered:
        """Admit an application of a user that somebody vouches for (`vouching`). Raise `BadInput` for unusable settings,
        `Denied` for an application of another driver, `InfeasibleDeadline` when its deadline cannot be met, `NotStored`."""
        async with self.admission.promising:
            check_usable(registration)
            conf = with_annotations(registration.conf)
            # what is kept of the registration is stored
            credentials, registration = registration.credentials, structs.replace(registration, credentials=None, conf=conf)
            token = mint()
            known = self.core.known(registration, recorded=self._recorded(registration.application_id))
            if known is not None:
                now_s = clock()
                with self.outside.changing(now_s):
                    self.core.register_again(known, digest(token), credentials, now_s)
                # an answer that was lost took its notices along
                notices = () if registration.application_id else tuple(known.notices.lines)
                return Registered(
                    application_id=known.id, token=token, acknowledged=known.stream.acknowledged, notices=notices
                )
            self.hosting.check_submission(conf.get(SETTINGS["submission"].key))
            if registration.application_id is None:  # what runs already is not refused
                self.core.check_number(registration.uid)
            application = await self.admission.admit(registration, digest(token), clock, off_loop)
            application.credentials = credentials
            with self.outside.changing(clock()):
                with self.outside.recorder.begun(application.id):
                    self.outside.store_application(application.record)
                self.core.add(application)
            return Registered(application_id=application.id, token=token, notices=application.notices.take_new())

    def _recorded(self, application_id: str | None) -> bool:
        """Return True if the record of a run is written, also where the application is forgotten. Raise `BadInput` for an id
        that is not ours."""
        if not application_id or application_id in self.core.registry.applications:
            return False
        return self.outside.recorder.recorded(checked_id(application_id))

    async def sync(self, application_id: str, sync: DriverSync, clock: Callable[[], float]) -> DriverReply:
        """Take a driver's levels and events in; other tasks have their turn in between. Events are stored first and for good.
        While that cannot be, they are taken in all the same and not acknowledged."""
        now_s, registry = clock(), self.core.registry
        application = self.core.begin_sync(application_id, sync, now_s)
        for number, reported in enumerate(driver_events.parts(sync, application.run.size)):
            if number:
                await asyncio.sleep(0)
                now_s = clock()
            part = driver_events.without_refused_deadlines(application, reported, registry.shares, now_s)
            new = driver_events.unstored(application, part)
            stored = new if new is not None and self.outside.store_events(new) else None
            driver_events.take(application, part, stored, registry, now_s)
        with self.outside.changing(now_s):
            self.core.take_levels(application, sync, now_s)
        return self.core.reply(application, sync, storing=not self.outside.store.failing)


class AgentCalls:
    def __init__(self, core: agents.Agents, outside: Outside, logs: LogCalls) -> None:
        self.core, self.outside, self.logs = core, outside, logs

    def sync(self, worker_id: str, sync: WorkerSync, now_s: float) -> WorkerReply:
        """Take an agent's report in (`Agents.take`); the reply holds the desired state of its worker. Raise `Denied` for a
        report of another worker than the worker whose agent sent it."""
        with self.outside.changing(now_s):
            self.core.take(worker_id, sync, now_s)
            self.logs.take(worker_id, sync.logs or {})
        return self.core.reply(worker_id, now_s)
