"""Properties of every forecast and of every demand made from one."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from controller.agent.core.decide import ObservedExecutor, OwnStage, decide_demand, live_stages
from stage_model.forecast.virtual_time import Busy, Forecast, schedule, with_waiting
from stage_model.laws.base import Decision, LawState
from stage_model.laws.forecast import outlook
from stage_model.plan import Aim, ApplicationPlan, StagePlan
from stage_model.settings import QuotaSettings

seconds = st.floats(0, 200)
busy = st.lists(st.just(0.0) | st.floats(0.01, 50), min_size=1, max_size=8).map(tuple)
limited = st.dictionaries(st.floats(0.01, 8), st.floats(0.01, 50), max_size=4).map(lambda found: tuple(sorted(found.items())))
speed_limits = st.sampled_from([0.3, 0.85, 1.0])
forecasts = st.builds(Forecast, busy=busy, fixed_s=st.floats(0, 50), speed_limit=speed_limits, limited=limited)
cores = st.floats(0.05, 16)


@given(forecasts, cores, cores)
def test_more_cores_never_end_later(forecast: Forecast, a: float, b: float) -> None:
    assert forecast.time_s(max(a, b)) <= forecast.time_s(min(a, b)) + 1e-9


@given(forecasts, cores, cores, st.floats(0, 1))
def test_the_time_is_convex_in_cores(forecast: Forecast, a: float, b: float, share: float) -> None:
    between = forecast.time_s(share * a + (1 - share) * b)
    assert between <= share * forecast.time_s(a) + (1 - share) * forecast.time_s(b) + 1e-6


@given(forecasts, st.floats(1.001, 20))
def test_the_least_cores_end_exactly_in_time(forecast: Forecast, times: float) -> None:
    assume(forecast.states)
    left_s = forecast.fixed_s + times * (forecast.least_time_s() - forecast.fixed_s)
    least = forecast.least_cores(left_s)
    assert least is not None
    assert forecast.time_s(least) == pytest.approx(left_s)
    # and fewer are too few
    assert forecast.time_s(0.99 * least) > left_s


@given(forecasts, st.floats(-10, 500), st.floats(0, 100))
def test_less_time_never_needs_fewer_cores(forecast: Forecast, left_s: float, less_s: float) -> None:
    many, few = forecast.least_cores(left_s - less_s), forecast.least_cores(left_s)
    assert (math.inf if many is None else many) >= (math.inf if few is None else few) - 1e-9


@given(forecasts, st.floats(0, 500), st.integers(0, 7), st.floats(0, 50))
def test_more_work_never_needs_fewer_cores(forecast: Forecast, left_s: float, place: int, more_s: float) -> None:
    grown = list(forecast.busy)
    grown[place % len(grown)] += more_s
    larger = msgspec.structs.replace(forecast, busy=tuple(grown))
    many, few = larger.least_cores(left_s), forecast.least_cores(left_s)
    assert (math.inf if many is None else many) >= (math.inf if few is None else few) - 1e-9


def least_whole_cores(forecast: Forecast, left_s: float) -> float:
    """Work the least cores out as if every state was one of whole tasks: between k and k + 1 tasks T(c) is a + b/c."""
    early, late = 0.0, sum(k * v for k, v in enumerate(forecast.busy, 1))
    for k, v in enumerate((0.0, *forecast.busy)):
        early += v * (1.0 / forecast.speed_limit)
        late -= k * v
        rest = left_s - forecast.fixed_s - early
        if rest > 0 and (cores := max(late, 0.0) / rest) <= (k + 1) * forecast.speed_limit:
            return max(cores, k * forecast.speed_limit)
    raise AssertionError("no number of cores is enough")


@given(busy, st.floats(0, 50), speed_limits, cores, st.floats(1.001, 20))
def test_where_no_task_waits_every_number_is_that_of_whole_tasks_to_the_last_bit(
    found: Busy, fixed_s: float, limit: float, few: float, times: float
) -> None:
    assume(any(found))
    forecast = with_waiting(found, fixed_s, 0.0, limit)
    assert forecast == Forecast(found, fixed_s, limit)
    shared = [v * max(k / few, 1.0 / limit) for k, v in enumerate(found, 1) if v]
    assert forecast.time_s(few) == fixed_s + sum(shared)
    assert forecast.least_time_s() == fixed_s + sum(found) / limit
    left_s = fixed_s + times * (forecast.least_time_s() - fixed_s)
    assert forecast.least_cores(left_s) == least_whole_cores(forecast, left_s)
    assert forecast.then(forecast).limited == forecast.times(0.5).limited == ()


@given(forecasts, st.floats(1.001, 20))
def test_the_least_cores_are_those_that_bisection_finds(forecast: Forecast, times: float) -> None:
    assume(forecast.states)
    left_s = forecast.fixed_s + times * (forecast.least_time_s() - forecast.fixed_s)
    low, high = 1e-6, 16.0
    for _ in range(80):
        half = (low + high) / 2
        low, high = (low, half) if forecast.time_s(half) <= left_s else (half, high)
    assert forecast.least_cores(left_s) == pytest.approx(high, rel=1e-6)


@given(busy, st.floats(0.01, 200), speed_limits, cores)
def test_a_speed_limit_of_a_stage_changes_neither_its_work_nor_its_time_at_full_speed(
    computing: Busy, waiting_s: float, limit: float, few: float
) -> None:
    assume(any(computing))
    waits, free = with_waiting(computing, 0.0, waiting_s, limit), Forecast(computing, 0.0, limit)
    assert waits.work_core_s() == pytest.approx(free.work_core_s())
    assert waits.least_time_s() == pytest.approx(free.least_time_s() + waiting_s)
    assert waits.time_s(len(computing)) == pytest.approx(waits.least_time_s())
    # exact, except between two steps: k tasks that compute for a share of their time last longer and use as much less
    share = free.least_time_s() / (free.least_time_s() + waiting_s)
    exact_s = math.fsum(v / share * max(1 / limit, k * share / few) for k, v in enumerate(computing, 1))
    assert exact_s * (1 - 1e-9) <= waits.time_s(few) <= 1.012 * exact_s


@given(st.lists(st.floats(0.01, 9), max_size=6), st.lists(st.floats(0.01, 9), max_size=30), st.integers(1, 6))
def test_a_schedule_neither_loses_nor_makes_work(running: list[float], waiting: list[float], slots: int) -> None:
    got = schedule(running, waiting, slots)
    assert all(v >= -1e-9 for v in got)
    assert math.fsum(k * v for k, v in enumerate(got, 1)) == pytest.approx(math.fsum(running) + math.fsum(waiting))


# ---------------------------------------------------------------- demands

QUOTA = QuotaSettings()
SLOTS = 4
counts = st.integers(0, 40)


@st.composite
def states(draw: st.DrawFn) -> tuple[ApplicationPlan, ObservedExecutor]:
    """Draw an application with one or two stages under way, of an action each or not, this executor one of one to three."""
    executors = draw(st.integers(1, 3))
    stages, own = [], {}
    own_left, others_left = SLOTS, SLOTS * (executors - 1)
    for number in range(draw(st.integers(1, 2))):
        tasks = draw(st.integers(0, 60))
        running = min(own_left, draw(st.integers(0, SLOTS)))
        elsewhere = min(others_left, draw(st.integers(0, SLOTS)))
        own_left, others_left = own_left - running, others_left - elsewhere
        done, done_elsewhere = draw(counts), draw(counts)
        fixed_s = draw(st.floats(0, 5))
        stages.append(
            StagePlan(
                stage=number,
                attempt=0,
                tasks=tasks,
                work_core_s=draw(st.floats(0, 200)),
                records=draw(st.none() | st.floats(1, 1e6)),
                task_cv=draw(st.sampled_from([0.0, 0.3, 1.0])),
                fixed_s=fixed_s,
                waiting_s=draw(st.sampled_from([0.0, 0.5, 1.0])) * fixed_s,
                elsewhere_running=elsewhere,
                elsewhere_done=done_elsewhere,
                elsewhere_cpu_core_s=draw(seconds),
                elsewhere_records_running=draw(st.floats(0, 1e5)),
            )
        )
        own[number, 0] = OwnStage(running, done, 0.0, draw(st.floats(0, 1e5)), draw(seconds))
    several = len(stages) if draw(st.booleans()) else 0
    aims = [
        Aim(
            left_s=draw(st.floats(-50, 300)),
            deadline_s=300.0,
            stages=((number, 0),),
            future_busy=draw(busy),
            future_limited=draw(limited),
        )
        for number in range(several)
    ]
    plan = ApplicationPlan(
        application_id="a",
        name="a",
        deadline_s=300.0,
        left_s=draw(st.floats(-50, 300)),
        stages=tuple(stages),
        aims=tuple(aims),
        future_busy=draw(busy),
        future_limited=draw(limited),
        future_fixed_s=draw(st.floats(0, 50)),
        slots=SLOTS * executors,
        executors=executors,
        cores=draw(st.sampled_from([0.5, 1.0, 4.0])) * executors,
        speed_limit=draw(st.sampled_from([0.25, 1.0])),
    )
    return plan, ObservedExecutor(SLOTS, own, idle_s=0.0, speed_limit=plan.speed_limit)


def decided(plan: ApplicationPlan, executor: ObservedExecutor, held: float | None = None) -> Decision:
    return decide_demand(plan, executor, LawState(held), dt_s=1.0, quota=QUOTA)


@given(states(), st.floats(0, 100), st.none() | st.floats(0, 4))
def test_less_slack_never_means_fewer_cores(
    state: tuple[ApplicationPlan, ObservedExecutor], less_s: float, held: float | None
) -> None:
    plan, executor = state
    assert plan.left_s is not None
    aims = tuple(msgspec.structs.replace(aim, left_s=aim.left_s - less_s) for aim in plan.aims)
    hurried = msgspec.structs.replace(plan, left_s=plan.left_s - less_s, aims=aims)
    assert decided(hurried, executor, held).demand >= decided(plan, executor, held).demand - 1e-9


@given(states(), st.floats(0, 100), st.none() | st.floats(0, 4))
def test_time_kept_for_work_beyond_the_plan_never_means_fewer_cores(
    state: tuple[ApplicationPlan, ObservedExecutor], further_s: float, held: float | None
) -> None:
    plan, executor = state
    aims = tuple(msgspec.structs.replace(aim, further_s=further_s) for aim in plan.aims)
    wary = msgspec.structs.replace(plan, further_s=further_s, aims=aims)
    assert decided(wary, executor, held).demand >= decided(plan, executor, held).demand - 1e-9


@given(states(), st.floats(1, 5), st.none() | st.floats(0, 4))
def test_more_work_to_come_never_means_fewer_cores(
    state: tuple[ApplicationPlan, ObservedExecutor], times: float, held: float | None
) -> None:
    plan, executor = state
    longer = msgspec.structs.replace(plan, future_busy=tuple(times * v for v in plan.future_busy))
    assert decided(longer, executor, held).demand >= decided(plan, executor, held).demand - 1e-9


@given(states(), st.floats(1, 5))
def test_the_more_work_a_stage_has_the_more_cores_it_gets(
    state: tuple[ApplicationPlan, ObservedExecutor], times: float
) -> None:
    """Untouched stages: once tasks ran, what they show counts too."""
    plan, _ = state
    fresh = ObservedExecutor(SLOTS, {}, idle_s=0.0, speed_limit=plan.speed_limit)
    untouched = tuple(
        StagePlan(stage=s.stage, attempt=0, tasks=s.tasks, work_core_s=s.work_core_s, task_cv=s.task_cv) for s in plan.stages
    )
    heavier = tuple(msgspec.structs.replace(s, work_core_s=times * s.work_core_s) for s in untouched)
    least = decided(msgspec.structs.replace(plan, stages=untouched), fresh).demand
    assert decided(msgspec.structs.replace(plan, stages=heavier), fresh).demand >= least - 1e-9


@given(states(), st.none() | st.floats(0, 9))
def test_a_demand_never_exceeds_the_tasks_that_can_run(
    state: tuple[ApplicationPlan, ObservedExecutor], held: float | None
) -> None:
    plan, executor = state
    running = sum(own.running for own in executor.stages.values())
    waiting = sum(stage.waiting for stage in live_stages(plan, executor))
    demand = decided(plan, executor, held).demand
    if running or waiting:
        assert 0 <= demand <= min(executor.slots, running + waiting) * plan.speed_limit + 1e-9
    else:
        # between stages: its slots' part of what is to come; while others still run, nothing
        others = sum(stage.elsewhere_running for stage in plan.stages)
        assert 0 <= demand <= (0.0 if others else executor.slots * plan.speed_limit + 1e-9)


@given(states(), st.floats(0.01, 100), st.floats(0.01, 0.99))
def test_what_stages_are_said_to_wait_limits_no_demand_once_there_is_less_time_than_they_take(
    state: tuple[ApplicationPlan, ObservedExecutor], waiting_s: float, share: float
) -> None:
    plan, executor = state
    waits = tuple(msgspec.structs.replace(stage, fixed_s=waiting_s, waiting_s=waiting_s) for stage in plan.stages)
    plan = msgspec.structs.replace(plan, stages=waits, aims=())
    live = live_stages(plan, executor)
    runnable = min(executor.slots, sum(own.running for own in executor.stages.values()) + sum(one.waiting for one in live))
    least_s = outlook(live, plan, 0.0).forecast.least_time_s()
    assume(runnable and least_s > 0.01)
    late = decided(msgspec.structs.replace(plan, left_s=share * least_s), executor)
    assert late.demand == min(runnable * plan.speed_limit, plan.cores)


@given(states())
def test_a_demand_never_exceeds_what_the_application_can_get(state: tuple[ApplicationPlan, ObservedExecutor]) -> None:
    plan, executor = state
    assert decided(plan, executor).demand <= plan.cores + 1e-9


@given(st.floats(1, 100), st.integers(1, 40), st.floats(0.5, 100))
def test_the_last_stage_gets_what_is_left(left_s: float, tasks: int, work_core_s: float) -> None:
    """The last stage of equal tasks on one executor gets exactly the cores that end it at the aim, if there are as many."""
    deadline_s = 100.0
    stage = StagePlan(stage=9, attempt=0, tasks=tasks, work_core_s=work_core_s)
    plan = ApplicationPlan(
        application_id="a",
        name="a",
        settings={"forecast.lead": 0.0},
        deadline_s=deadline_s,
        left_s=left_s,
        stages=(stage,),
        slots=SLOTS,
        cores=SLOTS,
    )
    demand = decided(plan, ObservedExecutor(SLOTS, {}, idle_s=0.0, speed_limit=plan.speed_limit)).demand
    aim_s = left_s - 0.005 * deadline_s
    whole = Forecast(schedule((), [work_core_s / tasks] * tasks, SLOTS))
    if aim_s > whole.least_time_s():
        assert whole.time_s(demand) == pytest.approx(aim_s)
    else:
        assert demand == min(SLOTS, tasks)
