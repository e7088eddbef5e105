"""Stage deadlines, groups of short stages, plans for agents and feasibility, from a profile of known numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace as changed_copy
from typing import Any

import pytest
from msgspec import structs

from controller.master.core import goals, planning, remaining
from controller.master.core.application import Application
from controller.master.core.capacity import Capacity, capacity
from controller.master.core.feasibility import feasibility
from controller.wire.command import PlanReply
from controller.wire.worker import WorkerInfo
from stage_model.deadlines import stage_deadline
from stage_model.errors import BadInput
from stage_model.forecast.estimate import estimate
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.events import AnyEvent, JobStart, StageCompleted, StageInfo, StageSubmitted, TaskEnd
from stage_model.history.profile import Profile, profile, profile_json
from stage_model.history.run import Run
from stage_model.history.run_record import ContainerUse, to_record
from tests.fakes.cluster import FakeCluster, report, use
from tests.fakes.goals import fix_goal
from tests.fakes.records import facts
from tests.fakes.refusals import assert_names

MOST = Capacity(cores=1.7, slots=2, speed_limit=0.85, executors=2)
ALPHA, BETA = 0.95, 0.33


def info(stage: int, tasks: int = 4) -> StageInfo:
    parents = (stage - 1,) if stage else ()
    return StageInfo(stage=stage, name=f"step{stage} at app.py:1", tasks=tasks, parents=parents)


def taught(*durations_s: float) -> Profile:
    """Return a profile of one run: stages in sequence after 5 s, each with work = duration * 1.7 (all cores busy)."""
    run, now_ms = Run(), 5000
    run.apply(JobStart(job=0, time_ms=now_ms, stages=tuple(info(i) for i in range(len(durations_s)))))
    for stage, duration_s in enumerate(durations_s):
        run.apply(StageSubmitted(info=info(stage), time_ms=now_ms))
        now_ms += round(1000 * duration_s)
        run.apply(StageCompleted(stage=stage, attempt=0, time_ms=now_ms))
    core_s = {(i, 0): 1.7 * d for i, d in enumerate(durations_s)}
    record = to_record(run, facts(cores=1.7, executors=2), ContainerUse(container_core_s=core_s, allocated_core_s=core_s))
    stages = tuple(structs.replace(s, work_core_s=1.7 * s.duration_s, teaches=True) for s in record.stages)
    return profile("app@app.py", [structs.replace(record, complete=True, stages=stages)])


@pytest.fixture
def application(cluster: FakeCluster) -> Application:
    """Provide an application with a deadline of 100 s, submitted at 98 on the clock, so 2 s old."""
    cluster.worker("w1")
    return cluster.registered(conf={"spark.pace.deadline": "100s"})


def submit(application: Application, stage: int, now_s: float, count: int = 3) -> None:
    if stage == 0:
        application.apply(JobStart(job=0, time_ms=0, stages=tuple(info(i) for i in range(count))))
    else:
        application.apply(StageCompleted(stage=stage - 1, attempt=0, time_ms=stage))
    application.apply(StageSubmitted(info=info(stage), time_ms=stage))
    fix_goal(application, stage, MOST, now_s)


def task_end(task: int, finish_ms: int = 1, **more: Any) -> TaskEnd:
    return TaskEnd(stage=0, attempt=0, task=task, index=task, executor="1", launch_ms=0, finish_ms=finish_ms, ok=True, **more)


def test_a_stage_deadline_is_the_papers(application: Application) -> None:
    application.estimate = estimate(taught(20.0, 10.0, 10.0))
    submit(application, 0, now_s=108.0)  # 10 s after submission
    goal = application.plan.goals[(0, 0)]
    expected = stage_deadline([20.0, 10.0, 10.0], 0, deadline_s=100, spent_s=10, alpha=ALPHA, beta=BETA)
    assert goal.length_s == pytest.approx(expected)
    [stage] = planning.application_plan(application, "w1", MOST, now_s=108.0).stages
    # work / deadline over two executors, rounded up to cq
    assert stage.initial_cores == pytest.approx(0.05 * -(-(34.0 / expected / 2) // 0.05))


def test_short_stages_are_controlled_together(application: Application) -> None:
    # 40 stages of equal length in 85 s left: about 2 s each, under three periods
    application.estimate = estimate(taught(*[1.0] * 40))
    submit(application, 0, now_s=108.0, count=40)
    first = application.plan.goals[(0, 0)]
    assert first.length_s >= goals.SHORT_PERIODS * MOST.period_s
    assert first.group_share == pytest.approx(0.5)  # of two equal stages
    submit(application, 1, now_s=109.0, count=40)
    second = application.plan.goals[(1, 0)]
    assert (second.submitted_s, second.length_s) == (first.submitted_s, first.length_s)
    assert second.group_base == pytest.approx(0.5)
    assert second.group_share == pytest.approx(0.5)
    [plan] = planning.application_plan(application, "w1", MOST, now_s=109.5).stages
    assert plan.group == (0, 0)
    assert plan.group_base == pytest.approx(0.5)
    submit(application, 2, now_s=111.0, count=40)
    third = application.plan.goals[(2, 0)]
    assert (third.group, third.group_base) == ((2, 0), 0.0)


def test_a_plan_holds_the_stage_under_way_and_the_schedule_of_the_rest(application: Application) -> None:
    application.estimate = estimate(taught(20.0, 10.0, 10.0))
    submit(application, 0, now_s=108.0)
    plan = planning.application_plan(application, "w1", MOST, now_s=118.0)
    [stage] = plan.stages
    assert plan.left_s == pytest.approx(80.0)
    assert plan.elapsed_s == pytest.approx(20.0)
    assert stage.work_core_s == pytest.approx(34.0)
    assert stage.left_s == pytest.approx(application.plan.goals[(0, 0)].length_s - 10)
    assert sum(k * v for k, v in enumerate(plan.future_busy, 1)) == pytest.approx(34.0)
    assert plan.pace == 1.0


def test_the_plan_waits_for_at_most_the_work_of_the_run_with_the_least(application: Application) -> None:
    [run] = taught(20.0).runs
    runs = [structs.replace(run, id=name, used_core_s=core_s) for name, core_s in (("a", 40.0), ("b", 60.0))]
    application.estimate = estimate(profile("app@app.py", runs))
    submit(application, 0, now_s=108.0, count=1)
    plan = planning.application_plan(application, "w1", MOST, now_s=108.0)
    # 40 in all, of which the stage under way has 34 and 5% of these may be chance
    assert sum(k * v for k, v in enumerate(plan.future_busy, 1)) == pytest.approx(40.0 - 34.0 - 1.7)


def waited() -> Profile:
    """Make a profile of two stages of 20 s, of which 15 s were work on all cores: no quota held them back, and on each of two
    slots tasks ran for 5 s more than they computed."""
    known = taught(20.0, 20.0)
    [run] = known.runs
    stages = tuple(structs.replace(one, work_core_s=25.5, run_s=25.5 + 2 * 5, throttled_s=0.0) for one in run.stages)
    return structs.replace(known, runs=(structs.replace(run, stages=stages),))


def test_what_stages_wait_is_part_of_schedule_plan_and_promise(cluster: FakeCluster, application: Application) -> None:
    cluster.worker("w2")  # which gets an executor, too: two slots in all
    application.estimate = estimate(waited())
    submit(application, 0, now_s=108.0, count=2)
    plan = planning.application_plan(application, "w1", MOST, now_s=108.0)
    [stage] = plan.stages
    assert (stage.fixed_s, stage.waiting_s) == pytest.approx((5.0, 5.0))
    future = Forecast(plan.future_busy, plan.future_fixed_s, plan.speed_limit, plan.future_limited)
    assert future.time_s(1.7) == pytest.approx(20.0)
    # two tasks that compute for 3 of 4 s use 1.5 tasks' worth; with one task's worth their work is all that counts
    assert future.time_s(0.85) == pytest.approx(30.0)
    for task in range(2):
        application.apply(task_end(task))
    [claim] = remaining.promises(application, MOST, now_s=108.0)
    # half of the first stage and all of the second: 30 s of 20 + 20, of which 7.5 s are hidden with one task's worth of cores
    assert claim.forecast.time_s(1.7) == pytest.approx(30.0)
    assert claim.forecast.time_s(0.85) == pytest.approx(1.5 * 25.5 / 0.85)


def test_a_squeezed_stage_that_hides_its_waiting_is_no_sign_of_speed(cluster: FakeCluster, application: Application) -> None:
    cluster.worker("w1", report(application.id, "1", stages=(use(0, 25.5, done=4, allocated_core_s=25.5),)))
    application.estimate = estimate(waited())
    # with 0.85 cores the 25.5 core-seconds take 30 s, as waiting is hidden: 30 and not 35 were to be expected
    submit(application, 0, now_s=108.0, count=2)
    for task in range(4):
        application.apply(task_end(task, finish_ms=30_000, run_ms=15_000))
    application.apply(StageCompleted(stage=0, attempt=0, time_ms=30_000))
    assert planning.application_plan(application, "w1", MOST, now_s=138.0).pace == pytest.approx(1.0)


def test_before_the_first_stage_the_rest_of_the_start_up_is_still_to_come(application: Application) -> None:
    application.estimate = estimate(taught(20.0))
    early = planning.application_plan(application, "w1", MOST, now_s=99.0)  # 1 s after submission
    late = planning.application_plan(application, "w1", MOST, now_s=110.0)
    assert early.future_fixed_s - late.future_fixed_s == pytest.approx(4.0)  # of 5 s of start-up


def test_until_the_first_task_the_start_of_executors_is_still_to_come(application: Application) -> None:
    """There are 5 s of start-up, 3 s of which are left, and 7 s from the first stage to its first task."""
    slow = structs.replace(taught(20.0), runs=tuple(structs.replace(one, launch_s=7.0) for one in taught(20.0).runs))
    left: list[float] = []
    for known in (taught(20.0), slow):
        application.estimate = estimate(known)
        left.append(planning.application_plan(application, "w1", MOST, now_s=100.0).future_fixed_s)
    assert left[1] - left[0] == pytest.approx(7.0)


def test_initial_cores_follow_what_the_stage_is_seen_to_read(application: Application) -> None:
    """Document 004: records / (deadline * nominal rate). The stage deadline stays as it was fixed."""
    known = taught(20.0, 10.0)
    [run] = known.runs
    first, second = run.stages
    reading = structs.replace(run, stages=(structs.replace(first, records=1000, input_records=1000), second))
    application.estimate = estimate(structs.replace(known, runs=(reading,)))
    submit(application, 0, now_s=108.0, count=2)
    before = planning.application_plan(application, "w1", MOST, now_s=108.0)
    # a quarter of the tasks read an eighth, so the others are taken to read 187.5 each
    application.apply(task_end(0, input_records=125))
    after = planning.application_plan(application, "w1", MOST, now_s=108.0)
    length_s = application.plan.goals[(0, 0)].length_s
    for plan, records in ((before, 1000), (after, 125 + 3 * 187.5)):
        [stage] = plan.stages
        rate = 1000 / 34.0  # records per core-second
        assert stage.length_s == pytest.approx(length_s)
        assert stage.initial_cores == pytest.approx(0.05 * math.ceil(records / (length_s * rate) / 2 / 0.05))


def test_feasibility_names_the_least_deadline_and_the_cores_that_more_time_needs() -> None:
    what = estimate(taught(20.0, 10.0))
    refused = feasibility(what, 20.0, MOST)
    assert refused.feasible is False
    assert refused.least_deadline_s is not None
    assert refused.least_deadline_s == pytest.approx(35.0, abs=0.2)  # 5 s of start-up and 30 s of work on all cores
    assert feasibility(what, refused.least_deadline_s + 0.1, MOST).feasible is True
    cores = [feasibility(what, d, MOST).cores for d in (36.0, 45.0, 60.0, 120.0)]
    assert None not in cores
    assert cores == sorted(cores, reverse=True)  # type: ignore[type-var]
    # 51 core-seconds in 115 s are 0.44 cores, rounded up to quanta
    assert cores[-1] == pytest.approx(0.45)
    # half the slots and cores need twice the time after the start-up
    half_s = feasibility(what, None, changed_copy(MOST, cores=0.85, slots=1, executors=1)).least_deadline_s
    assert half_s is not None
    assert half_s - 5 == pytest.approx(2 * (refused.least_deadline_s - 5), rel=0.01)


def test_where_no_profile_has_the_name_the_one_that_may_be_meant_is_named(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    for day in (24, 25):
        cluster.state.profiles.add(structs.replace(taught(20.0), key=f"load-2026-11-{day}@app.py"))
    planned = cluster.plan(profile="load-2026-11-26@app.py")
    assert (planned.known, planned.feasible) == (False, None)
    assert_names(planned.reason, "'load-2026-11-26@app.py'", "--profile load-2026-11-25@app.py")
    notices = cluster.registered(name="load-2026-11-26").notices.lines
    assert planned.reason in notices


def test_capacity_counts_the_largest_workers() -> None:
    def worker(name: str, cores: float) -> WorkerInfo:
        return WorkerInfo(worker_id=name, host="h", cores=cores, memory_mb=1, runtime="fake", pid=1, boot_id="b")

    workers = [worker("a", 0.5), worker("b", 2.5), worker("c", 1.0)]
    most = capacity(workers, lambda w: -int(-w.cores // 1), 2)
    assert (most.cores, most.slots, most.speed_limit, most.executors) == (3.5, 4, 1.0, 2)
    assert capacity(workers[:1], lambda _: 1, None).speed_limit == 0.5
    # one slot of half a core, and four of which each can use a core
    assert capacity(workers, lambda w: -int(-w.cores // 1), None).speed_limit == 0.9


def test_stages_that_begin_between_two_plans_are_compared_with_the_profile_once(application: Application) -> None:
    application.estimate = estimate(taught(20.0, 10.0, 10.0))
    began: list[AnyEvent] = [
        JobStart(job=0, time_ms=0, stages=tuple(info(i) for i in range(3))),
        StageSubmitted(info=info(0), time_ms=0),
        StageCompleted(stage=0, attempt=0, time_ms=1000),
        StageSubmitted(info=info(1), time_ms=1000),
    ]
    for event in began:
        goals.take_event(application, event, 101.0)
    assert application.plan.cache is None
    plan = planning.application_plan(application, "w1", MOST, 102.0)
    assert set(application.plan.goals) == {(0, 0), (1, 0)}
    # of the 97 s left when it began, 10 of 20 s are this stage's
    assert plan.stages[0].length_s == pytest.approx(0.95 * 97 / 2, rel=0.01)


def test_stages_that_begin_between_two_plans_have_the_goals_of_two_plans(application: Application) -> None:
    # the first two stages are a group: with periods of 4 s, the first would have less than three of them by itself
    application.estimate = estimate(taught(1.0, 3.0, *[1.0] * 8))
    submit(application, 0, now_s=108.0, count=10)
    application.plan.goals.clear()
    goals.await_goal(application, (0, 0), 108.0)
    began: list[AnyEvent] = [StageCompleted(stage=0, attempt=0, time_ms=1), StageSubmitted(info=info(1), time_ms=1)]
    for event in began:
        goals.take_event(application, event, 116.0)
    planning.application_plan(application, "w1", changed_copy(MOST, period_s=4.0), 117.0)
    first, second = application.plan.goals[(0, 0)], application.plan.goals[(1, 0)]
    assert [first.group_base, first.group_share] == pytest.approx([0.0, 0.25])
    assert [second.group_base, second.group_share] == pytest.approx([0.25, 0.75])
    assert second.group == (0, 0)


def test_which_stages_are_short_follows_from_the_longest_period_of_the_workers(application: Application) -> None:
    # 10 stages of equal length in 85 s left: 8.5 s each, more than three periods of 1 s and less than three of 4 s
    application.estimate = estimate(taught(*[1.0] * 10))
    submit(application, 0, now_s=108.0, count=10)
    assert application.plan.goals[(0, 0)].group_share == 1.0
    application.plan.goals.clear()
    fix_goal(application, 0, changed_copy(MOST, period_s=4.0), 108.0)
    assert application.plan.goals[(0, 0)].group_share == pytest.approx(0.5)  # of two, which have 13.4 s


def test_the_period_of_an_application_is_the_longest_of_its_workers(cluster: FakeCluster) -> None:
    for name, period_s in (("w1", 0.5), ("w2", 4.0)):
        cluster.worker(name, period_s=period_s)
    application = cluster.registered()
    assert cluster.state.workers.capacity(application, cluster.now_s).period_s == 4.0


@pytest.fixture
def planned(cluster: FakeCluster) -> Callable[..., PlanReply]:
    """Return a function that plans two stages of 34 and 17 core-seconds after 5 s of start-up, on two workers of one core."""
    cluster.worker("w1")
    cluster.worker("w2")
    text = profile_json(taught(20.0, 10.0)).decode()
    return lambda **asked: cluster.plan(profile_json=text, **asked)


def test_the_cores_of_a_plan_are_those_that_its_law_aims_with(planned: Callable[..., PlanReply]) -> None:
    def cores(**asked: Any) -> float | None:
        return planned(deadline_s=120.0, **asked).cores

    # 51 core-seconds within alpha * 120 s less 5 s of start-up, rounded up to 0.05 cores
    assert cores(law="forecast") == cores() == 0.45  # 51 / 114.4
    assert cores(law="paper") == 0.5  # 51 / 109
    assert cores(law="forecast", settings={"forecast.alpha": 0.5}) == 0.95  # 51 / 55
    assert cores(law="paper", settings={"paper.alpha": 0.5}) == 0.95
    assert cores(law="paper", settings={"forecast.alpha": 0.5}) == 0.5
    assert cores(law="constant", settings={"constant.cores": 1.5}) == 1.5
    reason = planned(deadline_s=120.0, law="constant", settings={"constant.cores": 1.5}).reason
    assert_names(reason, "law constant", "1.50 cores", "39s")


def test_only_the_law_paper_plans_stage_deadlines_with_its_constants(planned: Callable[..., PlanReply]) -> None:
    def deadlines(**asked: Any) -> list[float | None]:
        return [stage.deadline_s for stage in planned(deadline_s=120.0, **asked).stages]

    assert deadlines(law="forecast") == deadlines(law="constant") == [None, None]
    # beta = 1 splits what is left of alpha * 120 s after 5 s of start-up equally, beta = 0 by 2 to 1
    assert deadlines(law="paper", settings={"paper.alpha": 1.0, "paper.beta": 1.0}) == [57.5, 57.5]
    assert deadlines(law="paper", settings={"paper.alpha": 0.5, "paper.beta": 0.0}) == [36.67, 18.33]


def test_a_plan_that_names_no_law_is_of_the_clusters_own(cluster: FakeCluster, planned: Callable[..., PlanReply]) -> None:
    cluster.state.admission.core.default_law = "paper"
    plan = planned(deadline_s=120.0)
    assert plan.cores == 0.5  # as above
    assert all(stage.deadline_s is not None for stage in plan.stages)


@pytest.mark.parametrize(
    ("asked", "problem"),
    [({"law": "none"}, "'none'"), ({"settings": {"paper.alpha": 5.0}}, "paper.alpha .*5"), ({"settings": {"x": 1.0}}, "x ")],
)
def test_a_plan_with_an_unusable_law_is_refused(planned: Callable[..., PlanReply], asked: Any, problem: str) -> None:
    with pytest.raises(BadInput, match=problem):
        planned(**asked)


def with_bytes(taught_before: Profile, *amounts: tuple[int, int]) -> Profile:
    """Return the profile with these bytes that each stage read and wrote."""
    [record] = taught_before.runs
    stages = tuple(
        structs.replace(stage, bytes=read, written_bytes=written)
        for stage, (read, written) in zip(record.stages, amounts, strict=True)
    )
    return structs.replace(taught_before, runs=(structs.replace(record, stages=stages),))


def test_a_plan_has_the_bytes_left_of_the_stages_to_come_and_of_the_tasks_that_have_not_ended(
    application: Application,
) -> None:
    application.estimate = estimate(with_bytes(taught(20.0, 10.0, 10.0), (4000, 800), (800, 400), (400, 0)))
    submit(application, 0, now_s=108.0)
    assert planning.application_plan(application, "w1", MOST, now_s=108.0).bytes_left == (5200, 1200)
    application.apply(task_end(1))
    assert planning.application_plan(application, "w1", MOST, now_s=108.0).bytes_left == (4200, 1000)
    submit(application, 1, now_s=120.0)
    assert planning.application_plan(application, "w1", MOST, now_s=120.0).bytes_left == (1200, 400)


def test_bytes_that_no_profile_knows_are_not_left(application: Application) -> None:
    submit(application, 0, now_s=108.0)
    assert planning.application_plan(application, "w1", MOST, now_s=108.0).bytes_left is None
    application.estimate = estimate(taught(20.0, 10.0, 10.0))
    application.plan.drop_cache()
    assert planning.application_plan(application, "w1", MOST, now_s=108.0).bytes_left is None
