"""Reports of agents are taken in, and answered with the desired states of their workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from controller.master.core import executors, lateness, needs, planning
from controller.master.core.application import Application
from controller.master.core.effects import WriteSamples
from controller.master.core.executor_state import Executor
from controller.master.core.guard import guarded
from controller.master.core.hosting import Hosting
from controller.master.core.lifecycle import Lifecycle
from controller.master.core.registry import Registry
from controller.master.core.workers import Worker
from controller.runtime.base import ExecutorKey
from controller.wire.limits import NOTE_LENGTH, NOTES
from controller.wire.states import ExecutorState, Outcome
from controller.wire.worker import AdoptedSpec, Desired, ExecutorReport, ExecutorSpec, Sample, WorkerReply, WorkerSync
from master_memory.split import POLICIES
from stage_model.errors import Denied
from stage_model.plan import ApplicationPlan
from stage_model.progress import Progress

COME_BACK_S = 60.0
"""Time for drivers to register again with a master that does not know their applications: a bridge tries every 10 s at the
latest (5 s of patience, 5 s of back-off). Until then nothing of an unknown application is touched."""


class Agents:
    """The handler of agents' reports; `memory_policy` divides a worker's off-heap memory (`master_memory.split`)."""

    def __init__(self, registry: Registry, lifecycle: Lifecycle, hosting: Hosting, memory_policy: str) -> None:
        self.registry, self.lifecycle, self.hosting = registry, lifecycle, hosting
        self._divide = POLICIES[memory_policy]

    def take(self, worker_id: str, sync: WorkerSync, now_s: float) -> None:
        """Take an agent's report in. Raise `Denied` if the agent of another worker sent it."""
        if sync.worker.worker_id != worker_id:
            raise Denied(
                f"the token of {worker_id} cannot report for worker {sync.worker.worker_id!r:.80}; give that worker's token"
            )
        worker, joins = self.registry.workers.heard(sync.worker, now_s, leaves=sync.leaves)
        for note in sync.notes[:NOTES]:
            self.registry.changes.log(f"worker {worker_id}: {note[:NOTE_LENGTH]}", "warning")
        self._take_samples(worker, sync)
        self._take_reports(worker, sync, now_s)
        self.hosting.take(worker_id, sync.drivers, now_s)
        if joins or self.registry.changes.noted:
            self.registry.changes.room()

    def reply(self, worker_id: str, now_s: float) -> WorkerReply:
        """Return the answer to a report that was taken in and followed up; it holds the desired state of the worker."""
        acknowledged = self.registry.workers.by_id[worker_id].samples_acknowledged
        return WorkerReply(samples_acknowledged=acknowledged, desired=self.desired(worker_id, now_s))

    def _take_reports(self, worker: Worker, sync: WorkerSync, now_s: float) -> None:
        """Take in what the agent says of executors and drivers."""
        worker_id = worker.info.worker_id
        for report in sync.executors:
            application = self.registry.applications.get(report.application_id)
            if application is not None:
                with guarded(application, "taking in an agent's report"):
                    executors.take_over(application, worker.info, report, self.registry)
                    self._take_report(worker_id, sync.instance, application, report, now_s)
        if (worker.relief_steps > 0) is not (sync.relief_steps > 0):
            self.registry.changes.worker(worker_id)
        worker.reports, worker.timings, worker.relief_steps = sync.executors, sync.timings, sync.relief_steps
        worker.sends_logs = sync.logs is not None
        reported = {(report.application_id, report.executor_id) for report in sync.executors}
        for application, executor in self.registry.on(worker_id):
            key = ExecutorKey(application.id, executor.record.executor_id)
            if executors.stopped(application, executor) and key not in reported:
                executor.cleaned = True
                self.registry.changes.worker(worker_id)
                executor.record.gone = executor.record.gone or executors.last_word(executor, None, "removed")
        for application_id in sync.drivers_gone:
            gone = self.registry.applications.get(application_id)
            # an agent cannot know of a driver on another machine
            if gone and not gone.ended and gone.record.registration.boot_id == worker.info.boot_id:
                with guarded(gone, "ending it"):
                    self.registry.end(gone, now_s, Outcome.DRIVER_DIED)
        worker.strays = frozenset(self._strays(worker_id, sync.executors, now_s))

    def _strays(self, worker_id: str, reports: Iterable[ExecutorReport], now_s: float) -> Iterator[ExecutorKey]:
        """Yield the reported executors that no one here will ever want again: those of applications that have ended, and
        those of unknown applications that have exited, once the drivers had time to register again. An executor of an unknown
        application that still runs is kept: it may be all that is left of a job after the master has lost its memory."""
        for report in reports:
            application = self.registry.applications.get(report.application_id)
            executor = application.executors.get(report.executor_id) if application else None
            if executor is not None and executor.record.worker_id == worker_id:
                continue
            unclaimed = application is None and now_s - self.registry.life.begun_s >= COME_BACK_S
            if self._has_ended(report.application_id) or (unclaimed and report.state is ExecutorState.EXITED):
                yield ExecutorKey(report.application_id, report.executor_id)

    def desired(self, worker_id: str, now_s: float) -> Desired:
        """Return the desired state of a worker at this time."""
        known = self.registry.workers.by_id.get(worker_id)
        strays = known.strays if known else frozenset[ExecutorKey]()
        adopted, progress = list[AdoptedSpec](), dict[str, Progress]()
        specs, stopped = list[ExecutorSpec](), [key.text for key in sorted(strays)]
        here: dict[str, Application] = {}
        for application, executor in self.registry.on(worker_id):
            if executor.cleaned:
                continue
            here[application.id] = application
            key = ExecutorKey(application.id, executor.record.executor_id)
            if executors.stopped(application, executor):
                stopped.append(key.text)
            else:
                if executor.record.spec is not None:
                    specs.append(executor.record.spec)
                elif executor.record.adopted is not None:
                    adopted.append(executor.record.adopted)
                if executor.progress is not None:
                    progress[key.text] = executor.progress
        plans: list[ApplicationPlan] = []
        for application in here.values():
            if not application.ended:
                # without a new plan the application's agents go on by the last one
                with guarded(application, "planning"):
                    most = self.registry.workers.capacity(application, now_s)
                    plans.append(planning.application_plan(application, worker_id, most, now_s))
        over = {application.id for application in here.values() if application.ended}
        started = {spec.application_id for spec in specs}
        over |= {key.application_id for key in strays if self._has_ended(key.application_id)}
        return Desired(
            cluster_id=self.registry.life.cluster_id,
            generation=self.registry.life.generation,
            version=self.lifecycle.version(worker_id),
            executors=tuple(specs),
            adopted=tuple(adopted),
            progress=progress,
            stopped=tuple(stopped),
            ended=tuple(sorted(over)),
            applications=tuple(plans),
            credentials={
                application.id: application.credentials
                for application in here.values()
                if application.credentials is not None and application.id in started
            },
            leave=known.leaving if known else False,
            budgets_mb=self._divide(known.info.memory_mb, needs.needs(self.registry.on(worker_id))) if known else {},
            logs=tuple(sorted(known.wanted_logs)) if known else (),
            drivers=self.hosting.specs(worker_id),
            drivers_here=self.hosting.here(worker_id),
            drivers_stopped=self.hosting.stops(worker_id),
        )

    def _has_ended(self, application_id: str) -> bool:
        application = self.registry.applications.get(application_id)
        return application.ended if application is not None else application_id in self.registry.past

    def _take_samples(self, worker: Worker, sync: WorkerSync) -> None:
        if sync.instance != worker.instance:
            worker.instance, worker.samples_acknowledged = sync.instance, 0
        fresh: defaultdict[str, list[Sample]] = defaultdict(list)
        for sample in sync.samples[max(0, worker.samples_acknowledged - sync.sample_seq) :]:
            application = self.registry.applications.get(sample.application_id)
            executor = application.executors.get(sample.executor_id) if application else None
            if application and executor and executor.record.worker_id == worker.info.worker_id:
                with guarded(application, "taking in a sample"):
                    fresh[application.id].append(self._sampled(worker, application, executor, sample))
                    lateness.watch_forecast(application, executor, sample)
        for application_id, samples in fresh.items():
            self.registry.changes.effect(WriteSamples(application_id, samples))
        worker.samples_acknowledged = max(worker.samples_acknowledged, sync.sample_seq + len(sync.samples))

    def _sampled(self, worker: Worker, application: Application, executor: Executor, sample: Sample) -> Sample:
        """Return the sample with the executor's debt. Core-seconds withheld since the last sample are put down to the
        applications that had cores on this worker, unless its machine was under pressure: then no application had them."""
        before, before_core_s = executor.sample, executor.record.debt.withheld_core_s
        taken = executor.sampled(sample, worker.info.cores / worker.info.nodes)
        withheld_core_s = executor.record.debt.withheld_core_s - before_core_s
        if withheld_core_s > 0 and not (before is not None and before.pressed):
            others = ((one, e) for one, e in self.registry.on(worker.info.worker_id) if one is not application and e.live)
            grants = defaultdict[str, float](float)
            for other, theirs in others:
                grants[other.name] += theirs.sample.grant if theirs.sample is not None else 0.0
            executor.withheld(withheld_core_s, grants)
        return taken

    def _take_report(
        self, worker_id: str, instance: str, application: Application, report: ExecutorReport, now_s: float
    ) -> None:
        executor = application.executors.get(report.executor_id)
        if executor is None or executor.record.worker_id != worker_id:
            return
        application.take(executor, instance, report)
        executor.at_risk = executor.at_risk and bool(report.risk)
        # an executor thought removed that is reported (a start crossed the order to stop) is to be stopped again
        if executor.cleaned:
            executor.cleaned = False
            self.registry.changes.worker(worker_id)
        if not executor.live:
            return
        if report.state is ExecutorState.EXITED and report.made_room:
            executors.lose(application, executor, report.reason, self.registry)
            return
        if report.state is ExecutorState.EXITED:
            executors.gone(application, executor, report.exit_code, report.reason, self.registry.changes, now_s)
        elif report.state is ExecutorState.RUNNING and report.risk:
            # the words of a risk differ each time, so it is reported once until it is over
            if not executor.at_risk:
                executor.at_risk = True
                application.notify(f"executor {report.executor_id}: {report.risk}")
            return
        elif report.state is ExecutorState.REFUSED and application.attached:
            application.notify(f"executor {report.executor_id} goes on at whatever speed it has: {report.reason}")
            return
        elif report.state is ExecutorState.REFUSED:
            executors.gone(application, executor, None, report.reason, self.registry.changes, now_s)
            why = f"an executor was refused on worker {worker_id}: {report.reason}"
            self.registry.end(application, now_s, Outcome.STOPPED, why)
        else:
            return
        self.registry.save_executor(application, executor)
