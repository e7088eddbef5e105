"""The master's workers and applications. What must survive a restart is noted as an effect whenever it changes; counters of
live executors are stored now and then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from controller.asks.user_limits import UserLimits
from controller.master.core.application import Application, Resident
from controller.master.core.application_record import ApplicationRecord, skip_unknown_ids
from controller.master.core.changes import Changes
from controller.master.core.dependencies import KnownJobs, Past, WaitingJob, past_of
from controller.master.core.effects import StoreApplication, StoreExecutor
from controller.master.core.executor_state import Executor
from controller.master.core.findings import basis_of, lateness_of
from controller.master.core.guard import guarded
from controller.master.core.life import LifeState
from controller.master.core.outcome import REASONS, SERVERS, Tally, judge
from controller.master.core.shares import UserShares
from controller.master.core.workers import Workers
from controller.wire.basis import Untaught
from controller.wire.states import Outcome
from stage_model.errors import BadInput

SAVE_S = 10.0
"""Time after which the counters of live executors are stored again."""
MOST_SAVED = 50
"""Applications of which counters are stored in one pass."""
AT_A_TIME = 32
"""Applications looked at before other tasks have their turn: a few milliseconds."""


@dataclass(frozen=True, slots=True)
class MasterLife:
    """A life of the master, which began at `begun_s` (monotonic seconds): the cluster's id and the life's number, which
    agents obey, the boot of its machine, and the namespace of the process numbers that it sees."""

    cluster_id: str
    generation: int
    boot_id: str
    pid_namespace: str
    begun_s: float

    def sees(self, record: ApplicationRecord) -> bool:
        """Return True if the process of the application's driver can be seen from here: it is on this host, in a pid
        namespace that shows here."""
        driver = record.registration.process
        return driver.boot_id == record.boot_id and driver.pid_namespace in ("", self.pid_namespace)


class Registry:
    """All workers and applications, and their changes; `limits` are those of users."""

    def __init__(self, life: MasterLife, limits: Sequence[UserLimits] = ()) -> None:
        self.life = life
        self.listening_s = life.begun_s
        """Time since when the master has listened: it has not stood still since (`silence`)."""
        self.changes = Changes()
        self.workers = Workers(self.changes, life.begun_s)
        self.applications: dict[str, Application] = {}
        self.shares = UserShares(limits, self.applications, self.workers, self.changes)
        self.tally = Tally()
        self.past: dict[str, Past] = {}
        """Kept facts of the applications that ended, in order of submission."""
        self.waiting: dict[str, WaitingJob] = {}
        """Submissions whose drivers are still to start (`submissions`)."""
        self.jobs = KnownJobs(self.applications, self.past, self.waiting, life.begun_s)
        self.untaught: dict[str, tuple[str, Untaught]] = {}
        """The last run by the key of its profile, and why it taught nothing; profiles whose last run taught have no entry."""
        self.submitted: dict[str, float] = {}
        """The time of the last submission by the key of its profile, in seconds since the epoch."""
        self._on: dict[str, list[Resident]] = {}

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
        if executor.ran:
            application.life.run()
        self._on.setdefault(executor.record.worker_id, []).append((application, executor))
        self.changes.executor(application, executor)

    def on(self, worker_id: str) -> Sequence[Resident]:
        """Return the executors that were ever placed on a worker, of all applications that are still known."""
        return self._on.get(worker_id, ())

    # ------------------------------------------------------------------ changes

    def add(self, application: Application) -> None:
        """Take in an application whose record is stored."""
        self.applications[application.id] = application
        self._note_submission(application.record)
        self.waiting.pop(application.options.waited or "", None)
        self.changes.application(application)

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
        ended_s = round(application.elapsed_s(now_s) if ended_s is None else ended_s, 3)
        application.life.move(LifeState.ENDED)
        application.record.ended_s = ended_s
        application.record.cut_off = cut_off
        application.record.end_reason = why or (REASONS.get(cut_off, "") if cut_off else "")
        application.life.ended_monotonic_s = now_s
        application.credentials = None
        self.changes.application(application)
        with guarded(application, "saying what it was planned from"):
            application.record.basis = basis_of(application)
        because = f": {application.record.end_reason}" if application.record.end_reason else ""
        self.changes.log(f"{application.id} ended after {ended_s:.1f} s{because}")
        if cut_off in (Outcome.KILLED, Outcome.STOPPED):  # no report of its driver changes that
            self.settle(application, now_s)
        self.save(application)

    def settle(self, application: Application, now_s: float) -> None:
        """Decide for good the outcome of an application that has ended, from what is known now."""
        record, server = application.record, application.record.registration.main in SERVERS
        well = application.run.seems_well
        outcome, why = judge(record.cut_off, record.exit_code, record.driver_end, server=server, seems_well=well)
        application.life.move(LifeState.JUDGED)
        record.outcome, record.end_reason = outcome, why or ("" if outcome is Outcome.SUCCEEDED else record.end_reason)
        with guarded(application, "saying why it is late"):
            record.lateness = lateness_of(application, self.workers.capacity(application, now_s))
        self.tally.take(outcome, record.ended_s or 0.0, application.options.deadline_s)
        self.changes.log(f"{application.id}: outcome {outcome}" + (f" ({record.end_reason})" if record.end_reason else ""))
        self.save(application)

    def save(self, application: Application) -> None:
        self.changes.effect(StoreApplication(application.id))

    def save_executor(self, application: Application, executor: Executor) -> None:
        self.changes.executor(application, executor)
        self.changes.effect(StoreExecutor(application.id, executor.record.executor_id))

    def save_counters(self, now_s: float) -> None:
        """Store the counters of live executors that are due, of at most `MOST_SAVED` applications, so that a pass is
        short."""
        due = [one for one in self.applications.values() if now_s - one.counted_s > SAVE_S]
        for application in due[:MOST_SAVED]:
            application.counted_s = now_s
            for executor in application.live_executors():
                self.changes.effect(StoreExecutor(application.id, executor.record.executor_id))

    def finished(self, application: Application, removed: Iterable[str]) -> None:
        """Take in that the details of an application whose record is written are dropped, and the applications whose run
        folders were `removed`."""
        application.life.move(LifeState.FINISHED)
        application.readings.clear()
        self._note_lesson(application.record)
        for old in removed:
            self._forget(old)

    def _note_submission(self, record: ApplicationRecord) -> None:
        before = self.submitted.get(record.profile_key, 0.0)
        self.submitted[record.profile_key] = max(before, record.started_epoch_s)

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
            self._on[worker_id] = [placed for placed in self.on(worker_id) if placed[0] is not application]
            self.changes.worker(worker_id)

    # ------------------------------------------------------------------ restart

    def remember(self, record: ApplicationRecord) -> None:
        """Take in an application that an earlier life of the master has finished."""
        self.past[record.application_id] = past_of(record)
        self._note_submission(record)
        self._note_lesson(record)

    def restore(self, application: Application, executors: Iterable[Executor], now_s: float) -> None:
        """Take in an application of an earlier life of the master; the reports of its driver are `driver_events.replay`'s."""
        if application.ended:
            application.life.ended_monotonic_s = now_s
        # a worker may show an executor only later that was placed while nothing could be stored (`executors.take_over`)
        application.record.next_executor = skip_unknown_ids(application.record.next_executor)
        self.add(application)
        for executor in executors:
            self.place(application, executor)
