"""The master's state and its rules: applications come and go, executors are wanted and observed, agents get desired state.

Every method is called on one thread with `now_s` (monotonic seconds) and stores what must survive a restart before it
answers. Deadlines and plans are `planning`'s, the wire format `controller.messages`, the network `api`. Everything is
level-triggered: a repeated message changes nothing, a lost one comes again.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path

import msgspec

from controller.master import dependencies, executors, finish, memory, planning
from controller.master.admission import (
    check_executors,
    check_feasible,
    check_fits,
    check_memory,
    check_owner,
    checked_id,
    make_application,
    new_id,
)
from controller.master.application import Application, ApplicationRecord
from controller.master.change import change
from controller.master.explanation import explanation
from controller.master.feasibility import plan_reply
from controller.master.growing import Growing
from controller.master.job_options import job_options
from controller.master.locality import locality
from controller.master.placing import Placing
from controller.master.providers import Provider
from controller.master.recorder import Recorder
from controller.master.registry import Registry
from controller.master.store import Store
from controller.master.tokens import digest, mint
from controller.master.view import application_view
from controller.master.workers import Worker
from controller.messages import (
    ApplicationView,
    Change,
    Desired,
    DriverReply,
    DriverSync,
    ExecutorReport,
    ExecutorWish,
    Explanation,
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
from placement.growth import Growth
from placement.policies import Draw
from placement.scores import Weights
from placement.topology import Topology
from stage_model.errors import BadInput, PaceError
from stage_model.events import AnyEvent, ApplicationEnd, ExecutorRemoved, StageCompleted, StageSubmitted, TaskEnd

log = logging.getLogger("sparkpace.master")

CLEAN_UP_S = 15.0
"""Longest wait for executors' last words before a run's record is written."""
OUTLIVED_FROM = 1001
"""First executor number of an application that the master had forgotten: those before may be in use."""
SILENCE_S = 60.0
"""A driver on another host that was silent for so long, with no executor running, is gone."""
SAVE_S = 10.0
"""How often the counters of live executors are stored, and the store's log is emptied."""


class ClusterState:
    """The cluster. `changed` is called with the ids of workers whose agents should look again."""

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        profiles: ProfileStore,
        *,
        default_law: str,
        changed: Callable[[Collection[str]], None],
        now_s: float,
        memory_policy: str = "equal",
        placement: str = "spread",
        weights: Weights | None = None,
        draw: Draw | None = None,
    ) -> None:
        self.store, self.recorder, self.profiles = store, recorder, profiles
        self.default_law, self.memory_policy, self._changed = default_law, memory_policy, changed
        self.version = 1
        self._versions: dict[str, int] = {}
        self._saved_s = now_s
        with store.transaction():
            self.cluster_id = store.meta("cluster_id") or uuid.uuid4().hex[:8]
            self.generation = int(store.meta("generation") or 0) + 1
            store.set_meta("cluster_id", self.cluster_id)
            store.set_meta("generation", str(self.generation))
        self.registry = Registry(store, profiles, now_s)
        self.workers, self.applications = self.registry.workers, self.registry.applications
        self.growing: Growing | None = None
        self.placing = Placing(
            self.registry, policy=placement, weights=weights or Weights(), draw=draw or random.SystemRandom().random
        )

    def bump(self, application: Application) -> None:
        """The desired state of the application's workers has changed."""
        self.version += 1
        where = {e.record.worker_id for e in application.executors.values() if not e.cleaned}
        self.registry.touched |= where
        self._versions.update(dict.fromkeys(where, self.version))
        self._changed(where)

    def version_of(self, worker_id: str) -> int:
        """Of a worker's desired state: grows whenever its agent should look again before the period is over."""
        return self._versions.get(worker_id, 1)

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
        dependencies.check(application, self.applications, self.registry.past)
        self._check_executors(application, now_s)
        check_feasible(application, self.workers.capacity(application, now_s), now_s, self.registry.promised(now_s))
        self.recorder.begin(application_id)
        self.registry.save(application)
        self.applications[application_id] = application
        log.info("%s registered: %s, deadline %s", application_id, registration.name, application.options.deadline_s)
        self._reconcile(application, now_s)
        self.bump(application)
        return Registered(application_id=application_id, token=token, notices=self._new_notices(application))

    def driver_sync(self, application_id: str, sync: DriverSync, now_s: float) -> DriverReply:
        """Takes a driver's levels and events in."""
        application = self.registry.known(application_id)
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
            self.bump(application)
        stop = application.record.end_reason if application.ended and not sync.ended else ""
        return DriverReply(
            acknowledged=application.acknowledged,
            gone=application.gone(),
            stop=stop or None,
            notices=self._new_notices(application),
            locality=locality(application),
        )

    def _check_executors(self, application: Application, now_s: float) -> None:
        """Raises `BadInput` for executors that cannot be, or that fit no worker there is and none that could be started.
        Labels may still be given to a worker: who asks for one that nobody has waits, where no worker can be started. So does
        everybody, just after a restart, for workers that have not reported yet."""
        check_executors(application)
        self.placing.refresh(now_s)
        all_heard, workers = self.workers.all_heard(now_s), self.workers.known(now_s)
        for profile_id, wish in (application.wanted or {"0": ExecutorWish()}).items():
            kind = self.placing.needed_type(application, profile_id, wish, now_s, labels=self.growing is not None)
            if self.growing is None and workers:
                check_fits(application, profile_id, wish, workers)
                if kind is not None and all_heard and len(self.placing.places):
                    raise BadInput(
                        f"no single worker has what an executor of this application needs ({kind}); accepted: less"
                    )
            elif self.growing and kind and all_heard and (reason := self.growing.refuses(kind)):
                raise BadInput(f"no worker has what an executor of this application needs, and {reason}; accepted: less")

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
        changed = {}
        reported = set()
        for report in sync.executors:
            reported.add((report.application_id, report.executor_id))
            if self._take_report(worker_id, sync.instance, report, now_s):
                changed[report.application_id] = self.applications[report.application_id]
        for application, executor in self.registry.on(worker_id):
            key = (application.id, executor.record.executor_id)
            if executors.stopped(application, executor) and key not in reported:
                executor.cleaned = True
                self.registry.touched.add(worker_id)
                executor.record.gone = executor.record.gone or executors.last_word(executor, None, "removed")
        for application_id in sync.drivers_gone:
            gone = self.applications.get(application_id)
            if gone and not gone.ended:
                self._end(gone, "its driver died", now_s)
                changed[application_id] = gone
        if changed:
            self._reconcile_all(now_s)
            for application in changed.values():
                self.bump(application)
        return WorkerReply(samples_acknowledged=worker.samples_acknowledged, desired=self.desired(worker_id, now_s))

    def desired(self, worker_id: str, now_s: float) -> Desired:
        """What a worker should be like now."""
        specs, stopped = [], []
        here: dict[str, Application] = {}
        for application, executor in self.registry.on(worker_id):
            if executor.cleaned:
                continue
            here[application.id] = application
            if executors.stopped(application, executor):
                stopped.append(f"{application.id}/{executor.record.executor_id}")
            else:
                specs.append(executor.record.spec)
        plans = [
            planning.application_plan(application, worker_id, self.workers.capacity(application, now_s), now_s)
            for application in here.values()
            if not application.ended
        ]
        return Desired(
            cluster_id=self.cluster_id,
            generation=self.generation,
            version=self.version_of(worker_id),
            executors=tuple(specs),
            stopped=tuple(stopped),
            ended=tuple(application.id for application in here.values() if application.ended),
            applications=tuple(plans),
            budgets_mb=self._budgets_mb(worker_id),
        )

    def _budgets_mb(self, worker_id: str) -> dict[str, int]:
        known = self.workers.by_id.get(worker_id)
        return memory.budgets(known.info, self.registry.on(worker_id), self.memory_policy) if known else {}

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
        application.take(executor, instance, report)
        # one that was thought removed but shows itself (a start crossed the order to stop) is to be stopped again
        if executor.cleaned:
            executor.cleaned = False
            self.registry.touched.add(worker_id)
        if not executor.live:
            return False
        if report.state == "exited":
            executors.gone(application, executor, report.exit_code, report.reason)
        elif report.state == "refused":
            executors.gone(application, executor, None, report.reason)
            self._end(application, f"an executor was refused on worker {worker_id}: {report.reason}", now_s)
        else:
            return False
        self.registry.save_executor(application, executor)
        return True

    # ------------------------------------------------------------------ commands

    def views(self, now_s: float) -> list[ApplicationView]:
        return [self._view(application, now_s) for application in self.applications.values()]

    def view(self, application_id: str, now_s: float) -> ApplicationView:
        """Raises `BadInput` for an unknown application."""
        return self._view(self.registry.known(application_id), now_s)

    def _view(self, application: Application, now_s: float) -> ApplicationView:
        place = memory.place(application, self.applications.values())
        return application_view(application, str(self.recorder.folder(application.id)), now_s, place)

    def explain(self, application_id: str, now_s: float) -> Explanation:
        """Of every worker, why the application's next executor would go there or not. Raises `BadInput`."""
        application = self.registry.known(application_id)
        return explanation(application, self.placing, now_s)

    def grow_by(self, growth: Growth, provider: Provider, now_s: float) -> None:
        """From now on a provider starts workers."""
        self.growing = Growing(self.registry, self.placing, growth, provider, now_s)

    def end_started_workers(self, now_s: float) -> list[Future[None]]:
        """Begins to give all of them back; what is to be waited for."""
        return self.growing.end_all(now_s) if self.growing is not None else []

    def label(self, worker_id: str, changes: Mapping[str, str | None], now_s: float) -> Mapping[str, str]:
        """Changes labels of a worker, which count at once for whoever waits; returns all it has. Raises `BadInput`."""
        labels = self.workers.relabel(worker_id, changes)
        self._reconcile_all(now_s)
        return labels

    def locate_by(self, topology: Topology, now_s: float) -> None:
        """Another topology counts from now on."""
        self.placing.locate_by(topology)
        self._reconcile_all(now_s)

    def kill(self, application_id: str, now_s: float) -> None:
        """Ends an application; its driver hears of it with its next sync. Nothing happens to one that has ended."""
        application = self.registry.known(application_id)
        if not application.ended:
            self._end(application, "it was killed", now_s)
            self.bump(application)

    def change(self, application_id: str, asked: Change, now_s: float) -> None:
        """`sparkpace set`. Raises `BadInput` and `Infeasible`; then nothing has changed."""
        application = self.registry.known(application_id)
        most = self.workers.capacity(application, now_s)
        change(application, asked, most, self.registry.promised(now_s, but=application_id), now_s)
        self.registry.save(application)
        self.bump(application)
        self._reconcile_all(now_s)

    def plan(self, request: PlanRequest, now_s: float) -> PlanReply:
        """Feasibility, cores and the least possible deadline of a profile on this cluster as it is. Raises `BadInput`."""
        workers, grows = self.workers.expected(now_s), self.growing is not None
        if request.conf is not None:
            # for one that is too large for all that are there, a worker may be started
            check_memory(request.conf, ExecutorWish(), "0", [] if grows else workers, python=request.python)
        return plan_reply(request, self.profiles, workers, self.registry.promised(now_s), grows=grows)

    # ------------------------------------------------------------------ time

    def tick(self, now_s: float) -> None:
        """What only time brings about: dead drivers, executors to place, workers to start, records to write."""
        for application in memory.by_rank(self.applications.values()):
            if not application.ended and self._driver_gone(application, now_s):
                self._end(application, "its driver died", now_s)
                self.bump(application)
            if application.ended:
                self._try_finish(application, now_s)
            elif self._reconcile(application, now_s):
                self.bump(application)
        if self.growing is not None:
            self.growing.tick(now_s)
        if now_s - self._saved_s > SAVE_S:
            self._saved_s = now_s
            self.registry.save_counters()
            self.store.checkpoint()

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
        self.registry.finished(application, removed)

    # ------------------------------------------------------------------ rules

    def _apply(self, application: Application, event: AnyEvent, now_s: float) -> bool:
        """Folds one event in; says whether agents should look at once."""
        planning.take_event(application, event, lambda: self.workers.capacity(application, now_s), now_s)
        if isinstance(event, ExecutorRemoved):
            executor = application.executors.get(event.executor)
            if executor and executor.live and not application.ended:
                executors.gone(application, executor, None, f"lost by the driver: {event.reason[:200]}")
                self.registry.save_executor(application, executor)
                return True
        if isinstance(event, ApplicationEnd) and not application.ended:
            ended_s = min(event.time_ms / 1000 - application.record.started_epoch_s, application.elapsed_s(now_s))
            self._end(application, "", now_s, ended_s=max(0.0, ended_s))
            return True
        return isinstance(event, StageSubmitted | StageCompleted) or not isinstance(event, TaskEnd)

    def _take_snapshot(self, application: Application, sync: DriverSync, now_s: float) -> bool:
        """Events were lost: what is active now replaces what was thought to be active."""
        assert sync.snapshot is not None
        application.replace_active(sync.snapshot)
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
        self.registry.save(application)

    def _reconcile(self, application: Application, now_s: float) -> bool:
        """Brings the executors to what Spark wants; says whether anything changed."""
        if application.ended:
            return False
        if reason := executors.too_many_failures(application):
            self._end(application, reason, now_s)
            return True
        found = len(application.record.comes_after)
        if dependencies.settle(application, self.applications, self.registry.past):
            self._end(application, application.held_back, now_s)
            return True
        if len(application.record.comes_after) != found:
            self.registry.save(application)
        try:
            return executors.reconcile(application, self.registry, self.placing, now_s)
        except PaceError as error:
            # what one application asks for must not keep the others waiting
            application.waiting = f"its executors cannot be placed: {error}"
            application.notify(application.waiting)
            return False

    def _reconcile_all(self, now_s: float) -> None:
        for application in memory.by_rank(self.applications.values()):
            if self._reconcile(application, now_s):
                self.bump(application)

    # ------------------------------------------------------------------ memory of the master

    def _again(self, registration: Registration, now_s: float) -> Registered | None:
        """A bridge that registers once more is given a new token for what it already had."""
        application = self.applications.get(registration.application_id or "")
        if application is None or application.record.registration.instance != registration.instance:
            return None
        token = mint()
        application.record.token_hash = digest(token)
        application.heard_s = now_s
        self.registry.save(application)
        return Registered(application_id=application.id, token=token, acknowledged=application.acknowledged)

    def _new_notices(self, application: Application) -> tuple[str, ...]:
        new = tuple(application.notices[application.noticed :])
        application.noticed = len(application.notices)
        return new
