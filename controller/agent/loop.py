"""The control loop of one worker, a shell around the pure core (`core`, read that first).

`run_once`: look at every executor, let the core decide, write changed quotas, start and stop executors as ordered, report;
each phase is timed. The network is `link`'s, the process `child`'s. Nothing here stops an executor without an explicit order,
a provably dead driver, too many files on the disk (`local_use`) or a machine under pressure (`core.relief`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from controller.agent.core.estimates import OtherLoad
from controller.agent.core.relief import Machine
from controller.agent.core.step import ExecutorInput, LoopState, Snapshot, TimedPlan, next_period_s, step
from controller.agent.executors.known import KnownExecutor, KnownExecutors
from controller.agent.executors.launcher import Launcher
from controller.agent.executors.local_use import OVER_CODE
from controller.agent.executors.log_tails import log_tails
from controller.agent.executors.resizing import Resizing
from controller.agent.executors.starting import Spec, Start
from controller.agent.quota_writer import QuotaWriter
from controller.agent.relieving import Relieving, residents_of
from controller.agent.report import Outbox, Standing
from controller.agent.timings import PeriodTimings
from controller.runtime.base import ExecutorKey, Observed, Runtime
from controller.wire.states import ExecutorState
from controller.wire.worker import Desired, WorkerInfo, WorkerSync
from stage_model.settings import QuotaSettings

FIRST_WORD_S = 5.0
"""Time for which an agent that begins waits for the master's first word before it changes quotas that another has left.
Without plans, all executors would get equal shares, and a second later their former quotas."""
UNHEARD_S = 10.0
"""Silence after which an executor that reports through its driver, every 2 s, may have work that is not known here."""
LEAVE_S = 30.0
"""Time for executors to end before an agent that is to leave ends them, and as long again until the master has the report."""
LOGS_S = 10.0
"""Time after a word of the master in which reports have the logs that it asks for."""
NOTHING_DESIRED = Desired(cluster_id="", generation=0, version=0)
"""The desired state until the master's first word."""


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks at the machine around the executors. `over_limit`: applications that keep too much on the disk, with the reason;
    each finding is returned once. `busy_s`: CPU seconds that the whole machine has used, where others work on it, too.
    `room`: the room that is left on it."""

    over_limit: Callable[[], Mapping[str, str]] = dict
    busy_s: Callable[[], float] | None = None
    room: Callable[[], Machine] = Machine


class Agent:
    """One worker's controller. `instance` names this life of it."""

    def __init__(
        self,
        worker: WorkerInfo,
        launcher: Launcher,
        quota: QuotaSettings,
        *,
        instance: str,
        looks: Looks | None = None,
    ) -> None:
        self.worker, self.launcher, self.quota, self.instance = worker, launcher, quota, instance
        self.runtime: Runtime = launcher.runtime
        self.desired, self._desired_s = NOTHING_DESIRED, 0.0
        """The newest accepted desired state and the time when it came (monotonic seconds)."""
        self.leave_s: float | None = None
        """Time when the master first asked this agent to end."""
        self.outbox = Outbox()
        self.executors = KnownExecutors(worker, launcher, self.outbox.note)
        self.known = self.executors.by_key
        self.plans: dict[str, TimedPlan] = {}
        self.state = LoopState()
        self.resizing = Resizing(worker, launcher, self.outbox.note)
        self.timings = PeriodTimings(launcher.clock)
        self.quota_writer = QuotaWriter(
            self.runtime, self.executors.node_cores, self.timings, self.outbox.note, launcher.clock
        )
        self._looks, self._begun_s = looks or Looks(), launcher.clock()
        self._other_load = OtherLoad()
        self.relieving = Relieving(self._looks.room, self.outbox.note)
        self._ended: dict[ExecutorKey, Standing] = {}
        """Executors that this agent ended by itself, with what is reported of them."""

    def receive(self, desired: Desired, at_s: float) -> None:
        """Take the master's newest word, which came at `at_s` (monotonic seconds)."""
        self.desired, self._desired_s = desired, at_s
        if desired.leave and self.leave_s is None:
            self.leave_s = at_s

    @property
    def _leaving_for_s(self) -> float:
        """Seconds since the master first asked this agent to end; 0 if it has not."""
        return 0.0 if self.leave_s is None else self.launcher.clock() - self.leave_s

    @property
    def is_overdue(self) -> bool:
        """True once this agent has waited long enough for an answer to its last report, and ends without it."""
        return self._leaving_for_s > 2 * LEAVE_S

    def next_period_s(self) -> float:
        """Return the seconds from one period's start to the next one's."""
        return next_period_s(self.plans.values(), self.quota.period_s, self.launcher.clock())

    def run_once(self) -> WorkerSync:
        """Run one period; return the report for the master."""
        now_s = self.timings.begin()
        self.executors.begin_period()
        self._take_desired()
        observed = dict(self.runtime.observe())
        self.launcher.seen(observed)
        for key, seen in observed.items():
            with self.outbox.trouble_of(key):
                self.executors.read(key, seen, self.desired)
        self.executors.count_claims(observed)
        self.relieving.relieve(residents_of(self.known, self.plans, observed), now_s)
        self.timings.ended("look")
        # before CPU is shared, because an executor without memory needs no CPU
        if not self.worker.adopts:  # the cluster manager accounts for the memory of adopted executors
            self.resizing.share(self.desired, observed, self.known, self.relieving.floored)
        self.timings.ended("share memory")
        orders, self.state = step(self._snapshot(observed), self.state, now_s)
        self.timings.ended("decide")
        for key, error in orders.troubles.items():
            self.outbox.note_trouble(key, error)
        if self.desired is not NOTHING_DESIRED or self.launcher.clock() >= self._begun_s + FIRST_WORD_S:
            starting = self._starting(orders.grants.keys() - observed.keys())
            self.quota_writer.write(orders, observed, self.state.executors, starting)
        self.timings.ended("write quotas")
        self._reconcile(observed, orders.grants)
        self.outbox.keep(orders.samples)
        report = self._report(observed)
        self.timings.ended("reconcile and report")
        self.timings.end(self.quota.period_s)
        return report

    # ------------------------------------------------------------------ observe

    def _take_desired(self) -> None:
        for plan in self.desired.applications:
            self.plans[plan.application_id] = TimedPlan(plan, self._desired_s)
        specs: tuple[Spec, ...] = (*self.desired.executors, *self.desired.adopted)
        for spec in specs:
            key = ExecutorKey(spec.application_id, spec.executor_id)
            with self.outbox.trouble_of(key):
                self.executors.take(key, spec)

    def _snapshot(self, observed: Mapping[ExecutorKey, Observed]) -> Snapshot:
        now_s, cores = self.launcher.clock(), self.executors.node_cores
        executors = {
            key: ExecutorInput(
                slots=known.slots,
                observed=observed.get(key),
                progress=known.progress if key in observed else None,
                floor=max(self.quota.floor, self.resizing.least_cores(key)),
                waits=self._waits(key, known),
                silent=known.heard is not None and now_s - known.heard[1] > UNHEARD_S,
                pressed=self.relieving.why if key.application_id in self.relieving.slowed else "",
            )
            for key, known in self.known.items()
        }
        if self._looks.busy_s is not None:
            own_s = sum([seen.cpu_s for seen in observed.values()])
            self._other_load = self._other_load.after(now_s, self._looks.busy_s(), own_s)
            cores = self._other_load.available(cores)
        return Snapshot(cores, self.quota, executors, self.plans, min(1.0, self.executors.node_cores))

    def _waits(self, key: ExecutorKey, known: KnownExecutor) -> bool:
        """Return True if an executor that is not there yet may not start."""
        if known.adopted:
            return self.launcher.state(key) is ExecutorState.REFUSED
        return self._may_start(key) is None

    def _may_start(self, key: ExecutorKey) -> int | None:
        """Return the memory limit in MiB that an executor is to be started with; None: there is no room for it yet."""
        return None if key.application_id in self.relieving.ended else self.resizing.may_start(key)

    def _starting(self, awaited: Collection[ExecutorKey]) -> dict[ExecutorKey, float]:
        """Return the most cores with which each of these executors, which are not there yet, can show up. A watched executor
        is not held back for other executors, and other executors are not held back for it."""
        specs: tuple[Spec, ...] = (*self.desired.executors, *self.desired.adopted)
        watched = {ExecutorKey(spec.application_id, spec.executor_id) for spec in specs if spec.watched}
        return {key: self.launcher.most_cores(key) for key in awaited if key not in watched}

    # ------------------------------------------------------------------ act

    def _reconcile(self, observed: Mapping[ExecutorKey, Observed], grants: Mapping[ExecutorKey, float]) -> None:
        stopped = {ExecutorKey.parse(text) for text in self.desired.stopped}
        for spec in self.desired.executors:
            key = ExecutorKey(spec.application_id, spec.executor_id)
            memory_mb = self._may_start(key)
            if key not in observed and key not in stopped and memory_mb is not None:
                credentials = self.desired.credentials.get(key.application_id) if spec.authenticated else None
                cores = self.executors.node_cores if spec.watched else grants.get(key, self.quota.floor)
                self.launcher.start(Start(key, spec, cores, memory_mb, credentials))
        for adopted in self.desired.adopted:
            key = ExecutorKey(adopted.application_id, adopted.executor_id)
            if key not in observed and key not in stopped:
                self.launcher.start(Start(key, adopted, grants.get(key, self.quota.floor)))
        for key in set(observed) | set(self.known):
            with self.outbox.trouble_of(key):
                if key in stopped or self.executors.orphaned(key):
                    self._remove(key, observed.get(key))
        for application, reason in self._looks.over_limit().items():
            self._end_all(application, Standing(ExecutorState.EXITED, reason, OVER_CODE), observed)
        for application in self.relieving.ended:
            reason = f"it makes room for a higher priority (--evict): {self.relieving.why}"
            self._end_all(application, Standing(ExecutorState.EXITED, reason, made_room=True), observed)
        applications = {key.application_id for key in self.known}
        applications |= {plan.application_id for plan in self.desired.applications}
        self.plans = {a: plan for a, plan in self.plans.items() if a in applications}

    def _end_all(self, application_id: str, end: Standing, observed: Mapping[ExecutorKey, Observed]) -> None:
        """End all executors of an application here, except watched ones; `end` is reported of them. All of them end together,
        because they share the application's local directory."""
        for key, seen in observed.items():
            if key.application_id == application_id and seen.running and not seen.watched:
                if key not in self._ended:
                    self.outbox.note(f"executor {key.executor_id} of {application_id} is ended: {end.reason}")
                self._ended.setdefault(key, end)
                self.launcher.stop(key)

    def _remove(self, key: ExecutorKey, seen: Observed | None) -> None:
        over = key.text in self.desired.stopped  # so its last report has arrived
        if seen is not None and seen.running:
            self.launcher.stop(key)
        elif seen is not None:
            if over or key not in self.known:
                self.runtime.remove(key)
        else:
            self.launcher.withdraw(key)
            if over and not self.launcher.busy(key):
                self.launcher.forget(key, application_over=key.application_id in self.desired.ended)
                if not self.worker.adopts:
                    self.resizing.forget(key)
                self.known.pop(key, None)
                self.outbox.forget(key)
                self._ended.pop(key, None)

    # ------------------------------------------------------------------ report

    def _report(self, observed: Mapping[ExecutorKey, Observed]) -> WorkerSync:
        reports, gone = [], set()
        for key, known in self.known.items():
            if self.executors.orphaned(key):
                gone.add(key.application_id)
            seen, history, container = observed.get(key), self.state.executors.get(key), self.resizing.container(key)
            standing = self._standing(key, seen)
            log_dir = "" if known.adopted else str(self.launcher.site.log_dir(key))
            reports.append(self.outbox.report_on(key, standing, seen, history, container, log_dir))
        return WorkerSync(
            instance=self.instance,
            cluster_id=self.desired.cluster_id,
            generation=self.desired.generation,
            worker=structs.replace(self.worker, images=self.launcher.images),
            executors=tuple(reports),
            sample_seq=self.outbox.first,
            samples=self.outbox.next_samples(),
            drivers_gone=tuple(sorted(gone)),
            notes=self.outbox.notes(),
            timings=self.timings.message(),
            relief_steps=self.relieving.steps_taken,
            leaves=self.leave_s is not None and (not self.known or self._leaving_for_s > LEAVE_S),
            logs=log_tails(self._wanted_logs(), self.launcher.site),
        )

    def _wanted_logs(self) -> Sequence[str]:
        """Return the executors whose logs people read now; no executor once the master has been silent, because then they no
        longer wait."""
        return self.desired.logs if self.launcher.clock() - self._desired_s < LOGS_S else ()

    def _standing(self, key: ExecutorKey, seen: Observed | None) -> Standing:
        if seen is not None and seen.running:
            return Standing(ExecutorState.RUNNING, seen.reason, seen.exit_code)
        if seen is not None and key in self._ended:
            return self._ended[key]
        if seen is not None:
            return Standing(ExecutorState.EXITED, seen.reason, seen.exit_code)
        reason = self.launcher.reason(key)
        if not reason and key.application_id in self.relieving.ended:
            reason = f"it waits for room on worker {self.worker.worker_id}: {self.relieving.why}"
        elif not reason and not self.known[key].adopted and self.resizing.may_start(key) is None:
            reason = f"other executors on worker {self.worker.worker_id} are still giving up the memory it needs"
        return Standing(self.launcher.state(key), reason)
