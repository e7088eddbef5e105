"""One control period of one worker, pure: `step(snapshot, state, now_s) -> (orders, state)`. Read it first.

Its parts: each executor's work (`accounting`) and need (`decide` and its law), the division of cores (`arbitrate`), the quota
changes and their order (`changes`), and the samples for the records. The agent, the simulator and the benchmarks are shells
around this function: they look, call it, and carry out its orders. Not covered: memory (`resizing`), starting
(`executors.starting`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, structs

from controller.agent.core.accounting import Account
from controller.agent.core.arbitrate import CoreRequest, arbitrate
from controller.agent.core.decide import OwnStage, aged, decide_demand
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.worker import OrderedQuota, Sample
from stage_model.history.stage_run import StageKey
from stage_model.laws.base import Decision, LawState
from stage_model.plan import ApplicationPlan
from stage_model.progress import Progress
from stage_model.settings import SHORTEST_PERIOD_S, QuotaSettings
from stage_model.units import NORMAL_PRIORITY

SAMPLED_AFTER = 0.9
"""Part of a period since the last samples after which a look takes new ones: stage events wake the loop in between."""

MOST_ORDERED, LONGEST_REASON = 100, 200
"""Most quotas in one sample, the last ones, and most letters of the reason of each."""

LAST_PERIODS = 10.0
LAST_PART = 0.25
"""Part of a period after which the next one comes within `LAST_PERIODS` of a deadline."""

SAME_CORES = 0.005
"""Quotas closer than this are equal: half of the kernel's finest quota (1 ms of 100 ms)."""


class TimedPlan(Struct, frozen=True):
    """A plan of the master and when it came (monotonic seconds)."""

    plan: ApplicationPlan
    at_s: float

    def now(self, now_s: float) -> ApplicationPlan:
        return aged(self.plan, now_s - self.at_s)


class ExecutorInput(Struct, frozen=True):
    """One executor in this period. `observed` None: it has not started, or is gone. `progress` None: it reported nothing that
    can be believed. `waits`: it is not there yet and may not start. `floor`: cores that it must have. `silent`: its last
    report is too old to rely on. `pressed`: the machine's shortage, as a clause, for which the executor gets only its floor;
    empty without one."""

    slots: int
    observed: Observed | None
    progress: Progress | None
    floor: float
    waits: bool = False
    silent: bool = False
    pressed: str = ""

    @property
    def shares(self) -> bool:
        """True if the executor asks for cores. An executor that has ended, or may not start, must hold no cores."""
        return self.observed.running if self.observed else not self.waits

    @property
    def watched(self) -> bool:
        """True if nothing is written for the executor, which therefore has all the cores that it can use."""
        return self.observed is not None and self.observed.watched

    @property
    def most_cores(self) -> float:
        if self.observed is None:
            return math.inf
        quota = self.observed.quota_cores
        # no one raises the quota of a watched executor
        return min(self.observed.most_cores, quota) if self.watched and quota is not None else self.observed.most_cores

    @property
    def least_cores(self) -> float:
        return max(self.floor, self.observed.least_cores) if self.observed else self.floor


class Snapshot(Struct, frozen=True):
    """A worker with its executors and their applications' plans, by application. It has `cores`, or each of its nodes has;
    one task can use at most `speed_limit` of them, whatever other programs use now."""

    cores: float
    quota: QuotaSettings
    executors: Mapping[ExecutorKey, ExecutorInput]
    plans: Mapping[str, TimedPlan]
    speed_limit: float = 1.0


class ExecutorHistory(Struct, frozen=True):
    """One executor's earlier periods. `sampled`: time and container CPU at its last sample; `over`: it has exited and its
    last sample is taken; `ordered`: quotas since that sample."""

    account: Account
    law: LawState = LawState()
    decision: Decision | None = None
    sampled: tuple[float, float] | None = None
    over: bool = False
    ordered: tuple[OrderedQuota, ...] = ()


class LoopState(Struct, frozen=True):
    """State from period to period. `at_s`, `sampled_s`: times of the last step and of the last step with samples, if any."""

    executors: Mapping[ExecutorKey, ExecutorHistory] = {}
    at_s: float | None = None
    sampled_s: float = -math.inf


class QuotaChange(Struct, frozen=True):
    """A quota to be written, in cores. `before` None: there is no limit yet."""

    key: ExecutorKey
    before: float | None
    cores: float

    @property
    def lowers(self) -> bool:
        """True if the change lowers the quota; an unlimited quota counts as infinite."""
        return self.before is None or self.cores < self.before


class Orders(Struct, frozen=True):
    """The outcome of a period: `grants` in cores; `changes` bring the observed quotas to them, lowering ones first.
    `troubles`: unforeseen errors, each of which concerns only its executor."""

    grants: Mapping[ExecutorKey, float]
    changes: tuple[QuotaChange, ...]
    samples: tuple[Sample, ...]
    troubles: Mapping[ExecutorKey, Exception]


def next_period_s(plans: Iterable[TimedPlan], period_s: float, now_s: float) -> float:
    """Return the seconds until the next period. Near an application's deadline they are few, because a late decision cannot
    be made good."""
    for timed in plans:
        lefts_s = [aim.left_s for aim in timed.plan.aims] or [timed.plan.left_s or 0.0]
        if any(0 < left_s - (now_s - timed.at_s) < LAST_PERIODS * period_s for left_s in lefts_s):
            return min(period_s, max(SHORTEST_PERIOD_S, LAST_PART * period_s))
    return period_s


def step(snapshot: Snapshot, state: LoopState, now_s: float) -> tuple[Orders, LoopState]:
    """Run one period at `now_s` (monotonic seconds). Change neither argument; raise nothing because of one executor."""
    period = _Period(snapshot, state, now_s)
    period.decide()
    grants = period.divide()
    changed = period.changed(grants)
    samples = period.sample(grants, changed)
    orders = Orders(grants, tuple(changed.values()), samples, period.troubles)
    return orders, LoopState(period.histories, now_s, now_s if period.samples_due else state.sampled_s)


def request(key: ExecutorKey, decision: Decision, plan: ApplicationPlan | None, floor: float) -> CoreRequest:
    """Return the executor's request to the arbiter. `plan` is aged to now; None: no plan has come yet. `floor` in cores."""
    return CoreRequest(
        key=key,
        demand=decision.demand,
        floor=floor,
        priority=plan.priority if plan else NORMAL_PRIORITY,
        left_s=decision.ranked_s if decision.ranked_s is not None or plan is None else plan.left_s,
        beyond_saving=decision.beyond_saving,
        debt_core_s=plan.debt_core_s if plan else 0.0,
    )


def changes(current: Mapping[ExecutorKey, float | None], wanted: Mapping[ExecutorKey, float]) -> list[QuotaChange]:
    """Return writes that bring `current` quotas (None: unlimited) to `wanted` ones; executors not in `current` are left
    out. Lowering writes come before raising ones, so that the sum never passes the worker's capacity on the way. Only changed
    quotas are written, because through Docker the engine gets each, too."""
    todo = [
        QuotaChange(key, before, wanted[key])
        for key, before in current.items()
        if key in wanted and (before is None or abs(before - wanted[key]) >= SAME_CORES)
    ]
    return sorted(todo, key=lambda change: (not change.lowers, change.key))


class _Look(Struct):
    """One executor, as far as this period has come with it. `timed` None: no plan has come yet; `plan`: the plan of now;
    `decision` None: the executor asks for no cores."""

    seen: ExecutorInput
    before: ExecutorHistory
    account: Account
    timed: TimedPlan | None
    plan: ApplicationPlan | None = None
    decision: Decision | None = None


class _Period:
    """The steps of one period, in their order. An executor's error concerns only that executor: the shell that carries out
    the orders reports it."""

    def __init__(self, snapshot: Snapshot, state: LoopState, now_s: float) -> None:
        self._snapshot, self._quota, self._now_s = snapshot, snapshot.quota, now_s
        self._dt_s = self._quota.period_s if state.at_s is None else now_s - state.at_s
        self.samples_due = now_s - state.sampled_s >= SAMPLED_AFTER * self._quota.period_s
        self.troubles: dict[ExecutorKey, Exception] = {}
        self.histories: dict[ExecutorKey, ExecutorHistory] = {}
        self._looks = {key: self._look(key, seen, state.executors.get(key)) for key, seen in snapshot.executors.items()}

    def _look(self, key: ExecutorKey, seen: ExecutorInput, before: ExecutorHistory | None) -> _Look:
        account = before.account if before else Account(seen.slots)
        before = before or ExecutorHistory(account)
        try:
            account = _accounted(account, seen, self._now_s)
        except Exception as error:  # noqa: BLE001 - the shell reports it
            self.troubles[key] = error
        return _Look(seen, before, account, self._snapshot.plans.get(key.application_id))

    def decide(self) -> None:
        """Decide how many cores each executor needs."""
        others = self._others()
        for key, look in self._looks.items():
            if not look.seen.shares:
                continue
            # fail open: where nothing can be decided, an executor gets all it can use
            decision = Decision(float(look.account.slots), look.before.law, "no plan yet")
            try:
                if look.timed is not None:
                    decision = self._by_plan(look, look.timed, others.get(key, ()))
            except Exception as error:  # noqa: BLE001 - the shell reports it
                self.troubles[key] = error
            # other executors get the cores that it cannot have
            look.decision = structs.replace(decision, demand=min(decision.demand, look.seen.most_cores))

    def _others(self) -> dict[ExecutorKey, list[Mapping[StageKey, OwnStage]]]:
        """Return the stages of an application's other executors on this worker, where it has several."""
        running = defaultdict[str, list[ExecutorKey]](list)
        for key, look in self._looks.items():
            if look.seen.observed is not None and look.seen.observed.running:
                running[key.application_id].append(key)
        return {
            key: [self._looks[other].account.stages for other in together if other != key]
            for together in running.values()
            if len(together) > 1
            for key in together
        }

    def _by_plan(self, look: _Look, timed: TimedPlan, others: Sequence[Mapping[StageKey, OwnStage]]) -> Decision:
        look.plan = timed.now(self._now_s)
        executor = look.account.executor(self._now_s, self._snapshot.speed_limit, others)
        law = look.before.law
        if look.seen.silent:
            return Decision(float(executor.slots), law, "no recent report")
        age_s = self._now_s - timed.at_s
        decision = decide_demand(look.plan, executor, law, dt_s=self._dt_s, quota=self._quota, age_s=age_s)
        if math.isnan(decision.demand):
            raise ValueError(f"its law asks for {decision.demand} cores")
        return decision

    def divide(self) -> dict[ExecutorKey, float]:
        """Return the cores that the arbiter gives each executor that asks; each node has its own. A watched executor has what
        it can use, and the others share the cores as if it were not there: nothing holds it back for them."""
        requests = defaultdict[str, list[CoreRequest]](list)
        grants: dict[ExecutorKey, float] = {}
        for key, look in self._looks.items():
            if look.decision is not None and look.seen.watched:
                grants[key] = min(float(look.account.slots), self._snapshot.cores, look.seen.most_cores)
            elif look.decision is not None:
                node = look.seen.observed.node if look.seen.observed else ""
                asks = structs.replace(look.decision, demand=0.0) if look.seen.pressed else look.decision
                requests[node].append(request(key, asks, look.plan, look.seen.least_cores))
        for of_node in requests.values():
            shared = arbitrate(of_node, self._snapshot.cores, self._quota.core_quantum, self._quota.period_s)
            # quanta may round a demand up to more than it can have
            grants |= {key: min(cores, self._looks[key].seen.most_cores) for key, cores in shared.items()}
        return grants

    def changed(self, grants: Mapping[ExecutorKey, float]) -> dict[ExecutorKey, QuotaChange]:
        """Return the quota writes that bring about the grants, in their order; none is of a watched executor."""
        executors = ((key, seen.observed) for key, seen in self._snapshot.executors.items() if not seen.watched)
        current = {key: observed.newest_quota for key, observed in executors if observed and observed.running}
        return {change.key: change for change in changes(current, grants)}

    def sample(self, grants: Mapping[ExecutorKey, float], changed: Mapping[ExecutorKey, QuotaChange]) -> tuple[Sample, ...]:
        """Return the samples that are due; fill `histories`."""
        samples = []
        for key, look in self._looks.items():
            ordered = self._ordered(look, changed.get(key))
            sampled, over, observed = look.before.sampled, look.before.over, look.seen.observed
            if observed is not None and look.timed is not None and not over and (self.samples_due or not observed.running):
                try:
                    samples.append(self._sample(key, look, grants.get(key, 0.0), ordered))
                except Exception as error:  # noqa: BLE001 - the shell reports it
                    self.troubles[key] = error
                sampled, over, ordered = (self._now_s, observed.cpu_s), not observed.running, ()
            law = look.decision.state if look.decision else look.before.law
            self.histories[key] = ExecutorHistory(look.account, law, look.decision, sampled, over, ordered)
        return tuple(samples)

    def _ordered(self, look: _Look, change: QuotaChange | None) -> tuple[OrderedQuota, ...]:
        """Return the quotas ordered since the last sample. The reason of a change is the law's; it also says if other
        executors came first or the machine is under pressure."""
        decision = look.decision
        if look.timed is None or decision is None or change is None:
            return look.before.ordered
        reason = decision.reason[:LONGEST_REASON]
        if look.seen.pressed:
            reason += f"; squeezed: {look.seen.pressed}"
        elif self._is_squeezed(decision, change.cores):
            reason += f"; squeezed: {decision.demand:.2f} asked for"
        now = OrderedQuota(time_s=self._run_s(look.timed), before=change.before, cores=change.cores, reason=reason)
        return (*look.before.ordered, now)[-MOST_ORDERED:]

    def _sample(self, key: ExecutorKey, look: _Look, grant: float, ordered: tuple[OrderedQuota, ...]) -> Sample:
        observed, timed = look.seen.observed, look.timed
        assert observed is not None
        assert timed is not None
        decision = look.decision or Decision(0.0, look.before.law, "exited")
        return Sample(
            application_id=key.application_id,
            executor_id=key.executor_id,
            time_s=self._run_s(timed),
            stage=decision.stage,
            set_point=decision.set_point,
            progress=decision.progress,
            demand=decision.demand,
            grant=grant,
            squeezed=self._is_squeezed(decision, grant),
            pressed=bool(look.seen.pressed),
            quota=(observed.quota_cores or 0.0) if observed.running else 0.0,
            usage=_rate(look.before.sampled, self._now_s, observed.cpu_s),
            cpu_core_s=observed.cpu_s,
            forecast_end_s=decision.forecast_end_s,
            ordered=ordered,
        )

    def _run_s(self, timed: TimedPlan) -> float:
        """Return the seconds since the application's submission."""
        return timed.plan.elapsed_s + self._now_s - timed.at_s

    def _is_squeezed(self, decision: Decision, grant: float) -> bool:
        """Return True if others took cores that a law asked for: `grant` is less than the worker could have given."""
        return decision.planned and grant < min(decision.demand, self._snapshot.cores) - self._quota.core_quantum


def _accounted(account: Account, seen: ExecutorInput, now_s: float) -> Account:
    account = account if account.slots == seen.slots else structs.replace(account, slots=seen.slots)
    if seen.observed is None:
        return account
    now = seen.observed
    return account.observed(now_s, now.cpu_s, now.quota_cores or 0.0, seen.progress, now.throttled_s)


def _rate(before: tuple[float, float] | None, now_s: float, cpu_s: float) -> float | None:
    """Return the cores used since `before` (time, CPU); None when nothing was seen before."""
    if before is None or now_s <= before[0]:
        return None
    return max(0.0, cpu_s - before[1]) / (now_s - before[0])
