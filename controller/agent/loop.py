"""The control loop of one worker: `run_once` is the algorithm, read it first.

Observe every executor, decide what each needs, arbitrate between applications, apply changed quotas, reconcile what should
run, report. This is the shell around pure parts (`accounting`, `decide`, `arbitrate`); the network is `link`'s, the process
`child`'s. Nothing here stops an executor without an explicit order or a provably dead driver.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import structs

from controller.agent.accounting import Account
from controller.agent.apply import SAME_CORES, Change, changes
from controller.agent.arbitrate import arbitrate
from controller.agent.asking import request, squeezed
from controller.agent.budgets import Budgets
from controller.agent.decide import Decision, Memory, aged, decide
from controller.agent.launch import Site
from controller.agent.launcher import Launcher, Start
from controller.agent.progress_file import ProgressRefused, read_progress
from controller.messages import Desired, ExecutorReport, ExecutorSpec, Sample, WorkerInfo, WorkerSync
from controller.processes import ProcessId, alive
from controller.runtime.base import ExecutorKey, Observed, Runtime
from stage_model.errors import RuntimeFailed
from stage_model.plan import ApplicationPlan
from stage_model.progress import MemoryProgress
from stage_model.settings import QuotaSettings

log = logging.getLogger("sparkpace.agent")

REPEATED_S = 60.0
"""A stage's counters are reported for so long after it ran, or after the master last answered: a report may be lost."""
SAMPLES_KEPT = 100_000
"""Samples kept while the master is away; older ones are dropped (a day of one executor)."""


@dataclass(slots=True)
class _Held:
    """What the agent knows of one executor besides what the runtime shows."""

    account: Account
    control_dir: Path
    log_dir: str
    spec: ExecutorSpec | None = None
    memory: Memory = field(default_factory=Memory)
    decision: Decision | None = None
    grant: float = 0.0
    sampled: tuple[float, float] | None = None
    """Time and container CPU at its last sample."""
    told_memory: MemoryProgress | None = None
    """What it said last of its off-heap memory."""
    last_sampled: bool = False
    """It has exited and its last sample is taken."""
    complaint: str = ""


@dataclass(frozen=True, slots=True)
class Received:
    """Desired state and when it came (monotonic seconds)."""

    desired: Desired
    at_s: float


class Agent:
    """One worker's controller. `clock` is monotonic seconds; `received` returns the newest accepted desired state."""

    def __init__(
        self,
        worker: WorkerInfo,
        site: Site,
        runtime: Runtime,
        launcher: Launcher,
        *,
        instance: str,
        period_s: float,
        quota: QuotaSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.worker, self.site, self.runtime, self.launcher = worker, site, runtime, launcher
        self.instance, self.period_s, self.quota, self.clock = instance, period_s, quota, clock
        self.received: Received | None = None
        self.held: dict[ExecutorKey, _Held] = {}
        self.samples: list[Sample] = []
        self.sample_seq = 0
        self.plans: dict[str, tuple[ApplicationPlan, float]] = {}
        self.notes: list[str] = []
        self._notes_lock = threading.Lock()
        self.budgets = Budgets(worker, site, runtime, launcher, self.note)
        self._last_tick_s: float | None = None
        self._last_sample_s = 0.0
        self._heard_s = 0.0
        self._troubles: dict[ExecutorKey, str] = {}
        self._drivers: dict[ProcessId, bool] = {}
        """Whether those asked about in this period live: an application's executors, several questions, one answer."""

    def run_once(self) -> WorkerSync:
        """One period: returns the report for the master."""
        now_s = self.clock()
        self._drivers.clear()
        self._take_desired()
        observed = self.runtime.observe()
        self._account(observed, now_s)
        self._share_memory(observed)
        self._decide(observed, now_s)
        grants = self._arbitrate(now_s)
        self._apply(observed, grants)
        self._reconcile(observed, grants)
        self._sample(observed, now_s)
        self._last_tick_s = now_s
        return self._report(observed)

    @contextmanager
    def _trouble_of(self, key: ExecutorKey) -> Iterator[None]:
        """What goes wrong inside is this executor's trouble alone: told once as long as it stays the same."""
        try:
            yield
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
            if self._troubles.get(key) != said:
                self._troubles[key] = said
                log.exception("executor %s of %s", *key[::-1])
                self.note(f"executor {key.executor_id} of {key.application_id} cannot be handled as usual: {said[:300]}")

    # ------------------------------------------------------------------ observe

    def _take_desired(self) -> None:
        if self.received is None:
            return
        for plan in self.received.desired.applications:
            self.plans[plan.application_id] = (plan, self.received.at_s)
        for spec in self.received.desired.executors:
            key = ExecutorKey(spec.application_id, spec.executor_id)
            with self._trouble_of(key):
                held = self.held.get(key)
                if held is None:
                    self.held[key] = self._hold(key, spec.slots, spec)
                elif held.spec is None:
                    held.spec, held.account.slots = spec, spec.slots

    def _account(self, observed: Mapping[ExecutorKey, Observed], now_s: float) -> None:
        for key, seen in observed.items():
            with self._trouble_of(key):
                self._account_one(key, seen, now_s)

    def _account_one(self, key: ExecutorKey, seen: Observed, now_s: float) -> None:
        held = self.held.get(key) or self._adopt(key, seen)
        progress = None
        try:
            uid = held.spec.uid if held.spec else held.control_dir.stat().st_uid
            progress = read_progress(held.control_dir, key.executor_id, uid)
            held.complaint = ""
        except (ProgressRefused, OSError) as error:
            if str(error) != held.complaint and seen.running:
                held.complaint = str(error)
                self.note(f"{error}; its container CPU is used instead")
        held.account.observe(now_s, seen.cpu_s, seen.quota_cores or 0.0, progress)
        held.told_memory = progress.memory if progress else held.told_memory

    def _adopt(self, key: ExecutorKey, seen: Observed) -> _Held:
        """An executor found here: its slots are the worker's until the master describes it again."""
        spec = self.launcher.remembered(key)
        slots = spec.slots if spec else max(1, round(self.worker.cores + 0.49))
        held = self.held[key] = self._hold(key, slots, spec)
        what = "running" if seen.running else "ended"
        self.note(f"adopted {what} executor {key.executor_id} of {key.application_id}")
        return held

    def _hold(self, key: ExecutorKey, slots: int, spec: ExecutorSpec | None) -> _Held:
        return _Held(Account(slots), self.site.control_dir(key), str(self.site.log_dir(key)), spec)

    def _share_memory(self, observed: Mapping[ExecutorKey, Observed]) -> None:
        """Orders and limits of memory, and who may start: before CPU is shared, as one without memory needs none."""
        self.budgets.share(
            self.received.desired if self.received else None,
            observed,
            {key: held.spec for key, held in self.held.items()},
            {key: held.told_memory for key, held in self.held.items()},
        )

    # ------------------------------------------------------------------ decide

    def _decide(self, observed: Mapping[ExecutorKey, Observed], now_s: float) -> None:
        dt_s = self.period_s if self._last_tick_s is None else now_s - self._last_tick_s
        for key, held in self.held.items():
            seen = observed.get(key)
            if (not seen.running) if seen else (self.budgets.may_start(key) is None):
                # it runs no more, not yet or never will: it must not hold cores that others can use
                held.decision = None
                continue
            # fail open: without a plan, or one that nothing can be decided by, an executor gets all it can use
            held.decision = Decision(float(held.account.slots), held.memory, "no plan yet")
            with self._trouble_of(key):
                held.decision = self._decision(key, held, dt_s, now_s) or held.decision
                held.memory = held.decision.memory

    def _decision(self, key: ExecutorKey, held: _Held, dt_s: float, now_s: float) -> Decision | None:
        """What its application's plan asks for it; None without a plan."""
        plan, at_s = self.plans.get(key.application_id, (None, 0.0))
        if plan is None:
            return None
        decision = decide(
            aged(plan, now_s - at_s),
            held.account.executor(now_s),
            held.memory,
            dt_s=dt_s,
            period_s=self.period_s,
            quota=self.quota,
        )
        if math.isnan(decision.demand):
            raise ValueError(f"its law asks for {decision.demand} cores")
        return decision

    def _arbitrate(self, now_s: float) -> dict[ExecutorKey, float]:
        requests = []
        for key, held in self.held.items():
            if held.decision is None:
                continue
            plan, at_s = self.plans.get(key.application_id, (None, 0.0))
            floor = max(self.quota.floor, self.budgets.least_cores(key))
            requests.append(request(key, key.application_id, held.decision, plan, now_s - at_s, floor))
        grants = arbitrate(requests, self.worker.cores, self.quota.core_quantum, period_s=self.period_s)
        for key, grant in grants.items():
            self.held[key].grant = grant
        return grants

    # ------------------------------------------------------------------ act

    def _apply(self, observed: Mapping[ExecutorKey, Observed], grants: Mapping[ExecutorKey, float]) -> None:
        current = {k: seen.quota_cores for k, seen in observed.items() if seen.running and k in grants}
        lowered = True
        for change in changes(current, grants):  # those that lower come first
            if (change.lowers or lowered or self._has_room(current, change)) and self._set_quota(change):
                current[change.key] = change.cores
            elif change.lowers:
                lowered = False

    def _has_room(self, current: Mapping[ExecutorKey, float | None], change: Change) -> bool:
        """After a failed lowering a quota is raised only while the sum of what is really set stays within the worker."""
        others = sum(math.inf if cores is None else cores for key, cores in current.items() if key != change.key)
        return others + change.cores <= self.worker.cores + SAME_CORES

    def _set_quota(self, change: Change) -> bool:
        """Whether it was written, or the executor is gone and needs none."""
        held = self.held[change.key]
        try:
            self.runtime.set_quota(change.key, change.cores)
        except Exception as error:
            if not isinstance(error, RuntimeFailed):
                log.exception("quota %s/%s", *change.key)  # nobody thought of it; the others are to have theirs all the same
            self.note(f"quota of executor {change.key.executor_id} was not set and will be tried again: {error}")
            return False
        log.info(
            "quota %s/%s %s -> %.2f cores: %s",
            change.key.application_id,
            change.key.executor_id,
            "none" if change.before is None else f"{change.before:.2f}",
            change.cores,
            held.decision.reason if held.decision else "",
        )
        return True

    def _reconcile(self, observed: Mapping[ExecutorKey, Observed], grants: Mapping[ExecutorKey, float]) -> None:
        desired = self.received.desired if self.received else None
        stopped = {ExecutorKey(*s.split("/", 1)) for s in desired.stopped} if desired else set()
        for spec in desired.executors if desired else ():
            key = ExecutorKey(spec.application_id, spec.executor_id)
            memory_mb = self.budgets.may_start(key)
            if key not in observed and key not in stopped and memory_mb is not None:
                self.launcher.start(Start(key, spec, grants.get(key, self.quota.floor), memory_mb))
        for key in set(observed) | set(self.held):
            with self._trouble_of(key):
                if key in stopped or self._orphaned(key):
                    self._remove(key, observed.get(key))
        known = {k.application_id for k in self.held}
        if desired:
            known |= {p.application_id for p in desired.applications}
        self.plans = {a: p for a, p in self.plans.items() if a in known}

    def _orphaned(self, key: ExecutorKey) -> bool:
        """Only a driver that provably died here makes an orphan; silence does not."""
        held = self.held.get(key)
        spec = held.spec if held else None
        if spec is None or not spec.driver_pid or spec.driver_boot_id != self.worker.boot_id:
            return False
        driver = ProcessId(pid=spec.driver_pid, start=spec.driver_pid_start, boot_id=spec.driver_boot_id)
        if driver not in self._drivers:
            self._drivers[driver] = alive(driver)
        return not self._drivers[driver]

    def _remove(self, key: ExecutorKey, seen: Observed | None) -> None:
        if seen is not None:
            if seen.running:
                self.launcher.stop(key)
                return
            if key not in self.held or self._told(key):
                self.runtime.remove(key)
        if seen is None:
            self.launcher.withdraw(key)
        if seen is None and self._told(key) and not self.launcher.busy(key):
            desired = self.received.desired if self.received else None
            over = desired is not None and key.application_id in desired.ended
            self.launcher.forget(key, application_over=over)
            self.budgets.forget(key)
            self.held.pop(key, None)
            self._troubles.pop(key, None)

    def _told(self, key: ExecutorKey) -> bool:
        """The master has said that this executor is over, so its last report has arrived."""
        desired = self.received.desired if self.received else None
        return desired is not None and f"{key.application_id}/{key.executor_id}" in desired.stopped

    # ------------------------------------------------------------------ report

    def _sample(self, observed: Mapping[ExecutorKey, Observed], now_s: float) -> None:
        """One sample of each executor a period, and one at once when it is seen to have exited: work ends within a period."""
        due = now_s - self._last_sample_s >= 0.9 * self.period_s
        if due:
            self._last_sample_s = now_s
        for key, held in self.held.items():
            seen = observed.get(key)
            if seen is not None and not held.last_sampled and (due or not seen.running):
                with self._trouble_of(key):
                    self._sample_one(key, held, seen, now_s)
        if len(self.samples) > SAMPLES_KEPT:
            dropped = len(self.samples) - SAMPLES_KEPT
            self.samples, self.sample_seq = self.samples[dropped:], self.sample_seq + dropped
            self.note(f"dropped the {dropped} oldest samples: the master has been away for long")

    def _sample_one(self, key: ExecutorKey, held: _Held, seen: Observed, now_s: float) -> None:
        plan, at_s = self.plans.get(key.application_id, (None, 0.0))
        if plan is None:
            return
        held.last_sampled = not seen.running
        before, held.sampled = held.sampled, (now_s, seen.cpu_s)
        decision = held.decision or Decision(0.0, held.memory, "exited")
        grant = held.grant if seen.running else 0.0
        self.samples.append(
            Sample(
                application_id=key.application_id,
                executor_id=key.executor_id,
                time_s=round(plan.elapsed_s + now_s - at_s, 3),
                stage=decision.stage,
                set_point=decision.set_point,
                progress=decision.progress,
                demand=round(decision.demand, 4),
                grant=grant,
                squeezed=squeezed(decision, grant, self.worker.cores, self.quota.core_quantum),
                quota=(seen.quota_cores or 0.0) if seen.running else 0.0,
                usage=_rate(before, now_s, seen.cpu_s),
                cpu_core_s=round(seen.cpu_s, 4),
                forecast_end_s=decision.forecast_end_s,
            )
        )

    def acknowledge(self, number: int, notes: Collection[str], at_s: float) -> None:
        """At `at_s` (monotonic) the master had stored samples below `number` and seen these notes."""
        number = min(number, self.sample_seq + len(self.samples))
        self.samples = self.samples[max(0, number - self.sample_seq) :]
        self.sample_seq = max(self.sample_seq, number)
        with self._notes_lock:
            self.notes = [note for note in self.notes if note not in notes]
        self._heard_s = at_s

    def note(self, text: str) -> None:
        """A line for the master; may be called on any thread."""
        log.warning("%s", text)
        with self._notes_lock:
            if text not in self.notes:
                self.notes.append(text)
            del self.notes[:-100]

    def _report(self, observed: Mapping[ExecutorKey, Observed]) -> WorkerSync:
        reports, gone = [], set()
        for key, held in self.held.items():
            seen = observed.get(key)
            state, reason, code = self.launcher.state(key), "", None
            if seen is not None:
                state = "running" if seen.running else "exited"
                reason, code = seen.reason, seen.exit_code
            elif reason := self.launcher.reason(key):
                pass
            elif self.budgets.may_start(key) is None:
                reason = f"other executors on worker {self.worker.worker_id} are still giving up the memory it needs"
            if self._orphaned(key):
                gone.add(key.application_id)
            container = self.budgets.container(key)
            answer = container.answer if container and container.running else None
            reports.append(
                ExecutorReport(
                    application_id=key.application_id,
                    executor_id=key.executor_id,
                    state=state,
                    exit_code=code,
                    reason=reason,
                    quota_cores=(seen.quota_cores or 0.0) if seen else 0.0,
                    demand_cores=held.decision.demand if held.decision else 0.0,
                    cpu_core_s=seen.cpu_s if seen else 0.0,
                    memory_bytes=seen.memory_bytes if seen else 0,
                    memory_limit_mb=container.claim_mb if container and container.running else 0,
                    off_heap_mb=answer.budget_mb if answer else None,
                    off_heap_execution_mb=answer.execution_mb if answer else 0,
                    off_heap_storage_mb=answer.storage_mb if answer else 0,
                    log_dir=held.log_dir,
                    stages=tuple(held.account.uses(self._heard_s - REPEATED_S)),
                )
            )
        desired = self.received.desired if self.received else None
        return WorkerSync(
            instance=self.instance,
            cluster_id=desired.cluster_id if desired else "",
            generation=desired.generation if desired else 0,
            worker=structs.replace(self.worker, images=self.launcher.images),
            executors=tuple(reports),
            sample_seq=self.sample_seq,
            samples=tuple(self.samples[:2000]),
            drivers_gone=tuple(sorted(gone)),
            notes=tuple(self.notes),
        )


def _rate(before: tuple[float, float] | None, now_s: float, cpu_s: float) -> float | None:
    """Cores used since `before` (time, CPU); None when nothing was seen before."""
    if before is None or now_s <= before[0]:
        return None
    return round(max(0.0, cpu_s - before[1]) / (now_s - before[0]), 4)
