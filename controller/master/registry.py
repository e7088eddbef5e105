"""The master's workers and applications: in memory, and in the store whatever must survive a restart.

A new application and an option changed by the user are stored before they count, events as they come (`driver_events`). What
follows from them is stored before the message is answered, all at once (`Store.later`), counters of live executors now and
then. What cannot be read at a start is set aside and reported in the log; the rest is restored all the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice

import msgspec
from msgspec import structs

from controller.machine.proc import boot_id
from controller.master import planning
from controller.master.application import Application, ApplicationRecord, Resident, skip_unknown_ids
from controller.master.changes import Changes
from controller.master.dependencies import KnownJobs, Past, WaitingJob, past_of
from controller.master.executor_state import Executor, ExecutorRecord
from controller.master.findings import basis_of, lateness_of
from controller.master.from_record import make_application
from controller.master.guard import Caught, guarded
from controller.master.outcome import REASONS, judge
from controller.master.storage.store import Store
from controller.master.tally import Tally
from controller.master.workers import Workers
from controller.runs.profile_store import ProfileStore
from controller.wire.basis import Untaught
from controller.wire.states import Outcome
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput, NotStored
from stage_model.forecast.promises import Claim, Promised

log = logging.getLogger("sparkpace.master")

SAVE_S = 10.0
"""Time after which the counters of live executors are stored again."""
MOST_SAVED = 50
"""Applications of which counters are stored in one pass."""
AT_A_TIME = 32
"""Applications looked at before other tasks have their turn: a few milliseconds."""


class Registry:
    """All workers and applications. Those of an earlier life of the master are restored at once."""

    def __init__(self, store: Store, profiles: ProfileStore, now_s: float) -> None:
        self.store, self.profiles, self.begun_s = store, profiles, now_s
        self.workers = Workers(store, now_s)
        self.applications: dict[str, Application] = {}
        self.tally = Tally()
        self.promising = asyncio.Lock()
        """A lock that is held while a deadline is judged alongside the promises, until it is one of them or is refused."""
        self.replaced = False
        """True if the store's log holds what is not needed any more, and what may be secret."""
        self.past: dict[str, Past] = {}
        """Remains of the applications that ended, in order of submission."""
        self.waiting: dict[str, WaitingJob] = {}
        """Submissions whose drivers are still to start (`submissions`)."""
        self.jobs = KnownJobs(self.applications, self.past, self.waiting, now_s)
        self.untaught: dict[str, tuple[str, Untaught]] = {}
        """The last run by the key of its profile, and why it taught nothing; without those whose last run taught."""
        self._on: dict[str, list[Resident]] = defaultdict(list)
        self.changes = Changes()
        for application_id, live, data in store.applications():
            with Caught() as problem:
                record = msgspec.json.decode(data, type=ApplicationRecord)
                if record.application_id != application_id:
                    raise BadInput(f"the row of {application_id!r} holds the record of {record.application_id!r}")
                application = self._made(record, now_s) if live else None
            if problem.error is not None:
                self._lost(application_id, problem.error)
            elif application is not None:
                self._restore(application, now_s)
            else:
                self.past[application_id] = past_of(record)
                self._note_lesson(record)

    def known(self, application_id: str) -> Application:
        """Return the application. Raise `BadInput` for an unknown one."""
        application = self.applications.get(application_id)
        if application_id in self.waiting:
            raise BadInput(f"the driver of {application_id!r} has not started; try again once it has")
        if application is None:
            raise BadInput(f"application {application_id!r} is not known here; `sparkpace ps` shows the ids")
        return application

    def place(self, application: Application, executor: Executor) -> None:
        application.executors[executor.record.executor_id] = executor
        self._on[executor.record.worker_id].append((application, executor))
        self.changes.executor(application, executor)

    def on(self, worker_id: str) -> Sequence[Resident]:
        """Return the executors that were ever placed on a worker, of all applications that are still known."""
        return self._on.get(worker_id, ())

    async def promised(self, now_s: float, but: str = "", *, attached: bool = False) -> Promised:
        """Return what the running applications, but one, were promised: those that share workers with an application that is
        `attached`, or is not. Other tasks have their turn in between."""
        claims: list[Claim] = []
        for number, other in enumerate(list(self.applications.values()), 1):
            if number % AT_A_TIME == 0:
                await asyncio.sleep(0)
            if other.id != but and other.attached == attached:
                with guarded(other, "working out what it was promised"):
                    claims += planning.promises(other, self.workers.capacity(other, now_s), now_s)
        cores = sum(info.cores for info in self.workers.expected(now_s, adopts=attached))
        return Promised(claims, cores)

    # ------------------------------------------------------------------ storing

    def add(self, application: Application) -> None:
        """Take an application in. Raise `NotStored`; then the application is not known here."""
        self.keep(application.record)
        self.applications[application.id] = application
        self.waiting.pop(application.options.waited or "", None)
        self.changes.application(application)

    def keep(self, record: ApplicationRecord) -> None:
        """Store the record of an application that is not finished, before what is new in it counts. Raise `NotStored`."""
        with self.store.transaction():
            self.store.put_application(record.application_id, True, msgspec.json.encode(record))

    def end(
        self,
        application: Application,
        now_s: float,
        cut_off: Outcome | None = None,
        why: str = "",
        ended_s: float | None = None,
    ) -> None:
        """End the application, `ended_s` after submission (None: now). `cut_off` says how it was ended (None: it ended by
        itself); `why` is the reason for people, where `REASONS` has none. An application that has ended stays as it is."""
        if application.ended:
            return
        application.record.ended_s = round(application.elapsed_s(now_s) if ended_s is None else ended_s, 3)
        application.record.cut_off = cut_off
        application.record.end_reason = why or (REASONS.get(cut_off, "") if cut_off else "")
        application.ended_monotonic_s = now_s
        application.credentials = None
        self.changes.application(application)
        with guarded(application, "saying what it was planned from"):
            application.record.basis = basis_of(application)
        log.info("%s ended after %.1f s %s", application.id, application.record.ended_s, application.record.end_reason)
        if cut_off in (Outcome.KILLED, Outcome.STOPPED):  # no report of its driver changes that
            self.settle(application, now_s)
        self.save(application)

    def settle(self, application: Application, now_s: float) -> None:
        """Decide for good the outcome of an application that has ended, from what is known now."""
        outcome, why = judge(application.evidence())
        application.record.outcome = outcome
        application.record.end_reason = why or ("" if outcome is Outcome.SUCCEEDED else application.record.end_reason)
        with guarded(application, "saying why it is late"):
            application.record.lateness = lateness_of(application, self.workers.capacity(application, now_s))
        self.tally.take(application, outcome)
        log.info("%s: outcome %s %s", application.id, outcome, application.record.end_reason)
        self.save(application)

    def save(self, application: Application) -> None:
        self.store.later(application.id, lambda: self._put_application(application))

    def _put_application(self, application: Application) -> None:
        data = b""
        with guarded(application, "storing it"):
            data = _stored_form(application.record)
        if data and self.applications.get(application.id) is application:  # else it is forgotten
            self.store.put_application(application.id, not application.finished, data)

    def save_executor(self, application: Application, executor: Executor) -> None:
        """Store an executor that has changed."""
        self.changes.executor(application, executor)
        self._save_executor(application, executor)

    def _save_executor(self, application: Application, executor: Executor) -> None:
        self.store.later((application.id, executor.record.executor_id), lambda: self._put_executor(application, executor))

    def _put_executor(self, application: Application, executor: Executor) -> None:
        data = b""
        with guarded(application, "storing an executor"):
            data = _stored_form(executor.record)
        if data and self.applications.get(application.id) is application:
            self.store.put_executor(application.id, executor.record.executor_id, data)

    def save_counters(self, now_s: float) -> None:
        """Store the counters of live executors that are due, of at most `MOST_SAVED` applications, so that a pass is
        short."""
        for application in islice((one for one in self.applications.values() if now_s - one.counted_s > SAVE_S), MOST_SAVED):
            application.counted_s = now_s
            for executor in application.live_executors():
                self._save_executor(application, executor)

    def finished(self, application: Application, removed: Iterable[str]) -> None:
        """Drop the details of an application whose record is written, and the applications whose run folders were `removed`.
        Raise `NotStored`; then nothing has changed."""
        # the executors' environment may hold secrets of the user's, and is not needed any more
        application.record.registration = structs.replace(application.record.registration, environment={})
        for executor in application.executors.values():
            if executor.record.spec is not None:
                executor.record.spec = structs.replace(executor.record.spec, environment={})
        application.finished = True
        try:
            with self.store.transaction():
                self._put_application(application)
                for executor in application.executors.values():
                    self._put_executor(application, executor)
                self.store.drop_details(application.id)
                for old in removed:
                    self.store.forget(old)
        except BaseException:
            application.finished = False
            raise
        self._note_lesson(application.record)
        self.replaced = True
        for old in removed:
            self._forget(old)

    def _note_lesson(self, record: ApplicationRecord) -> None:
        if record.untaught is None:
            self.untaught.pop(record.profile_key, None)
        else:
            self.untaught[record.profile_key] = (record.application_id, record.untaught)

    def _forget(self, application_id: str) -> None:
        for key in [key for key, (last_id, _) in self.untaught.items() if last_id == application_id]:
            del self.untaught[key]
        application = self.applications.pop(application_id, None)
        if application is not None:
            self.past[application_id] = past_of(application.record)
        for worker_id in {e.record.worker_id for e in application.executors.values()} if application else ():
            self._on[worker_id] = [placed for placed in self._on[worker_id] if placed[0] is not application]
            self.changes.worker(worker_id)

    # ------------------------------------------------------------------ restart

    def _made(self, record: ApplicationRecord, now_s: float) -> Application:
        same_boot = record.boot_id == boot_id()
        started_s = record.started_monotonic_s if same_boot else now_s - (time.time() - record.started_epoch_s)
        return make_application(record, started_s, self.profiles, self.untaught, now_s, restored=True)

    def _restore(self, application: Application, now_s: float) -> None:
        """Restore an application of an earlier life of the master; the reports of its driver are `driver_events.replay`'s."""
        if application.ended:
            application.ended_monotonic_s = now_s
        # a worker may show an executor only later that was placed while nothing could be stored (`executors.adopt`)
        application.record.next_executor = skip_unknown_ids(application.record.next_executor)
        self.applications[application.id] = application
        self.changes.application(application)
        for executor_id, blob in self.store.executors(application.id):
            try:
                self.place(application, Executor(msgspec.json.decode(blob, type=ExecutorRecord), ran=True))
            except (*UNREADABLE, TypeError) as error:
                log.error("executor %s of %s cannot be read (%s); it is set aside", executor_id, application.id, error)
                application.notify(f"the master has lost what it knew of executor {executor_id}: it goes on uncontrolled")
                with suppress(NotStored), self.store.transaction():
                    self.store.set_executor_aside(application.id, executor_id, str(error))

    def _lost(self, application_id: str, error: Exception) -> None:
        log.error("application %s cannot be read (%s), so it is forgotten; its rows are set aside", application_id, error)
        with suppress(NotStored), self.store.transaction():
            self.store.set_aside(application_id, str(error))


def _stored_form(record: ApplicationRecord | ExecutorRecord) -> bytes:
    return msgspec.json.encode(record)
