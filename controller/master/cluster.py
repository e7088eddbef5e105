"""The master's state and its rules: applications come and go, executors are wanted and observed, agents get desired state.

Every method is called on one thread with `now_s` (monotonic seconds) and stores what must survive a restart before it
answers. Deadlines and plans are `planning`'s, the wire format `controller.messages`, the network `api`. Everything is
level-triggered: a repeated message changes nothing, a lost one comes again.
"""

from __future__ import annotations

import logging
import random
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor as Pool
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

from controller.master import dependencies, drivers, executors, memory, planning
from controller.master.admission import (
    check_executors,
    check_feasible,
    check_fits,
    check_memory,
    check_owner,
    check_usable,
    checked_id,
    make_application,
    new_id,
)
from controller.master.application import Application, ApplicationRecord
from controller.master.change import change
from controller.master.explanation import explanation
from controller.master.feasibility import plan_reply
from controller.master.finish import Finisher, Written
from controller.master.growing import Growing
from controller.master.guard import Parts, guarded
from controller.master.identity import Identity
from controller.master.job_options import job_options
from controller.master.locality import locality
from controller.master.placing import Placing
from controller.master.providers import Provider
from controller.master.recorder import Recorder
from controller.master.registry import Registry
from controller.master.store import Store
from controller.master.tokens import digest, mint
from controller.master.view import application_view, bare_view
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
    Sample,
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
from stage_model.errors import BadInput, Denied, PaceError
from stage_model.plan import ApplicationPlan

log = logging.getLogger("sparkpace.master")

CLEAN_UP_S = 15.0
"""Longest wait for executors' last words before a run's record is written."""
OUTLIVED_FROM = 1001
"""First executor number of an application that the master had forgotten: those before may be in use."""
SILENCE_S = 60.0
"""A driver on another host that was silent for so long, with no executor running, is gone."""
SAVE_S = 10.0
"""How often the counters of live executors are stored, and the store's log is emptied."""
COME_BACK_S = 60.0
"""Time for drivers to register again with a master that does not know their applications: a bridge tries every 10 s at the
latest (5 s of patience, 5 s of back-off). Until then nothing of an unknown application is touched."""


class ClusterState:
    """The cluster. `changed` is called with the ids of workers whose agents should look again; `pool` has threads for what
    takes its time (None: one of its own)."""

    def __init__(
        self,
        store: Store,
        recorder: Recorder,
        profiles: ProfileStore,
        identity: Identity,
        *,
        default_law: str,
        changed: Callable[[Collection[str]], None],
        now_s: float,
        memory_policy: str = "equal",
        placement: str = "spread",
        weights: Weights | None = None,
        draw: Draw | None = None,
        pool: Pool | None = None,
    ) -> None:
        self.store, self.recorder, self.profiles = store, recorder, profiles
        self.default_law, self.memory_policy, self._changed = default_law, memory_policy, changed
        self.version = 1
        self._versions: dict[str, int] = {}
        self._begun_s = self._saved_s = now_s
        self.cluster_id, self.generation = identity.cluster_id, identity.generation
        self.parts = Parts()
        self.finisher = Finisher(recorder, profiles, pool or ThreadPoolExecutor(1, "records"))
        self.registry = Registry(store, profiles, now_s)
        self.workers, self.applications = self.registry.workers, self.registry.applications
        for application in self.applications.values():
            drivers.replay(application, self.registry, now_s)
            log.info("restored %s at event %d", application.id, application.acknowledged)
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
        """Admits an application. Raises `BadInput` for unusable settings, `Denied` for what is another's, `Infeasible` when
        its deadline cannot be met."""
        check_usable(registration)
        check_owner(registration)
        known = self._again(registration, now_s)
        if known:
            return known
        # a bridge that outlived the master's memory keeps its id and the executors that agents show, with new numbers for new
        # ones; what runs already is not judged again, and an hour of the day counts from its submission
        outlived = registration.application_id is not None
        application_id = checked_id(registration.application_id) if registration.application_id else new_id()
        now, token = datetime.now().astimezone(), mint()
        record = ApplicationRecord(
            application_id=application_id,
            token_hash=digest(token),
            registration=registration,
            started_epoch_s=time.time() - registration.age_s,
            started_monotonic_s=now_s - registration.age_s,
            boot_id=boot_id(),
            next_executor=OUTLIVED_FROM if outlived else 1,
            outlived=outlived,
            options=job_options(
                registration.conf,
                age_s=0.0 if outlived else registration.age_s,
                now=now - timedelta(seconds=registration.age_s) if outlived else now,
                working_dir=Path(registration.working_dir),
                default_law=self.default_law,
            ),
        )
        application = make_application(record, record.started_monotonic_s, self.profiles, now_s, restored=outlived)
        dependencies.check(application, self.applications, self.registry.past)
        if not outlived:  # nobody knows how much of one that runs is done
            self._check_executors(application, now_s)
            check_feasible(application, self.workers.capacity(application, now_s), now_s, self.registry.promised(now_s))
        self.recorder.begin(application_id)
        self.registry.add(application)
        log.info("%s registered: %s, deadline %s", application_id, registration.name, application.options.deadline_s)
        for worker in self.workers.by_id.values():
            for report in worker.reports:
                if report.application_id == application_id:
                    with guarded(application, "taking over an executor"):
                        executors.adopt(application, worker.info, report, self.registry)
        self._reconcile(application, now_s)
        self.bump(application)
        return Registered(application_id=application_id, token=token, notices=self._new_notices(application))

    def driver_sync(self, application_id: str, sync: DriverSync, now_s: float) -> DriverReply:
        """Takes a driver's levels and events in."""
        application = self.registry.known(application_id)
        application.heard_s = now_s
        if sync.steady_ms is not None:
            # What a message takes on its way makes its sender look younger, so the oldest look is the best. A restart of this
            # machine takes a time that only its wall clock would tell.
            started_s = now_s - application.since_submission(sync.steady_ms)
            restarted = application.record.boot_id != boot_id()
            application.started_s = started_s if restarted else min(application.started_s, started_s)
        changed = sync.instance != application.instance
        application.instance = sync.instance
        changed = drivers.take(application, sync, self.registry, now_s) or changed
        if application.wanted != sync.wanted or not set(sync.killed) <= application.unwanted:
            application.wanted = dict(sync.wanted)
            application.unwanted |= set(sync.killed)
            changed = True
        if sync.ended and not application.ended:
            self.registry.end(application, "", now_s)
            changed = True
        if changed:
            self._reconcile(application, now_s)
            self.bump(application)
        stop = application.record.end_reason if application.ended and not sync.ended else ""
        near = None
        with guarded(application, "planning its waits for data"):
            near = locality(application)
        return DriverReply(
            acknowledged=application.acknowledged,
            gone=application.gone(),
            stop=stop or None,
            notices=self._new_notices(application),
            locality=near,
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
        for note in sync.notes:
            log.warning("worker %s: %s", worker_id, note)
        self._take_samples(worker, sync)
        changed: dict[str, Application] = {}
        for report in sync.executors:
            application = self.applications.get(report.application_id)
            if application is not None:
                with guarded(application, "taking in an agent's report"):
                    executors.adopt(application, worker.info, report, self.registry)
                    if self._take_report(worker_id, sync.instance, application, report, now_s):
                        changed[application.id] = application
        worker.reports = sync.executors
        reported = {(report.application_id, report.executor_id) for report in sync.executors}
        for application, executor in self.registry.on(worker_id):
            key = (application.id, executor.record.executor_id)
            if executors.stopped(application, executor) and key not in reported:
                executor.cleaned = True
                self.registry.touched.add(worker_id)
                executor.record.gone = executor.record.gone or executors.last_word(executor, None, "removed")
        for application_id in sync.drivers_gone:
            gone = self.applications.get(application_id)
            if gone and not gone.ended:
                changed[application_id] = gone
                with guarded(gone, "ending it"):
                    self.registry.end(gone, "its driver died", now_s)
        worker.strays = frozenset(self._strays(worker_id, sync.executors, now_s))
        if changed or joins:
            self._reconcile_all(now_s)
            for application in changed.values():
                self.bump(application)
        return WorkerReply(samples_acknowledged=worker.samples_acknowledged, desired=self.desired(worker_id, now_s))

    def _strays(self, worker_id: str, reports: Iterable[ExecutorReport], now_s: float) -> Iterator[tuple[str, str]]:
        """Executors reported that nobody here will ever want again: of applications that have ended, and what has exited of
        applications that nobody knows, once their drivers had time to register again. One of those that still runs is left
        alone: it may be all that a lost memory has left of a job."""
        for report in reports:
            application = self.applications.get(report.application_id)
            executor = application.executors.get(report.executor_id) if application else None
            if executor is not None and executor.record.worker_id == worker_id:
                continue
            if application is not None:
                over = application.ended
            elif report.application_id in self.registry.past:
                over = True
            else:
                over = report.state == "exited" and now_s - self._begun_s >= COME_BACK_S
            if over:
                yield (report.application_id, report.executor_id)

    def desired(self, worker_id: str, now_s: float) -> Desired:
        """What a worker should be like now."""
        known = self.workers.by_id.get(worker_id)
        strays = known.strays if known is not None else frozenset[tuple[str, str]]()
        specs, stopped = [], [f"{application_id}/{executor_id}" for application_id, executor_id in sorted(strays)]
        here: dict[str, Application] = {}
        for application, executor in self.registry.on(worker_id):
            if executor.cleaned:
                continue
            here[application.id] = application
            if executors.stopped(application, executor):
                stopped.append(f"{application.id}/{executor.record.executor_id}")
            else:
                specs.append(executor.record.spec)
        plans: list[ApplicationPlan] = []
        for application in here.values():
            if not application.ended:
                # without a new one its agents go on by the last
                with guarded(application, "planning"):
                    most = self.workers.capacity(application, now_s)
                    plans.append(planning.application_plan(application, worker_id, most, now_s))
        over = {application.id for application in here.values() if application.ended}
        over |= {application_id for application_id, _ in strays if self._has_ended(application_id)}
        return Desired(
            cluster_id=self.cluster_id,
            generation=self.generation,
            version=self.version_of(worker_id),
            executors=tuple(specs),
            stopped=tuple(stopped),
            ended=tuple(sorted(over)),
            applications=tuple(plans),
            budgets_mb=self._budgets_mb(worker_id),
        )

    def _has_ended(self, application_id: str) -> bool:
        application = self.applications.get(application_id)
        return application.ended if application is not None else application_id in self.registry.past

    def _budgets_mb(self, worker_id: str) -> dict[str, int]:
        known = self.workers.by_id.get(worker_id)
        return memory.budgets(known.info, self.registry.on(worker_id), self.memory_policy) if known else {}

    def _take_samples(self, worker: Worker, sync: WorkerSync) -> None:
        if sync.instance != worker.instance:
            worker.instance, worker.samples_acknowledged = sync.instance, 0
        fresh: defaultdict[str, list[Sample]] = defaultdict(list)
        for sample in sync.samples[max(0, worker.samples_acknowledged - sync.sample_seq) :]:
            application = self.applications.get(sample.application_id)
            executor = application.executors.get(sample.executor_id) if application else None
            if application and executor:
                with guarded(application, "taking in a sample"):
                    fresh[application.id].append(executor.sampled(sample))
                    planning.watch_forecast(application, sample)
        for application_id, samples in fresh.items():
            with guarded(self.applications[application_id], "writing its samples"):
                self.recorder.add(samples)
        worker.samples_acknowledged = max(worker.samples_acknowledged, sync.sample_seq + len(sync.samples))

    def _take_report(
        self, worker_id: str, instance: str, application: Application, report: ExecutorReport, now_s: float
    ) -> bool:
        executor = application.executors.get(report.executor_id)
        if executor is None or executor.record.worker_id != worker_id:
            return False
        application.take(executor, instance, report)
        # one that was thought removed but shows itself (a start crossed the order to stop) is to be stopped again
        if executor.cleaned:
            executor.cleaned = False
            self.registry.touched.add(worker_id)
        if not executor.live:
            return False
        if report.state == "exited":
            executors.gone(application, executor, report.exit_code, report.reason, now_s)
        elif report.state == "refused":
            executors.gone(application, executor, None, report.reason, now_s)
            self.registry.end(application, f"an executor was refused on worker {worker_id}: {report.reason}", now_s)
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
        with guarded(application, "showing it"):
            place = memory.place(application, self.applications.values())
            return application_view(application, str(self.recorder.folder(application.id)), now_s, place)
        return bare_view(application)

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
            self.registry.end(application, "it was killed", now_s)
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
        promised = self.registry.promised(now_s)
        return plan_reply(request, self.profiles, workers, promised, default_law=self.default_law, grows=grows)

    # ------------------------------------------------------------------ time

    def tick(self, now_s: float) -> None:
        """What only time brings about: dead drivers, executors to place, workers to start, records to write. Each
        application's turn and each other part come whatever goes wrong with the rest."""
        for application in memory.by_rank(self.applications.values()):
            with guarded(application, "its turn in a pass"):
                self._turn(application, now_s)
        if self.growing is not None:
            with self.parts.guarded("starting and ending workers"):
                self.growing.tick(now_s)
        if now_s - self._saved_s > SAVE_S:
            self._saved_s = now_s
            with self.parts.guarded("storing counters"):
                self.registry.save_counters()
            with self.parts.guarded("emptying the store's log"):
                self.store.checkpoint()

    def _turn(self, application: Application, now_s: float) -> None:
        if not application.ended and self._driver_gone(application, now_s):
            self.registry.end(application, "its driver died", now_s)
            self.bump(application)
        if application.ended:
            self._try_finish(application, now_s)
        elif self._reconcile(application, now_s):
            self.bump(application)

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
        if not self.finisher.begun(application):
            if not self._cleaned_up(application, now_s - application.ended_monotonic_s, now_s):
                return
            used = {e.record.worker_id for e in application.executors.values()}
            runtime = next((w.info.runtime for w in self.workers.by_id.values() if w.info.worker_id in used), "none")
            self.finisher.begin(application, self.workers.capacity(application, now_s), runtime)
        written = self.finisher.step(application, now_s)
        if written is not None:
            self._finished(application, written, now_s)

    def _cleaned_up(self, application: Application, waited_s: float, now_s: float) -> bool:
        """Whether all last words of its executors are here, or were waited for long enough."""
        heard = {info.worker_id for info in self.workers.fresh(now_s)}
        left = [e for e in application.executors.values() if not e.cleaned and e.record.worker_id in heard]
        return not left or waited_s >= CLEAN_UP_S

    def _finished(self, application: Application, written: Written, now_s: float) -> None:
        application.record.unrecorded = written.problem
        try:
            self.registry.finished(application, written.removed)
        except sqlite3.Error as error:
            given_up = self.finisher.failed(application, error, now_s)
            if given_up is None:
                return
            # a restart will try again; nobody waits for it here
            application.finished, application.record.unrecorded = True, given_up.problem
        self.finisher.over(application)

    # ------------------------------------------------------------------ rules

    def _reconcile(self, application: Application, now_s: float) -> bool:
        """Brings the executors to what Spark wants; says whether anything changed."""
        with guarded(application, "bringing its executors about"):
            return not application.ended and self._bring_executors(application, now_s)
        return False

    def _bring_executors(self, application: Application, now_s: float) -> bool:
        if reason := executors.too_many_failures(application):
            self.registry.end(application, reason, now_s)
            return True
        found = len(application.record.comes_after)
        if dependencies.settle(application, self.applications, self.registry.past):
            self.registry.end(application, application.held_back, now_s)
            return True
        if len(application.record.comes_after) != found:
            self.registry.save(application)
        try:
            return executors.reconcile(application, self.registry, self.placing, now_s)
        except PaceError as error:
            application.waiting = f"its executors cannot be placed: {error}"
            application.notify(application.waiting)
            return False

    def _reconcile_all(self, now_s: float) -> None:
        for application in memory.by_rank(self.applications.values()):
            if self._reconcile(application, now_s):
                self.bump(application)

    # ------------------------------------------------------------------ memory of the master

    def _again(self, registration: Registration, now_s: float) -> Registered | None:
        """A bridge that registers once more is given a new token for what it already had; None for what nobody here knows.
        Raises `Denied` for an application of another driver, `BadInput` for one that has ended."""
        application_id = registration.application_id or ""
        application = self.applications.get(application_id)
        if application is None:
            if application_id in self.registry.past or (
                application_id and self.recorder.recorded(checked_id(application_id))
            ):
                raise BadInput(f"application {application_id} has ended; accepted: a new one, which gets an id of its own")
            return None
        if application.record.registration.instance != registration.instance:
            raise Denied(f"application {application_id} is another driver's; accepted: a registration without its id")
        token = mint()
        application.record.token_hash = digest(token)
        application.heard_s = now_s
        self.registry.save(application)
        return Registered(application_id=application.id, token=token, acknowledged=application.acknowledged)

    def _new_notices(self, application: Application) -> tuple[str, ...]:
        new = tuple(application.notices[application.noticed :])
        application.noticed = len(application.notices)
        return new
