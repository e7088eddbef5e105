"""The master's state and its rules: applications come and go, executors are wanted and observed, agents get desired state.

Every method is called on one thread with `now_s` (monotonic seconds) and stores what must survive a restart before it
answers. Deadlines and plans are `planning`'s, the wire format `controller.messages`, the network `api`. Everything is
level-triggered: a repeated message changes nothing, a lost one comes again.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import structs

from controller.master import finish, memory, planning
from controller.master.admission import check_executors, check_feasible, check_owner, checked_id, make_application, new_id
from controller.master.application import Application, ApplicationRecord, Executor, ExecutorRecord
from controller.master.change import change
from controller.master.executor_spec import executor_slots, executor_spec
from controller.master.job_options import job_options
from controller.master.recorder import Recorder
from controller.master.store import Store
from controller.master.tokens import digest, mint
from controller.master.view import application_view
from controller.master.workers import Worker, Workers
from controller.messages import (
    ApplicationView,
    Change,
    Desired,
    DriverReply,
    DriverSync,
    ExecutorGone,
    ExecutorReport,
    ExecutorWish,
    PlanReply,
    PlanRequest,
    Registered,
    Registration,
    Sequenced,
    WorkerReply,
    WorkerSync,
)
from controller.processes import ProcessId, alive
from controller.profile_store import ProfileStore
from controller.runtime.process_identity import boot_id
from placement.spread import choose
from stage_model.errors import BadInput, PaceError
from stage_model.events import AnyEvent, ApplicationEnd, ExecutorRemoved, StageCompleted, StageSubmitted, TaskEnd
from stage_model.promises import Promised

log = logging.getLogger("sparkpace.master")

CLEAN_UP_S = 15.0
"""Longest wait for executors' last words before a run's record is written."""
MOST_FAILURES = 10
"""Executors that may fail in a row before the application is ended."""
OUTLIVED_FROM = 1001
"""First executor number of an application that the master had forgotten: those before may be in use."""
SILENCE_S = 60.0
"""A driver on another host that was silent for so long, with no executor running, is gone."""
STEADY_S = 60.0
"""An executor that lived so long breaks the row."""
SAVE_S = 10.0
"""How often the counters of live executors are stored."""

_event_decoder = msgspec.json.Decoder(AnyEvent)


class ClusterState:
    """The cluster. `changed` is called whenever agents should look again."""

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        profiles: ProfileStore,
        *,
        default_law: str,
        changed: Callable[[], None],
        now_s: float,
        memory_policy: str = "equal",
    ) -> None:
        self.store, self.recorder, self.profiles = store, recorder, profiles
        self.default_law, self.memory_policy, self._changed = default_law, memory_policy, changed
        self.version = 1
        self.workers = Workers(store)
        self.applications: dict[str, Application] = {}
        self._saved_s = now_s
        with store.transaction():
            self.cluster_id = store.meta("cluster_id") or uuid.uuid4().hex[:8]
            self.generation = int(store.meta("generation") or 0) + 1
            store.set_meta("cluster_id", self.cluster_id)
            store.set_meta("generation", str(self.generation))
        for application_id, live, data in store.applications():
            if live:
                self._restore(application_id, data, now_s)

    def bump(self) -> None:
        """The desired state has changed."""
        self.version += 1
        self._changed()

    # ------------------------------------------------------------------ drivers

    def register(self, registration: Registration, now_s: float) -> Registered:
        """Admits an application. Raises `BadInput` for unusable settings, `Infeasible` when its deadline cannot be met."""
        check_owner(registration)
        known = self._again(registration, now_s)
        if known:
            return known
        # a bridge that outlived the master's memory keeps its id, with new numbers for new executors
        application_id = checked_id(registration.application_id) if registration.application_id else new_id()
        token = mint()
        record = ApplicationRecord(
            application_id=application_id,
            token_hash=digest(token),
            registration=registration,
            started_epoch_s=time.time() - registration.age_s,
            started_monotonic_s=now_s - registration.age_s,
            boot_id=boot_id(),
            next_executor=OUTLIVED_FROM if registration.application_id else 1,
            options=job_options(
                registration.conf,
                age_s=registration.age_s,
                now=datetime.now().astimezone(),
                working_dir=Path(registration.working_dir),
                default_law=self.default_law,
            ),
        )
        application = make_application(record, record.started_monotonic_s, self.profiles, now_s)
        check_executors(application, [w.info for w in self.workers.by_id.values()])
        check_feasible(application, self.workers.capacity(application, now_s), now_s, self._promised(now_s))
        self.recorder.begin(application_id)
        self._save(application)
        self.applications[application_id] = application
        log.info("%s registered: %s, deadline %s", application_id, registration.name, application.options.deadline_s)
        self._reconcile(application, now_s)
        self.bump()
        return Registered(application_id=application_id, token=token, notices=self._new_notices(application))

    def driver_sync(self, application_id: str, sync: DriverSync, now_s: float) -> DriverReply:
        """Takes a driver's levels and events in."""
        application = self._known(application_id)
        application.heard_s = now_s
        changed = sync.instance != application.instance
        application.instance = sync.instance
        new = [e for e in sync.events if e.seq > application.acknowledged]
        gapless: list[Sequenced] = []
        for numbered in sorted(new, key=lambda e: e.seq):
            if numbered.seq != application.acknowledged + len(gapless) + 1:
                break
            gapless.append(numbered)
        with self.store.transaction():
            self.store.add_events(application_id, ((e.seq, msgspec.json.encode(e.event)) for e in gapless))
        # stored first and for good: what is acknowledged must survive, even if folding an event in should fail
        if sync.snapshot is not None:
            changed = self._take_snapshot(application, sync, now_s) or changed
        for numbered in gapless:
            application.acknowledged = numbered.seq
            changed = self._apply(application, numbered.event, now_s) or changed
        if application.wanted != sync.wanted or not set(sync.killed) <= application.unwanted:
            application.wanted = dict(sync.wanted)
            application.unwanted |= set(sync.killed)
            changed = True
        if sync.ended and not application.ended:
            self._end(application, "", now_s)
            changed = True
        if changed:
            self._reconcile(application, now_s)
            self.bump()
        stop = application.record.end_reason if application.ended and not sync.ended else ""
        return DriverReply(
            acknowledged=application.acknowledged,
            gone=application.gone(),
            stop=stop or None,
            notices=self._new_notices(application),
        )

    def token_hash(self, application_id: str) -> str | None:
        application = self.applications.get(application_id)
        return application.record.token_hash if application else None

    # ------------------------------------------------------------------ agents

    def worker_sync(self, worker_id: str, sync: WorkerSync, now_s: float) -> WorkerReply:
        """Takes an agent's report in; the reply holds what its worker should be like."""
        worker, joins = self.workers.heard(sync.worker, now_s)
        if joins:
            self._reconcile_all(now_s)
        for note in sync.notes:
            log.warning("worker %s: %s", worker_id, note)
        self._take_samples(worker, sync)
        changed = False
        reported = set()
        for report in sync.executors:
            reported.add((report.application_id, report.executor_id))
            changed = self._take_report(worker_id, sync.instance, report, now_s) or changed
        for application in self.applications.values():
            for executor in application.executors.values():
                key = (application.id, executor.record.executor_id)
                if executor.record.worker_id == worker_id and self._stopped(application, executor) and key not in reported:
                    executor.cleaned = True
                    executor.record.gone = executor.record.gone or _gone(executor, None, "removed")
        for application_id in sync.drivers_gone:
            gone = self.applications.get(application_id)
            if gone and not gone.ended:
                self._end(gone, "its driver died", now_s)
                changed = True
        if changed:
            self._reconcile_all(now_s)
            self.bump()
        return WorkerReply(samples_acknowledged=worker.samples_acknowledged, desired=self._desired(worker_id, now_s))

    def _desired(self, worker_id: str, now_s: float) -> Desired:
        specs, stopped, ended, plans = [], [], [], []
        for application in self.applications.values():
            here = [e for e in application.executors.values() if e.record.worker_id == worker_id and not e.cleaned]
            for executor in here:
                if self._stopped(application, executor):
                    stopped.append(f"{application.id}/{executor.record.executor_id}")
                else:
                    specs.append(executor.record.spec)
            if here and application.ended:
                ended.append(application.id)
            elif here:
                plans.append(
                    planning.application_plan(application, worker_id, self.workers.capacity(application, now_s), now_s)
                )
        return Desired(
            cluster_id=self.cluster_id,
            generation=self.generation,
            version=self.version,
            executors=tuple(specs),
            stopped=tuple(stopped),
            ended=tuple(ended),
            applications=tuple(plans),
            budgets_mb=self._budgets_mb(worker_id),
        )

    def _budgets_mb(self, worker_id: str) -> dict[str, int]:
        known = self.workers.by_id.get(worker_id)
        return memory.budgets(known.info, self.applications.values(), self.memory_policy) if known else {}

    def _stopped(self, application: Application, executor: Executor) -> bool:
        return application.ended or executor.record.planned_end or not executor.live

    def _take_samples(self, worker: Worker, sync: WorkerSync) -> None:
        if sync.instance != worker.instance:
            worker.instance, worker.samples_acknowledged = sync.instance, 0
        fresh = []
        for sample in sync.samples[max(0, worker.samples_acknowledged - sync.sample_seq) :]:
            application = self.applications.get(sample.application_id)
            executor = application.executors.get(sample.executor_id) if application else None
            if application and executor:
                fresh.append(executor.sampled(sample))
                planning.watch_forecast(application, sample)
        if fresh:
            self.recorder.add(fresh)
        worker.samples_acknowledged = max(worker.samples_acknowledged, sync.sample_seq + len(sync.samples))

    def _take_report(self, worker_id: str, instance: str, report: ExecutorReport, now_s: float) -> bool:
        application = self.applications.get(report.application_id)
        executor = application.executors.get(report.executor_id) if application else None
        if application is None or executor is None or executor.record.worker_id != worker_id:
            return False
        executor.take(instance, report)
        # one that was thought removed but shows itself (a start crossed the order to stop) is to be stopped again
        executor.cleaned = False
        if not executor.live:
            return False
        if report.state == "exited":
            self._gone(application, executor, report.exit_code, report.reason)
        elif report.state == "refused":
            self._gone(application, executor, None, report.reason)
            self._end(application, f"an executor was refused on worker {worker_id}: {report.reason}", now_s)
        else:
            return False
        self._save_executor(application, executor)
        return True

    def _gone(self, application: Application, executor: Executor, code: int | None, reason: str) -> None:
        planned = executor.record.planned_end or application.ended
        executor.record.gone = _gone(executor, code, reason)
        lived_s = time.time() - executor.record.created_epoch_s
        log.info("%s executor %s ended with code %s %s", application.id, executor.record.executor_id, code, reason)
        if not planned:
            steady = lived_s > STEADY_S
            application.executors_lost += 1
            application.failures_in_a_row = 1 if steady else application.failures_in_a_row + 1

    # ------------------------------------------------------------------ commands

    def views(self, now_s: float) -> list[ApplicationView]:
        return [self._view(application, now_s) for application in self.applications.values()]

    def view(self, application_id: str, now_s: float) -> ApplicationView:
        """Raises `BadInput` for an unknown application."""
        return self._view(self._known(application_id), now_s)

    def _view(self, application: Application, now_s: float) -> ApplicationView:
        place = memory.place(application, self.applications.values())
        return application_view(application, str(self.recorder.folder(application.id)), now_s, place)

    def kill(self, application_id: str, now_s: float) -> None:
        """Ends an application; its driver hears of it with its next sync. Nothing happens to one that has ended."""
        application = self._known(application_id)
        if not application.ended:
            self._end(application, "it was killed", now_s)
            self.bump()

    def change(self, application_id: str, asked: Change, now_s: float) -> None:
        """`sparkpace set`. Raises `BadInput` and `Infeasible`; then nothing has changed."""
        application = self._known(application_id)
        most = self.workers.capacity(application, now_s)
        change(application, asked, most, self._promised(now_s, but=application_id), now_s)
        self._save(application)
        self.bump()

    def plan(self, request: PlanRequest, now_s: float) -> PlanReply:
        """Feasibility, cores and the least possible deadline of a profile on this cluster as it is."""
        return planning.plan_reply(request, self.profiles, self.workers.expected(now_s), self._promised(now_s))

    def _promised(self, now_s: float, but: str = "") -> Promised:
        """What the running applications, but one, were promised."""
        others = (a for a in self.applications.values() if a.id != but)
        claims = (planning.promise(a, self.workers.capacity(a, now_s), now_s) for a in others)
        cores = sum(info.cores for info in self.workers.expected(now_s))
        return Promised([claim for claim in claims if claim is not None], cores)

    # ------------------------------------------------------------------ time

    def tick(self, now_s: float) -> None:
        """What only time brings about: dead drivers, executors to place, records to write."""
        for application in memory.by_rank(self.applications.values()):
            if not application.ended and self._driver_gone(application, now_s):
                self._end(application, "its driver died", now_s)
                self.bump()
            if application.ended:
                self._try_finish(application, now_s)
            elif self._reconcile(application, now_s):
                self.bump()
        if now_s - self._saved_s > SAVE_S:
            self._saved_s = now_s
            with self.store.transaction():
                for application in self.applications.values():
                    for executor in application.live_executors():
                        self._save_executor(application, executor)

    def _driver_gone(self, application: Application, now_s: float) -> bool:
        """A driver on the master's host is looked at; one elsewhere is gone when it and all its executors are silent."""
        registration = application.record.registration
        if registration.boot_id == application.record.boot_id:
            driver = ProcessId(pid=registration.pid, start=registration.pid_start, boot_id=registration.boot_id)
            return not alive(driver)
        running = any(e.report and e.report.state == "running" for e in application.live_executors())
        return not running and now_s - application.heard_s > SILENCE_S

    def _try_finish(self, application: Application, now_s: float) -> None:
        if application.finished or application.ended_monotonic_s is None:
            return
        waited = now_s - application.ended_monotonic_s
        heard = {info.worker_id for info in self.workers.fresh(now_s)}
        left = [e for e in application.executors.values() if not e.cleaned and e.record.worker_id in heard]
        if left and waited < CLEAN_UP_S:
            return
        used = {e.record.worker_id for e in application.executors.values()}
        runtime = next((w.info.runtime for w in self.workers.by_id.values() if w.info.worker_id in used), "none")
        removed = finish.finish(application, self.recorder, self.profiles, self.workers.capacity(application, now_s), runtime)
        application.finished = True
        # what executors needed as environment may hold Spark's secret: nobody needs it any more
        application.record.registration = structs.replace(application.record.registration, environment={})
        for executor in application.executors.values():
            executor.record.spec = structs.replace(executor.record.spec, environment={})
        with self.store.transaction():
            self._save(application)
            for executor in application.executors.values():
                self._save_executor(application, executor)
            self.store.drop_details(application.id)
            for old in removed:
                self.store.forget(old)
        self.store.checkpoint()
        for old in removed:
            self.applications.pop(old, None)

    # ------------------------------------------------------------------ rules

    def _apply(self, application: Application, event: AnyEvent, now_s: float) -> bool:
        """Folds one event in; says whether agents should look at once."""
        application.apply(event)
        if isinstance(event, StageCompleted):
            planning.rescale(application)
        if isinstance(event, StageSubmitted):
            planning.set_goal(
                application, event.info.stage, event.info.attempt, self.workers.capacity(application, now_s), now_s
            )
        if isinstance(event, ExecutorRemoved):
            executor = application.executors.get(event.executor)
            if executor and executor.live and not application.ended:
                self._gone(application, executor, None, f"lost by the driver: {event.reason[:200]}")
                self._save_executor(application, executor)
                return True
        if isinstance(event, ApplicationEnd) and not application.ended:
            ended_s = min(event.time_ms / 1000 - application.record.started_epoch_s, application.elapsed_s(now_s))
            self._end(application, "", now_s, ended_s=max(0.0, ended_s))
            return True
        return isinstance(event, StageSubmitted | StageCompleted) or not isinstance(event, TaskEnd)

    def _take_snapshot(self, application: Application, sync: DriverSync, now_s: float) -> bool:
        """Events were lost: what is active now replaces what was thought to be active."""
        assert sync.snapshot is not None
        application.run.replace_active(sync.snapshot)
        for event in sync.snapshot:
            if isinstance(event, StageSubmitted) and (event.info.stage, event.info.attempt) not in application.goals:
                planning.set_goal(
                    application, event.info.stage, event.info.attempt, self.workers.capacity(application, now_s), now_s
                )
        application.acknowledged = sync.next_seq - 1
        return True

    def _end(self, application: Application, reason: str, now_s: float, ended_s: float | None = None) -> None:
        application.record.ended_s = round(application.elapsed_s(now_s) if ended_s is None else ended_s, 3)
        application.record.end_reason = reason
        application.ended_monotonic_s = now_s
        log.info("%s ended after %.1f s %s", application.id, application.record.ended_s, reason)
        self._save(application)

    def _reconcile_all(self, now_s: float) -> None:
        for application in memory.by_rank(self.applications.values()):
            self._reconcile(application, now_s)

    def _reconcile(self, application: Application, now_s: float) -> bool:
        """Brings the executors to what Spark wants: one per worker at most, where memory allows."""
        if application.ended:
            return False
        if application.failures_in_a_row > MOST_FAILURES:
            logs = next((e.record.log_dir for e in reversed(application.executors.values()) if e.record.log_dir), "")
            self._end(application, f"{application.failures_in_a_row} executors failed in a row, see {logs}/stderr", now_s)
            return True
        changed = False
        for executor_id in application.unwanted:
            executor = application.executors.get(executor_id)
            if executor and executor.live and not executor.record.planned_end:
                executor.record.planned_end = True
                self._save_executor(application, executor)
                changed = True
        application.waiting = ""
        for profile_id, wish in sorted(application.wanted.items()):
            changed = self._add_executors(application, profile_id, wish, now_s) or changed
        if line := memory.waiting_line(application, self.applications.values()):
            application.notify(line)
        return changed

    def _add_executors(self, application: Application, profile_id: str, wish: ExecutorWish, now_s: float) -> bool:
        workers = {info.worker_id: info for info in self.workers.fresh(now_s)}
        live = [e for e in application.live_executors() if not e.record.planned_end]
        have = sum(e.record.profile_id == profile_id for e in live)
        missing = (len(workers) if wish.count is None else min(wish.count, len(workers))) - have
        if missing <= 0:
            return False
        registration = application.record.registration
        slots = {name: executor_slots(registration.conf, wish, profile_id, info) for name, info in workers.items()}
        asked = (application, wish, profile_id, list(workers.values()))
        everybody = list(self.applications.values())
        chosen = choose(memory.rooms(*asked, everybody), missing, memory.least_mb(*asked))
        if not chosen and not live:
            application.waiting = memory.why_waiting(*asked, everybody)
        for worker_id in chosen:
            self._add_executor(application, worker_id, profile_id, wish, slots[worker_id])
        return bool(chosen)

    def _add_executor(
        self, application: Application, worker_id: str, profile_id: str, wish: ExecutorWish, slots: int
    ) -> None:
        executor_id = str(application.record.next_executor)
        application.record.next_executor += 1
        spec = executor_spec(
            application.id, executor_id, application.record.registration, application.options, wish, profile_id, slots
        )
        record = ExecutorRecord(
            executor_id=executor_id,
            worker_id=worker_id,
            profile_id=profile_id,
            spec=spec,
            created_epoch_s=time.time(),
        )
        application.executors[executor_id] = Executor(record)
        log.info("%s executor %s goes to worker %s with %d slots", application.id, executor_id, worker_id, slots)
        self._save(application)
        self._save_executor(application, application.executors[executor_id])

    # ------------------------------------------------------------------ memory of the master

    def _again(self, registration: Registration, now_s: float) -> Registered | None:
        """A bridge that registers once more is given a new token for what it already had."""
        application = self.applications.get(registration.application_id or "")
        if application is None or application.record.registration.instance != registration.instance:
            return None
        token = mint()
        application.record.token_hash = digest(token)
        application.heard_s = now_s
        self._save(application)
        return Registered(application_id=application.id, token=token, acknowledged=application.acknowledged)

    def _restore(self, application_id: str, data: bytes, now_s: float) -> None:
        """An application of an earlier life of the master: replays what its driver had told."""
        try:
            record = msgspec.json.decode(data, type=ApplicationRecord)
            same_boot = record.boot_id == boot_id()
            started_s = record.started_monotonic_s if same_boot else now_s - (time.time() - record.started_epoch_s)
            application = make_application(record, started_s, self.profiles, now_s)
            if record.ended_s is not None:
                application.ended_monotonic_s = now_s
            for blob in self.store.executors(application_id):
                executor = Executor(msgspec.json.decode(blob, type=ExecutorRecord), ran=True)
                application.executors[executor.record.executor_id] = executor
            self.applications[application_id] = application
            for seq, event in self.store.events(application_id):
                application.acknowledged = seq
                decoded = _event_decoder.decode(event)
                application.apply(decoded)
                if isinstance(decoded, StageCompleted):
                    planning.rescale(application)
                if isinstance(decoded, StageSubmitted):
                    capacity = self.workers.capacity(application, now_s)
                    planning.set_goal(application, decoded.info.stage, decoded.info.attempt, capacity, now_s, decoded.time_ms)
        except (PaceError, msgspec.DecodeError, ValueError) as error:
            log.error("application %s of an earlier life cannot be restored: %s", application_id, error)
            return
        log.info("restored %s at event %d", application_id, application.acknowledged)

    def _known(self, application_id: str) -> Application:
        application = self.applications.get(application_id)
        if application is None:
            raise BadInput(f"application {application_id!r} is not known here; accepted: an id that `sparkpace ps` shows")
        return application

    def _new_notices(self, application: Application) -> tuple[str, ...]:
        new = tuple(application.notices[application.noticed :])
        application.noticed = len(application.notices)
        return new

    def _save(self, application: Application) -> None:
        self.store.put_application(application.id, not application.finished, msgspec.json.encode(application.record))

    def _save_executor(self, application: Application, executor: Executor) -> None:
        self.store.put_executor(application.id, executor.record.executor_id, msgspec.json.encode(executor.record))


def _gone(executor: Executor, code: int | None, reason: str) -> ExecutorGone:
    # 137 and 143 are SIGKILL and SIGTERM: somebody outside ended it, so it is no fault of the application's
    return ExecutorGone(
        executor_id=executor.record.executor_id,
        exit_code=code,
        planned=executor.record.planned_end,
        by_application=code is not None and code not in (137, 143, -9, -15),
        reason=reason or f"exit code {code}",
    )
