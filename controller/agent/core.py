"""One control period of one worker, pure: `step(snapshot, state, now_s) -> (orders, state)`. Read it first.

What each executor has done (`accounting`), what it needs (`decide` and its law), who gets which cores (`arbitrate`), which
quotas change and in which order (`apply`), and the samples for the records. The agent, the simulator and the benchmarks are
shells around this function: they look, call it, and do what it orders. Not covered: memory (`budgets`), starting (`loop`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from controller.agent.accounting import Account
from controller.agent.apply import Change, changes
from controller.agent.arbitrate import arbitrate
from controller.agent.asking import request, squeezed
from controller.agent.decide import Decision, Memory, aged, decide
from controller.messages import Sample
from controller.runtime.base import ExecutorKey, Observed
from stage_model.plan import ApplicationPlan
from stage_model.progress import Progress
from stage_model.settings import QuotaSettings

SAMPLED_AFTER = 0.9
"""Of a period since the last samples, a look takes new ones: stage events wake the loop in between."""


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """A plan of the master and when it came (monotonic seconds)."""

    plan: ApplicationPlan
    at_s: float

    def now(self, now_s: float) -> ApplicationPlan:
        return aged(self.plan, now_s - self.at_s)


@dataclass(frozen=True, slots=True)
class Seen:
    """One executor in this period. `observed` None: it has not started, or is gone. `progress` None: it told nothing that can
    be believed. `waits`: it is not there yet and may not start. `floor`: cores that it must have."""

    slots: int
    observed: Observed | None
    progress: Progress | None
    floor: float
    waits: bool = False

    @property
    def shares(self) -> bool:
        """Whether it asks for cores: what runs no more, not yet or never must hold none that others can use."""
        return self.observed.running if self.observed else not self.waits


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A worker of `cores` with its executors and their applications' plans, by application."""

    cores: float
    period_s: float
    quota: QuotaSettings
    executors: Mapping[ExecutorKey, Seen]
    plans: Mapping[str, TimedPlan]


@dataclass(frozen=True, slots=True)
class Held:
    """What is remembered of one executor. `sampled`: time and container CPU at its last sample; `over`: it has exited and its
    last sample is taken."""

    account: Account
    memory: Memory = field(default_factory=Memory)
    decision: Decision | None = None
    grant: float = 0.0
    sampled: tuple[float, float] | None = None
    over: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """From period to period. `at_s`, `sampled_s`: the last step and the last one with samples, if there was one."""

    held: Mapping[ExecutorKey, Held] = field(default_factory=dict)
    at_s: float | None = None
    sampled_s: float = -math.inf


@dataclass(frozen=True, slots=True)
class Orders:
    """`grants` in cores; `changes` bring the observed quotas to them, those that lower first. `troubles`: errors that nobody
    thought of, each of which is its executor's alone."""

    grants: Mapping[ExecutorKey, float]
    changes: tuple[Change, ...]
    samples: tuple[Sample, ...]
    troubles: Mapping[ExecutorKey, Exception]


def step(snapshot: Snapshot, state: State, now_s: float) -> tuple[Orders, State]:
    """One period at `now_s` (monotonic seconds). Changes neither of its arguments; raises nothing because of one executor."""
    dt_s = snapshot.period_s if state.at_s is None else now_s - state.at_s
    troubles: dict[ExecutorKey, Exception] = {}
    held: dict[ExecutorKey, Held] = {}
    plans: dict[ExecutorKey, ApplicationPlan] = {}
    requests = []
    for key, seen in snapshot.executors.items():
        one = state.held.get(key) or Held(Account(seen.slots))
        with _kept_apart(key, troubles):
            one = replace(one, account=_accounted(one.account, seen, now_s))
        decision = None
        if seen.shares:
            # fail open: without a plan, or one that nothing can be decided by, an executor gets all it can use
            decision = Decision(float(one.account.slots), one.memory, "no plan yet")
            with _kept_apart(key, troubles):
                if key.application_id in snapshot.plans:
                    plans[key] = snapshot.plans[key.application_id].now(now_s)
                    decision = _decision(snapshot, one, plans[key], dt_s, now_s)
            requests.append(request(key, key.application_id, decision, plans.get(key), seen.floor))
        held[key] = replace(one, decision=decision, memory=decision.memory if decision else one.memory)
    grants = arbitrate(requests, snapshot.cores, snapshot.quota.core_quantum, period_s=snapshot.period_s)
    for key, grant in grants.items():
        held[key] = replace(held[key], grant=grant)
    due = now_s - state.sampled_s >= SAMPLED_AFTER * snapshot.period_s
    samples = []
    for key, seen in snapshot.executors.items():
        one, timed = held[key], snapshot.plans.get(key.application_id)
        if seen.observed is None or timed is None or one.over or not (due or not seen.observed.running):
            continue
        with _kept_apart(key, troubles):
            samples.append(_sample(key, snapshot, one, seen.observed, timed, now_s))
        held[key] = replace(one, sampled=(now_s, seen.observed.cpu_s), over=not seen.observed.running)
    current = {
        key: seen.observed.quota_cores
        for key, seen in snapshot.executors.items()
        if seen.observed is not None and seen.observed.running and key in grants
    }
    orders = Orders(grants, tuple(changes(current, grants)), tuple(samples), troubles)
    return orders, State(held, now_s, now_s if due else state.sampled_s)


@contextmanager
def _kept_apart(key: ExecutorKey, troubles: dict[ExecutorKey, Exception]) -> Iterator[None]:
    """What goes wrong inside is this executor's trouble alone."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - whoever carries out the orders tells it
        troubles[key] = error


def _accounted(account: Account, seen: Seen, now_s: float) -> Account:
    account = account if account.slots == seen.slots else replace(account, slots=seen.slots)
    if seen.observed is None:
        return account
    return account.observed(now_s, seen.observed.cpu_s, seen.observed.quota_cores or 0.0, seen.progress)


def _decision(snapshot: Snapshot, one: Held, plan: ApplicationPlan, dt_s: float, now_s: float) -> Decision:
    """What its application's plan asks for it."""
    decision = decide(
        plan,
        one.account.executor(now_s),
        one.memory,
        dt_s=dt_s,
        period_s=snapshot.period_s,
        quota=snapshot.quota,
    )
    if math.isnan(decision.demand):
        raise ValueError(f"its law asks for {decision.demand} cores")
    return decision


def _sample(key: ExecutorKey, snapshot: Snapshot, one: Held, observed: Observed, timed: TimedPlan, now_s: float) -> Sample:
    decision = one.decision or Decision(0.0, one.memory, "exited")
    grant = one.grant if observed.running else 0.0
    return Sample(
        application_id=key.application_id,
        executor_id=key.executor_id,
        time_s=timed.plan.elapsed_s + now_s - timed.at_s,
        stage=decision.stage,
        set_point=decision.set_point,
        progress=decision.progress,
        demand=decision.demand,
        grant=grant,
        squeezed=squeezed(decision, grant, snapshot.cores, snapshot.quota.core_quantum),
        quota=(observed.quota_cores or 0.0) if observed.running else 0.0,
        usage=_rate(one.sampled, now_s, observed.cpu_s),
        cpu_core_s=observed.cpu_s,
        forecast_end_s=decision.forecast_end_s,
    )


def _rate(before: tuple[float, float] | None, now_s: float, cpu_s: float) -> float | None:
    """Cores used since `before` (time, CPU); None when nothing was seen before."""
    if before is None or now_s <= before[0]:
        return None
    return max(0.0, cpu_s - before[1]) / (now_s - before[0])
