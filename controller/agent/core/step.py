"""One control period of one worker, pure: `step(snapshot, state, now_s) -> (orders, state)`. Read it first.

Its parts: each executor's work (`accounting`) and need (`decide` and its law), the division of cores (`arbitrate`), the quota
changes and their order (`apply`), and the samples for the records. The agent, the simulator and the benchmarks are shells
around this function: they look, call it, and carry out its orders. Not covered: memory (`resizing`), starting (`loop`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from msgspec import Struct, structs

from controller.agent.core.accounting import Account
from controller.agent.core.apply import QuotaChange, changes
from controller.agent.core.arbitrate import CoreRequest, arbitrate
from controller.agent.core.asking import is_squeezed, request
from controller.agent.core.decide import ObservedExecutor, aged, decide_demand, with_others
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.worker import OrderedQuota, Sample
from stage_model.laws.base import Decision, LawState
from stage_model.plan import ApplicationPlan
from stage_model.progress import Progress
from stage_model.settings import SHORTEST_PERIOD_S, QuotaSettings

SAMPLED_AFTER = 0.9
"""Part of a period since the last samples after which a look takes new ones: stage events wake the loop in between."""

MOST_ORDERED, LONGEST_REASON = 100, 200
"""Most quotas in one sample, the last ones, and most letters of the reason of each."""

LAST_PERIODS = 10.0
LAST_PART = 0.25
"""Part of a period after which the next one comes within `LAST_PERIODS` of a deadline."""


class TimedPlan(Struct, frozen=True):
    """A plan of the master and when it came (monotonic seconds)."""

    plan: ApplicationPlan
    at_s: float

    def now(self, now_s: float) -> ApplicationPlan:
        return aged(self.plan, now_s - self.at_s)


class Seen(Struct, frozen=True):
    """One executor in this period. `observed` None: it has not started, or is gone. `progress` None: it reported nothing that
    can be believed. `waits`: it is not there yet and may not start. `floor`: cores that it must have. `silent`: its last
    report is too old to go by."""

    slots: int
    observed: Observed | None
    progress: Progress | None
    floor: float
    waits: bool = False
    silent: bool = False

    @property
    def shares(self) -> bool:
        """True if the executor asks for cores. An executor that has ended, or may not start, must hold no cores."""
        return self.observed.running if self.observed else not self.waits

    @property
    def most_cores(self) -> float:
        return self.observed.most_cores if self.observed else math.inf


class Snapshot(Struct, frozen=True):
    """A worker with its executors and their applications' plans, by application. It has `cores`, or each of its nodes has."""

    cores: float
    period_s: float
    quota: QuotaSettings
    executors: Mapping[ExecutorKey, Seen]
    plans: Mapping[str, TimedPlan]


class Held(Struct, frozen=True):
    """Memory of one executor. `sampled`: time and container CPU at its last sample; `over`: it has exited and its last sample
    is taken; `ordered`: quotas since that sample."""

    account: Account
    law: LawState = LawState()
    decision: Decision | None = None
    sampled: tuple[float, float] | None = None
    over: bool = False
    ordered: tuple[OrderedQuota, ...] = ()


class State(Struct, frozen=True):
    """Memory from period to period. `at_s`, `sampled_s`: times of the last step and of the last step with samples, if any."""

    held: Mapping[ExecutorKey, Held] = {}
    at_s: float | None = None
    sampled_s: float = -math.inf


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


def step(snapshot: Snapshot, state: State, now_s: float) -> tuple[Orders, State]:
    """Run one period at `now_s` (monotonic seconds). Change neither argument; raise nothing because of one executor."""
    dt_s = snapshot.period_s if state.at_s is None else now_s - state.at_s
    troubles: dict[ExecutorKey, Exception] = {}
    looks: list[tuple[ExecutorKey, Seen, Held, Account, Decision | None]] = []
    requests = defaultdict[str, list[CoreRequest[ExecutorKey]]](list)
    """Requests by node."""
    accounts: dict[ExecutorKey, Account] = {}
    # an executor's error concerns only that executor: the shell that carries out the orders reports it
    for key, seen in snapshot.executors.items():
        accounts[key] = state.held[key].account if key in state.held else Account(seen.slots)
        try:
            accounts[key] = _accounted(accounts[key], seen, now_s)
        except Exception as error:  # noqa: BLE001 - the shell reports it
            troubles[key] = error
    beside = _beside(snapshot.executors, accounts)
    for key, seen in snapshot.executors.items():
        before = state.held.get(key) or Held(accounts[key])
        account, plan, decision = accounts[key], None, None
        if seen.shares:
            # fail open: where nothing can be decided, an executor gets all it can use
            decision = Decision(float(account.slots), before.law, "no plan yet")
            try:
                if timed := snapshot.plans.get(key.application_id):
                    plan = with_others(timed.now(now_s), beside.get(key, ()))
                    executor = account.executor(now_s)
                    decision = _decision(snapshot, seen, executor, before.law, plan, dt_s, now_s - timed.at_s)
            except Exception as error:  # noqa: BLE001 - the shell reports it
                troubles[key] = error
            # cores that it cannot have are left to others
            decision = structs.replace(decision, demand=min(decision.demand, seen.most_cores))
            node = seen.observed.node if seen.observed else ""
            requests[node].append(request(key, key.application_id, decision, plan, seen.floor))
        looks.append((key, seen, before, account, decision))
    grants: dict[ExecutorKey, float] = {}
    for alike in requests.values():
        shared = arbitrate(alike, snapshot.cores, snapshot.quota.core_quantum, period_s=snapshot.period_s)
        # quanta may round a demand up to more than it can have
        grants |= {key: min(cores, snapshot.executors[key].most_cores) for key, cores in shared.items()}
    due = now_s - state.sampled_s >= SAMPLED_AFTER * snapshot.period_s
    held: dict[ExecutorKey, Held] = {}
    current = {
        key: seen.observed.quota_cores for key, seen, *_ in looks if seen.observed is not None and seen.observed.running
    }
    changed = {change.key: change for change in changes(current, grants)}
    samples = []
    for key, seen, before, account, decision in looks:
        law = decision.state if decision else before.law
        sampled, over = before.sampled, before.over
        timed, observed = snapshot.plans.get(key.application_id), seen.observed
        ordered = before.ordered
        if timed is not None and decision is not None and (change := changed.get(key)) is not None:
            ordered = (*ordered, _ordered(change, snapshot, decision, timed, now_s))[-MOST_ORDERED:]
        if observed is not None and timed is not None and not over and (due or not observed.running):
            try:
                shown = decision or Decision(0.0, law, "exited")
                sample = _sample(key, snapshot, shown, grants.get(key, 0.0), observed, sampled, timed, now_s)
                samples.append(structs.replace(sample, ordered=ordered) if ordered else sample)
            except Exception as error:  # noqa: BLE001 - the shell reports it
                troubles[key] = error
            sampled, over, ordered = (now_s, observed.cpu_s), not observed.running, ()
        held[key] = Held(account, law, decision, sampled, over, ordered)
    orders = Orders(grants, tuple(changed.values()), tuple(samples), troubles)
    return orders, State(held, now_s, now_s if due else state.sampled_s)


def _beside(
    executors: Mapping[ExecutorKey, Seen], accounts: Mapping[ExecutorKey, Account]
) -> dict[ExecutorKey, list[Account]]:
    """Return the accounts of an application's other executors on this worker, where it has several."""
    running = defaultdict[str, list[ExecutorKey]](list)
    for key, seen in executors.items():
        if seen.observed is not None and seen.observed.running:
            running[key.application_id].append(key)
    return {
        key: [accounts[other] for other in together if other != key]
        for together in running.values()
        if len(together) > 1
        for key in together
    }


def _accounted(account: Account, seen: Seen, now_s: float) -> Account:
    account = account if account.slots == seen.slots else structs.replace(account, slots=seen.slots)
    if seen.observed is None:
        return account
    now = seen.observed
    return account.observed(now_s, now.cpu_s, now.quota_cores or 0.0, seen.progress, now.throttled_s)


def _decision(
    snapshot: Snapshot,
    seen: Seen,
    executor: ObservedExecutor,
    law: LawState,
    plan: ApplicationPlan,
    dt_s: float,
    age_s: float,
) -> Decision:
    """Decide by the application's plan, which came `age_s` ago and is aged to now, how many cores the executor needs."""
    if seen.silent:
        return Decision(float(executor.slots), law, "no recent report")
    period_s, quota = snapshot.period_s, snapshot.quota
    decision = decide_demand(plan, executor, law, dt_s=dt_s, period_s=period_s, quota=quota, age_s=age_s)
    if math.isnan(decision.demand):
        raise ValueError(f"its law asks for {decision.demand} cores")
    return decision


def _sample(
    key: ExecutorKey,
    snapshot: Snapshot,
    decision: Decision,
    grant: float,
    observed: Observed,
    before: tuple[float, float] | None,
    timed: TimedPlan,
    now_s: float,
) -> Sample:
    return Sample(
        application_id=key.application_id,
        executor_id=key.executor_id,
        time_s=timed.plan.elapsed_s + now_s - timed.at_s,
        stage=decision.stage,
        set_point=decision.set_point,
        progress=decision.progress,
        demand=decision.demand,
        grant=grant,
        squeezed=is_squeezed(decision, grant, snapshot.cores, snapshot.quota.core_quantum),
        quota=(observed.quota_cores or 0.0) if observed.running else 0.0,
        usage=_rate(before, now_s, observed.cpu_s),
        cpu_core_s=observed.cpu_s,
        forecast_end_s=decision.forecast_end_s,
    )


def _ordered(change: QuotaChange, snapshot: Snapshot, decision: Decision, timed: TimedPlan, now_s: float) -> OrderedQuota:
    """Return the order; its reason is the law's, and says so if others came first."""
    reason = decision.reason[:LONGEST_REASON]
    if is_squeezed(decision, change.cores, snapshot.cores, snapshot.quota.core_quantum):
        reason += f"; squeezed: {decision.demand:.2f} asked for"
    return OrderedQuota(
        time_s=timed.plan.elapsed_s + now_s - timed.at_s,
        before=change.before,
        cores=change.cores,
        reason=reason,
    )


def _rate(before: tuple[float, float] | None, now_s: float, cpu_s: float) -> float | None:
    """Return the cores used since `before` (time, CPU); None when nothing was seen before."""
    if before is None or now_s <= before[0]:
        return None
    return max(0.0, cpu_s - before[1]) / (now_s - before[0])
