"""Drivers' reports are taken in: a registration, and then the levels that they report. Their events are `driver_events`'."""

from __future__ import annotations

from msgspec import structs

from controller.master.core import attached, executors
from controller.master.core.application import Application
from controller.master.core.data_waits import locality
from controller.master.core.guard import guarded
from controller.master.core.outcome import DriverEnd, driver_end
from controller.master.core.registry import Registry
from controller.wire.driver import DriverReply, DriverSync, Locality, Registration
from controller.wire.limits import APPLICATIONS, OF_A_USER
from stage_model.errors import BadInput, Denied, TooMuch

SAME_HOST = Locality(worth=0.0, wait_ms=0)


class Drivers:
    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def known(self, registration: Registration, *, recorded: bool) -> Application | None:
        """Return the application of a bridge that registers once more, with its id, or without it because the answer to its
        first registration was lost; None for an application that is not known here. Raise `Denied` for an application of
        another driver, `BadInput` for an application that has ended, or whose record is written (`recorded`)."""
        if registration.application_id is None:
            living = (one for one in self.registry.applications.values() if not one.ended and one.uid == registration.uid)
            return next((one for one in living if one.record.registration.instance == registration.instance), None)
        application_id = registration.application_id
        application = self.registry.applications.get(application_id)
        if application is None:
            if recorded or application_id in self.registry.past:
                raise BadInput(f"application {application_id} has ended; register without its id")
            return None
        if application.record.registration.instance != registration.instance:
            raise Denied(f"application {application_id} is another driver's; register without its id")
        return application

    def register_again(self, application: Application, token_hash: str, credentials: bytes | None, now_s: float) -> None:
        """Take a bridge in that registers its application once more; it gets a new token."""
        application.record.token_hash, application.credentials = token_hash, credentials
        application.heard_s = now_s
        self.registry.changes.application(application)
        self.registry.save(application)

    def add(self, application: Application) -> None:
        """Take in an application whose record is stored, with the executors that agents have reported of it."""
        self.registry.add(application)
        deadline_s = application.options.deadline_s
        self.registry.changes.log(f"{application.id} registered: {application.name}, deadline {deadline_s}")
        for worker in self.registry.workers.by_id.values():
            for report in worker.reports:
                if report.application_id == application.id:
                    with guarded(application, "taking over an executor"):
                        executors.take_over(application, worker.info, report, self.registry)

    def check_number(self, uid: int) -> None:
        """Raise `TooMuch` where the most applications allowed run or wait already."""
        live = [one.uid for one in self.registry.applications.values() if not one.ended]
        for number, most, whose in ((len(live), APPLICATIONS, ""), (live.count(uid), OF_A_USER, f" of uid {uid}")):
            if number >= most:
                raise TooMuch(f"{number} applications{whose} run or wait here, the most allowed; retry when one has ended")

    def begin_sync(self, application_id: str, sync: DriverSync, now_s: float) -> Application:
        """Return the application that a driver reports of, before its events are taken in. Raise `BadInput` for an unknown
        one."""
        application = self.registry.known(application_id)
        application.heard_s = now_s
        self._take_clock(application, sync, now_s)
        return application

    def _take_clock(self, application: Application, sync: DriverSync, now_s: float) -> None:
        """Take in the time of submission by the driver's clock. The time that a message needs on its way makes its sender
        look younger, so the earliest time of submission is the best. After a restart of this machine, the new time counts:
        only the wall clock measured the restart."""
        if sync.steady_ms is None:
            return
        started_s = now_s - application.since_submission(sync.steady_ms)
        restarted = application.record.boot_id != self.registry.life.boot_id
        started_s = started_s if restarted else min(application.started_s, started_s)
        if started_s != application.started_s:
            application.started_s = started_s
            self.registry.changes.order(application)

    def take_levels(self, application: Application, sync: DriverSync, now_s: float) -> None:
        """Take in the facts that the driver repeats in full each time."""
        record, changes = application.record, self.registry.changes
        killed = application.executors.keys() & set(sync.killed)
        if application.placement.wanted != sync.wanted or not killed <= application.placement.unwanted:
            application.placement.wanted = dict(sync.wanted)
            application.placement.unwanted |= killed
            changes.application(application)
        if sync.instance != application.instance:
            application.instance = sync.instance
            changes.application(application)
        if sync.ports and sync.ports != record.registration.ports:
            record.registration = structs.replace(record.registration, ports=sync.ports)
            changes.application(application)
            self.registry.save(application)
        if sync.serves is not None and sync.serves != record.serves and not application.ended:
            self._take_service(application, sync.serves)
        if sync.credentials and application.lacks_credentials:
            application.credentials = sync.credentials
            changes.application(application)
        if sync.driver_end and record.driver_end in (None, DriverEnd.TO_COME):
            record.driver_end = driver_end(sync.driver_end)
            self.registry.save(application)
        application.life.farewell = application.life.farewell or sync.ended
        if sync.ended and not application.ended:
            self.registry.end(application, now_s)
        if application.attached:
            attached.take_executors(application, sync, self.registry, now_s)

    def _take_service(self, application: Application, port: int) -> None:
        """Take in that the driver serves others at that port of its host."""
        application.record.serves = port
        if not application.served:
            host = application.record.registration.host
            application.notify(
                f"its address cannot be given to jobs that come after it, because its host is {host[:80]!r}; set "
                "spark.driver.host to a name or an address of this machine"
            )
        self.registry.changes.application(application)
        self.registry.save(application)

    def reply(self, application: Application, sync: DriverSync, *, storing: bool) -> DriverReply:
        """Return the answer to a report that was taken in and followed up. `storing` False: nothing can be stored now, so the
        driver must send again the events that were taken in."""
        stops = application.record.cut_off is not None and not application.succeeded and not sync.ended
        ends = tuple(e.record.gone for e in application.executors.values() if e.record.gone is not None)
        near, starved = None, dict[str, int]()
        with guarded(application, "planning its waits for data"):
            near = None if application.attached else SAME_HOST if self._on_one_host(application) else locality(application)
        with guarded(application, "finding its starved executors"):
            starved = application.starved()
        return DriverReply(
            acknowledged=application.stream.acknowledged,
            taken=None if storing else application.stream.taken,
            gone=() if application.attached else ends,
            stop=application.record.end_reason if stops else None,
            notices=application.notices.take_new(),
            locality=near,
            lacks_credentials=application.lacks_credentials,
            starved=starved,
        )

    def _on_one_host(self, application: Application) -> bool:
        """Return True if the application's executors have addresses of their own on one host: then Spark takes each for a
        host, and would have tasks wait for the executor that has their data, though none is farther from it."""
        on = {executor.record.worker_id for executor in application.live_executors()}
        return any(worker.info.own_networks for name, worker in self.registry.workers.by_id.items() if name in on)

    def token_hash(self, application_id: str) -> str | None:
        """Return the hash of the application's token; None for an application that is not known here."""
        application = self.registry.applications.get(application_id)
        return application.record.token_hash if application else None
