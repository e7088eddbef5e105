"""One period of a worker as a pure function: what is granted, written and sampled, worked out by hand.

Whole agents are in `test_loop`, bounds of quotas in `tests/properties/test_periods.py`.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from controller.agent.core.accounting import Account
from controller.agent.core.step import (
    SAME_CORES,
    ExecutorHistory,
    ExecutorInput,
    LoopState,
    Orders,
    QuotaChange,
    Snapshot,
    TimedPlan,
    changes,
    next_period_s,
    step,
)
from controller.agent.report import Outbox, Standing
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.states import ExecutorState
from controller.wire.worker import Sample
from stage_model.laws.base import LawState
from stage_model.plan import Aim, ApplicationPlan
from stage_model.progress import SCHEMA, Progress, StageProgress
from stage_model.settings import QuotaSettings
from tests.fakes.plans import plan

KEY, OTHER = ExecutorKey("app", "1"), ExecutorKey("other", "1")
QUOTA = QuotaSettings()


def seen(
    key: ExecutorKey = KEY, *, quota: float | None = 0.5, cpu_s: float = 0.0, running: bool = True, tasks: int | None = 2
) -> ExecutorInput:
    claim = StageProgress(stage=1, attempt=0, running=tasks or 0, done=0)
    progress = Progress(schema=SCHEMA, executor=key.executor_id, sequence=1, stages=(claim,))
    return ExecutorInput(2, Observed(key, running, quota, cpu_s, 0), progress if tasks is not None else None, QUOTA.floor)


def period(
    state: LoopState, now_s: float, executors: dict[ExecutorKey, ExecutorInput], *plans: ApplicationPlan
) -> tuple[Orders, LoopState]:
    """Step a worker of two cores, with plans that came at 0 s."""
    timed = {p.application_id: TimedPlan(p, 0.0) for p in plans}
    return step(Snapshot(2.0, QUOTA, executors, timed), state, now_s)


def test_what_a_quota_held_back_is_reported_of_the_executor_and_of_its_stage() -> None:
    state = LoopState()
    for now_s, throttled_s in ((0.0, 5.0), (1.0, 5.5)):
        looked = structs.replace(seen(cpu_s=now_s), observed=Observed(KEY, True, 0.5, now_s, 0, throttled_s=throttled_s))
        _, state = period(state, now_s, {KEY: looked}, plan())
    standing = Standing(ExecutorState.RUNNING)
    report = Outbox().report_on(KEY, standing, looked.observed, state.executors[KEY], None, "")
    assert report.throttled_s == 5.5
    assert [use.throttled_s for use in report.stages] == [0.5]


def test_no_quota_of_a_watched_executor_is_written_and_the_others_share_all_cores() -> None:
    free = Observed(KEY, True, None, 0.0, 0, watched=True)
    watched = structs.replace(seen(), observed=free)
    orders, _ = period(LoopState(), 0.0, {KEY: watched, OTHER: seen(OTHER)}, plan(), plan("other", left_s=None))
    # each of the two can use two cores
    assert orders.grants == {KEY: 2.0, OTHER: 2.0}
    assert orders.changes == (QuotaChange(OTHER, 0.5, 2.0),)
    assert [(sample.application_id, sample.grant) for sample in orders.samples] == [("app", 2.0), ("other", 2.0)]
    limited = structs.replace(watched, observed=dataclasses.replace(free, most_cores=0.7))
    assert period(LoopState(), 0.0, {KEY: limited}, plan())[0].grants == {KEY: 0.7}
    has_a_quota = structs.replace(watched, observed=dataclasses.replace(free, quota_cores=0.6))
    assert period(LoopState(), 0.0, {KEY: has_a_quota}, plan())[0].grants == {KEY: 0.6}


@pytest.mark.parametrize(
    ("left_s", "now_s", "period_s", "expected"),
    [
        (100.0, 0.0, 1.0, 1.0),
        (100.0, 91.0, 1.0, 0.25),  # 9 of 10 periods are left
        (100.0, 101.0, 1.0, 1.0),  # too late for anything
        (100.0, 91.0, 0.5, 0.5),  # 18 periods
        (100.0, 96.0, 0.5, 0.2),  # not below the shortest
        (None, 0.0, 1.0, 1.0),
    ],
)
def test_the_last_periods_are_shorter(left_s: float | None, now_s: float, period_s: float, expected: float) -> None:
    plans = [TimedPlan(plan(left_s=left_s), 0.0), TimedPlan(plan("other", left_s=5000.0), 0.0)]
    assert next_period_s(plans, period_s, now_s) == expected
    # and before any deadline of several, one of which may be over
    aims = (Aim(left_s=-1.0, deadline_s=9.0), Aim(left_s=-1.0 if left_s is None else left_s, deadline_s=100.0, whole=True))
    assert next_period_s([TimedPlan(plan(left_s=-1.0, aims=aims), 0.0)], period_s, now_s) == expected


def test_cores_that_an_owner_does_not_allow_are_left_to_others_and_never_written() -> None:
    # each asks for 1.5 of the worker's two cores; the first can have 0.33, so the second has all it asks for
    first, second = plan(left_s=100 / 3), plan("other", left_s=100 / 3)
    capped = structs.replace(seen(quota=0.33), observed=Observed(KEY, True, 0.33, 0.0, 0, most_cores=0.33))
    free = seen(OTHER, quota=1.5)
    orders, _ = period(LoopState(), 0.0, {KEY: capped, OTHER: free}, first, second)
    assert orders.grants == {KEY: 0.33, OTHER: 1.5}
    assert orders.changes == ()
    orders, _ = period(LoopState(), 0.0, {KEY: seen(quota=1.0), OTHER: seen(OTHER, quota=1.0)}, first, second)
    assert orders.grants == {KEY: 1.0, OTHER: 1.0}, "without that they share"
    [sample, _] = period(LoopState(), 0.0, {KEY: capped, OTHER: free}, first, second)[0].samples
    assert not sample.squeezed, "no other executor has taken from it"


def test_what_is_set_aside_for_an_executor_is_its_floor() -> None:
    # each asks for 0.5; the first has 1.5 of the worker's two cores set aside, whatever it asks for
    reserved = structs.replace(seen(), observed=Observed(KEY, True, 1.5, 0.0, 0, least_cores=1.5))
    orders, _ = period(LoopState(), 0.0, {KEY: reserved, OTHER: seen(OTHER)}, plan(), plan("other"))
    assert (orders.grants, orders.changes) == ({KEY: 1.5, OTHER: 0.5}, ())


def test_a_quota_that_is_on_its_way_is_not_ordered_again() -> None:
    # the law asks for 0.5
    coming = structs.replace(seen(), observed=Observed(KEY, True, 2.0, 0.0, 0, ordered_cores=0.5))
    assert period(LoopState(), 0.0, {KEY: coming}, plan())[0].changes == ()
    other = structs.replace(seen(), observed=Observed(KEY, True, 2.0, 0.0, 0, ordered_cores=0.7))
    assert period(LoopState(), 0.0, {KEY: other}, plan())[0].changes == (QuotaChange(KEY, 0.7, 0.5),)


def test_a_law_a_grant_a_write_and_a_sample() -> None:
    orders, state = period(LoopState(), 0.0, {KEY: seen(cpu_s=3.0)}, plan())
    # 50 core-seconds in 100 s: what is set already, so nothing is written
    assert (orders.grants, orders.changes) == ({KEY: 0.5}, ())
    [sample] = orders.samples
    # nothing was seen before
    assert (sample.usage, sample.cpu_core_s) == (None, 3.0)
    orders, state = period(state, 10.0, {KEY: seen(cpu_s=5.0)}, plan())
    # 48 core-seconds are left for 90 s: 0.533, in quanta of 0.05
    assert orders.grants == {KEY: 0.55}
    assert orders.changes == (QuotaChange(KEY, 0.5, 0.55),)
    [sample] = orders.samples
    assert (sample.time_s, sample.grant, sample.quota, sample.squeezed) == (110.0, 0.55, 0.5, False)
    # a little more, because the profile may be wrong about the running tasks
    assert sample.demand == pytest.approx(48 / 90, rel=1e-3)
    assert sample.usage == pytest.approx(2 / 10)
    assert (orders.troubles, state.at_s) == ({}, 10.0)


def test_each_ordered_quota_is_reported_once_with_its_reason() -> None:
    _, state = period(LoopState(), 0.0, {KEY: seen(quota=0.3)}, plan())
    reported = []
    # between samples, too: 50 core-seconds in ever less time; it is set as it was ordered
    for now_s, quota in ((0.5, 0.5), (0.8, 0.3), (1.0, 0.3), (2.0, 0.55)):
        orders, state = period(state, now_s, {KEY: seen(quota=quota)}, plan())
        reported.append([(one.time_s, one.before, one.cores) for sample in orders.samples for one in sample.ordered])
        assert all("cores for the application" in one.reason for sample in orders.samples for one in sample.ordered)
    assert reported == [[], [], [(100.5, 0.5, 0.55), (100.8, 0.3, 0.55), (101.0, 0.3, 0.55)], []]


def test_on_a_machine_under_pressure_it_has_its_floor_and_the_reason_names_the_shortage() -> None:
    pressed = structs.replace(seen(OTHER), pressed="this machine has 1 MiB of free memory")
    orders, _ = period(LoopState(), 0.0, {KEY: seen(), OTHER: pressed}, plan(), plan("other", priority=100))
    # each would have half a core
    assert orders.grants == {KEY: 0.5, OTHER: QUOTA.floor}
    by_application = {sample.application_id: sample for sample in orders.samples}
    assert (by_application["other"].squeezed, by_application["other"].pressed) == (True, True)
    assert by_application["other"].demand == pytest.approx(0.5, abs=0.01)
    [one] = by_application["other"].ordered
    assert one.reason.endswith("; squeezed: this machine has 1 MiB of free memory")
    assert (by_application["app"].squeezed, by_application["app"].pressed) == (False, False)


def test_what_lowers_is_written_before_what_raises_and_a_squeeze_is_part_of_the_reason() -> None:
    executors = {KEY: seen(quota=0.1), OTHER: seen(OTHER, quota=1.9)}
    orders, _ = period(LoopState(), 0.0, executors, plan(priority=100, left_s=30.0), plan("other", priority=0, left_s=30.0))
    # 50 core-seconds in 30 s are 1.67 cores
    assert orders.grants == {KEY: 1.7, OTHER: pytest.approx(0.3)}
    assert [change.key for change in orders.changes] == [OTHER, KEY]
    assert {sample.application_id: sample.squeezed for sample in orders.samples} == {"app": False, "other": True}
    reasons = {sample.application_id: [one.reason for one in sample.ordered] for sample in orders.samples}
    assert ["squeezed: 1.67 asked for" in reason for reason in reasons["other"]] == [True]
    assert ["squeezed" in reason for reason in reasons["app"]] == [False]


def test_who_has_no_law_to_ask_for_it_is_not_squeezed() -> None:
    executors = {KEY: seen(quota=0.3), OTHER: seen(OTHER, quota=1.7)}
    orders, _ = period(LoopState(), 0.0, executors, plan(left_s=None), plan("other", left_s=30.0))
    assert orders.grants[KEY] < 1.0
    assert [sample.squeezed for sample in orders.samples] == [False, False]


def test_without_a_plan_it_has_all_it_can_use_and_no_sample() -> None:
    orders, _ = period(LoopState(), 0.0, {KEY: seen()})
    assert (orders.grants, orders.samples) == ({KEY: 2.0}, ())


def test_a_stage_that_an_absent_master_has_not_described_has_all_it_can_use() -> None:
    # by the stage deadlines that the agent knows nothing runs; the plan came at 0 s, and the master is away from 10 s on
    granted = []
    for now_s in (5.0, 11.0):
        orders, _ = period(LoopState(), now_s, {KEY: seen()}, plan(law="paper", stages=()))
        granted.append(orders.grants[KEY])
    assert granted == [QUOTA.floor, 2.0]


def test_an_unlimited_executor_is_limited() -> None:
    orders, _ = period(LoopState(), 0.0, {KEY: seen(quota=None)}, plan())
    assert orders.changes == (QuotaChange(KEY, None, 0.5),)


def test_what_does_not_run_holds_no_cores() -> None:
    ended, starting = seen(running=False), ExecutorInput(2, None, None, 0.1)
    waiting = structs.replace(starting, waits=True)
    for other in (ended, waiting):
        orders, _ = period(LoopState(), 0.0, {KEY: other, OTHER: seen(OTHER, tasks=None)})
        assert orders.grants == {OTHER: 2.0}
    orders, _ = period(LoopState(), 0.0, {KEY: starting, OTHER: seen(OTHER, tasks=None)})
    # both ask for two cores; nothing is written to what is not there yet
    assert orders.grants == {KEY: 1.0, OTHER: 1.0}
    assert [change.key for change in orders.changes] == [OTHER]


def test_samples_come_once_a_period_and_at_once_when_it_exits_for_the_last_time() -> None:
    samples, counts, state = list[Sample](), [], LoopState()
    for now_s, running in ((0.0, True), (0.5, True), (0.95, True), (1.0, False), (2.0, False)):
        orders, state = period(state, now_s, {KEY: seen(running=running)}, plan())
        samples += orders.samples
        counts.append(len(orders.samples))
    assert counts == [1, 0, 1, 1, 0]
    assert (samples[-1].grant, samples[-1].quota) == (0.0, 0.0)


def test_each_node_shares_its_own_cores_among_its_own_executors() -> None:
    keys = [ExecutorKey("app", str(number)) for number in range(4)]
    nodes = ("a", "a", "a", "b")
    executors = {
        key: structs.replace(seen(key, tasks=None), observed=Observed(key, True, 0.5, 0.0, 0, node=node))
        for key, node in zip(keys, nodes, strict=True)
    }
    # without a plan each asks for its two slots; a node has two cores
    orders, _ = period(LoopState(), 0.0, executors)
    shares = [orders.grants[key] for key in keys]
    assert sum(shares[:3]) == pytest.approx(2.0)
    assert max(shares[:3]) - min(shares[:3]) <= 0.05 + 1e-9
    assert shares[3] == 2.0


def test_a_floor_of_its_own_is_kept() -> None:
    # nothing to do
    orders, _ = period(LoopState(), 0.0, {KEY: ExecutorInput(2, seen().observed, None, 0.75)}, plan(stages=()))
    assert orders.grants[KEY] >= 0.75


def test_a_demand_that_is_no_number_is_an_error() -> None:
    _, state = period(LoopState(), 0.0, {KEY: seen()}, plan())
    held = structs.replace(state.executors[KEY], law=LawState(math.nan))
    orders, _ = period(LoopState({KEY: held}), 1.0, {KEY: seen(tasks=0)}, plan(stages=(), deadline_s=None, left_s=None))
    assert list(orders.troubles) == [KEY]
    assert orders.grants == {KEY: 2.0}


def test_slots_that_become_known_later_count_from_then_on() -> None:
    state = LoopState({KEY: ExecutorHistory(Account(4))})
    _, state = period(state, 0.0, {KEY: seen(tasks=3)}, plan())
    assert state.executors[KEY].account.slots == 2
    assert state.executors[KEY].account.stages[1, 0].running == 2


def test_who_is_no_longer_there_is_forgotten() -> None:
    _, state = period(LoopState(), 0.0, {KEY: seen(), OTHER: seen(OTHER)}, plan())
    _, state = period(state, 1.0, {OTHER: seen(OTHER)}, plan())
    assert set(state.executors) == {OTHER}


def test_executors_of_one_application_on_a_worker_count_what_the_others_do() -> None:
    """A cluster manager may start several executors on a machine. After 4 s both have used 1.1 of 50 core-seconds, so 47.8 in
    96 s are left, for both."""
    one, two = KEY, ExecutorKey("app", "2")

    def both(cpu_s: float) -> dict[ExecutorKey, ExecutorInput]:
        return {key: seen(key, quota=0.25, cpu_s=cpu_s, tasks=1) for key in (one, two)}

    of_both = plan(slots=4)
    orders, state = period(LoopState(), 0.0, both(0.0), of_both)
    assert orders.grants == {one: 0.25, two: 0.25}
    orders, state = period(state, 4.0, both(1.1), of_both)
    assert orders.grants == {one: 0.25, two: 0.25}
    alone = both(1.1) | {two: seen(two, running=False)}
    orders, _ = period(state, 4.0, alone, of_both)
    assert orders.grants[one] > 0.25  # what the other had begun is to be done again


def test_a_silent_executor_gets_all_it_can_use_at_its_own_priority() -> None:
    # it said that nothing runs; by that it gets its floor, and a stage may have begun since
    quiet, low = seen(tasks=0), plan(priority=10, stages=())
    _, state = period(LoopState(), 1.0, {KEY: seen()}, plan(priority=10))
    _, state = period(state, 2.0, {KEY: quiet}, low)
    orders, state = period(state, 20.0, {KEY: quiet}, low)
    assert orders.grants[KEY] == QUOTA.floor
    both = {KEY: structs.replace(quiet, silent=True), OTHER: seen(OTHER)}
    orders, state = period(state, 21.0, both, low, plan("other"))
    # of two cores the other one, of normal priority, comes first
    assert orders.grants[KEY] == pytest.approx(2.0 - orders.grants[OTHER])
    assert orders.grants[OTHER] > 0.5
    decision = state.executors[KEY].decision
    assert decision is not None
    assert decision.reason == "no recent report"


A, B, C = (ExecutorKey("app", n) for n in "123")


@pytest.mark.parametrize(
    ("current", "wanted", "expected"),
    [
        # what lowers comes first
        ({A: 1.0, B: 2.0, C: 0.5}, {A: 1.5, B: 0.5, C: 0.4}, [(B, 2.0, 0.5), (C, 0.5, 0.4), (A, 1.0, 1.5)]),
        # and so does what limits an unlimited executor
        ({A: 0.5, B: None}, {A: 1.0, B: 1.0}, [(B, None, 1.0), (A, 0.5, 1.0)]),
        # unchanged quotas are not written, nor those of executors that do not run
        ({A: 1.0, B: 0.3}, {A: 1.0, B: 0.3 + SAME_CORES / 2}, []),
        ({A: 1.0}, {B: 0.5}, []),
        ({}, {A: 0.5}, []),
    ],
)
def test_only_changed_quotas_are_written_and_what_lowers_comes_first(
    current: dict[ExecutorKey, float | None],
    wanted: dict[ExecutorKey, float],
    expected: list[tuple[ExecutorKey, float | None, float]],
) -> None:
    assert changes(current, wanted) == [QuotaChange(*change) for change in expected]


quotas = st.dictionaries(st.sampled_from([A, B, C, ExecutorKey("other", "1")]), st.floats(0.1, 4), min_size=1)


@given(quotas, quotas)
def test_the_sum_is_never_larger_on_the_way(before: dict[ExecutorKey, float], wanted: dict[ExecutorKey, float]) -> None:
    now = dict(before)
    after = {k: wanted.get(k, v) for k, v in before.items()}
    most = max(sum(before.values()), sum(after.values())) + SAME_CORES * len(before)
    for change in changes(before, wanted):
        now[change.key] = change.cores
        assert sum(now.values()) <= most
    assert all(abs(now[k] - after[k]) < SAME_CORES for k in now)
