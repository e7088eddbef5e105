"""Deadlines of single jobs and queries: which jobs share one, which governs, what is planned towards it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from msgspec import structs

from controller.master.core import planning, remaining
from controller.master.core.actions import MOST_AIMS, Actions
from controller.master.core.application import Application
from controller.master.core.capacity import Capacity
from controller.master.core.set_command import claim_after
from controller.wire.command import Change
from stage_model.forecast.estimate import estimate
from stage_model.history.events import JobEnd, JobStart, StageCompleted, StageInfo, StageSubmitted
from stage_model.history.profile import Profile, profile
from stage_model.history.run import Run
from stage_model.history.run_record import ContainerUse, to_record
from tests.fakes.cluster import FakeCluster, answered
from tests.fakes.goals import fix_goal
from tests.fakes.records import facts

MOST = Capacity(cores=1.0, slots=1, speed_limit=1.0, executors=1)


def started(job: int, time_ms: int = 0, deadline: str | None = "60s", sql: str | None = None, **more: str) -> JobStart:
    properties = {f"spark.pace.{key}": value for key, value in more.items()}
    if deadline is not None:
        properties["spark.pace.deadline"] = deadline
    return JobStart(job=job, time_ms=time_ms, sql_execution=sql, properties=properties)


class TestActions:
    def test_a_job_has_its_deadline_from_its_start_to_its_end(self) -> None:
        actions = Actions()
        actions.apply(started(0, 5000))
        (action,) = actions.under_way()
        assert (action.start_ms, action.deadline_s) == (5000, 60.0)
        actions.apply(JobEnd(job=0, time_ms=50_000, ok=True))
        assert actions.under_way() == []
        assert action.end_ms == 50_000

    def test_jobs_of_one_query_share_a_deadline(self) -> None:
        actions = Actions()
        for event in (started(0, 1000, sql="7"), JobEnd(job=0, time_ms=9000, ok=True), started(1, 9500, sql="7")):
            actions.apply(event)
        (action,) = actions.under_way()
        assert (action.start_ms, action.jobs, action.under_way) == (1000, {0, 1}, {1})

    @pytest.mark.parametrize("sql", ["0", None], ids=["a query's job", "a later job of a pool's thread"])
    @pytest.mark.parametrize(
        ("of_all", "leaked"), [("90.000s", "90.000s"), ("90.000s", "1.5min"), ("91.100s", "91.1"), ("91.100s", "91100ms")]
    )
    def test_what_a_job_has_from_application_settings_is_not_its_own(self, of_all: str, leaked: str, sql: str | None) -> None:
        """Spark copies a session's settings to the local properties of its queries' jobs, and from there they leak to jobs of
        no query: a CrossValidator with parallelism 2 has hundreds of them."""
        actions = Actions({"spark.pace.deadline": of_all, "spark.pace.priority": "100"})
        assert actions.apply(started(0, deadline=leaked, sql=sql, priority="high")) == ""
        assert actions.by_key == {}
        actions.apply(started(1, deadline="60s", sql=sql and "1", priority="high"))
        (action,) = actions.under_way()
        assert (action.deadline_s, action.priority) == (60.0, None)

    @pytest.mark.parametrize("leaked", ["2030-01-01T00:01:30+00:00", "2030-01-01T01:01:30+01:00", "by 00:01 UTC"])
    def test_nor_is_a_time_of_day_that_is_the_applications(self, leaked: str) -> None:
        same = "2030-01-01T00:01:00+00:00" if leaked.startswith("by") else "2030-01-01T00:01:30+00:00"
        actions = Actions({"spark.pace.deadline": same})
        assert actions.apply(started(0, 1_893_456_000_000, leaked)) == ""
        assert actions.by_key == {}
        # it has passed, which is no news for the job
        assert actions.apply(started(1, 1_893_456_999_000, same)) == ""
        assert actions.by_key == {}
        actions.apply(started(2, 1_893_456_999_000, "60s"))
        assert "job 2" in actions.by_key

    def test_several_under_way_come_in_the_order_in_which_they_are_due(self) -> None:
        actions = Actions()
        actions.apply(started(0, 0, "60s"))
        actions.apply(started(1, 10_000, "20s"))
        assert actions.under_way() == [actions.by_key["job 1"], actions.by_key["job 0"]]
        actions.apply(JobEnd(job=1, time_ms=20_000, ok=True))
        assert actions.under_way() == [actions.by_key["job 0"]]

    def test_a_query_between_its_jobs_is_not_under_way_and_afterwards_only_once(self) -> None:
        actions = Actions()
        actions.apply(started(0, sql="7"))
        actions.apply(JobEnd(job=0, time_ms=1_000, ok=True))
        actions.apply(started(9, 0, "1000s"))
        assert [action.name for action in actions.under_way()] == ["job 9"]
        actions.apply(started(1, 2_000, sql="7"))
        assert [action.name for action in actions.under_way()] == ["query 7", "job 9"]

    def test_only_the_first_deadlines_up_to_the_limit_count(self) -> None:
        actions = Actions()
        for job in range(MOST_AIMS + 3):
            actions.apply(started(job, job, "60s"))
        assert [action.number for action in actions.under_way()] == list(range(MOST_AIMS))

    def test_without_the_property_and_with_a_bad_one_there_is_none(self) -> None:
        actions = Actions()
        assert actions.apply(started(0, deadline=None)) == ""
        assert "spark.pace.deadline 'soon'" in actions.apply(started(1, deadline="soon"))
        assert "spark.pace.priority" in actions.apply(started(2, priority="most"))
        assert actions.under_way() == []

    def test_a_time_is_a_deadline_too_and_a_repeated_event_changes_nothing(self) -> None:
        actions = Actions()
        event = started(0, 1_893_456_000_000, "2030-01-01T00:01:30+00:00", priority="high")
        actions.apply(event)
        actions.apply(event)
        (action,) = actions.under_way()
        assert (action.deadline_s, action.priority, action.jobs) == (90.0, 100, {0})


def info(stage: int) -> StageInfo:
    return StageInfo(stage=stage, name=f"step{stage} at app.py:1", tasks=4, parents=(stage - 1,) if stage % 2 else ())


def taught() -> Profile:
    """Make a profile of three jobs of two stages of 10 s on one core; the first two jobs are one query."""
    run, now_ms = Run(), 5000
    for job in range(3):
        infos = tuple(info(2 * job + i) for i in range(2))
        run.apply(JobStart(job=job, time_ms=now_ms, stages=infos, sql_execution="0" if job < 2 else None))
        for each in infos:
            run.apply(StageSubmitted(info=each, time_ms=now_ms))
            now_ms += 10_000
            run.apply(StageCompleted(stage=each.stage, attempt=0, time_ms=now_ms))
        run.apply(JobEnd(job=job, time_ms=now_ms, ok=True))
    record = to_record(
        run,
        facts(cores=1.0, slots=1),
        ContainerUse(container_core_s={(i, 0): 10.0 for i in range(6)}, allocated_core_s={(i, 0): 10.0 for i in range(6)}),
    )
    stages = tuple(structs.replace(s, work_core_s=10.0, teaches=True) for s in record.stages)
    return profile("app@app.py", [structs.replace(record, complete=True, stages=stages)])


def known(cluster: FakeCluster, deadline_s: float | None = None) -> Application:
    """Return an application with that profile and deadline on a worker of one core."""
    cluster.worker("w1")
    application = cluster.registered(age_s=0.0)
    application.estimate = estimate(taught())
    application.record.options = replace(application.options, deadline_s=deadline_s)
    return application


def begin(application: Application, job: int, start_ms: int, deadline: str, sql: str | None = None, **more: str) -> None:
    """Let a job of the profile and its first stage begin."""
    infos = (info(2 * job), info(2 * job + 1))
    application.apply(structs.replace(started(job, start_ms, deadline, sql, **more), stages=infos))
    application.apply(StageSubmitted(info=infos[0], time_ms=start_ms))


def with_jobs(cluster: FakeCluster, deadline_s: float | None, *given: tuple[int, str | None, str]) -> Application:
    """Make an application with that deadline; 7 s after its submission these jobs of the profile begin: job, query,
    deadline."""
    application = known(cluster, deadline_s)
    for job, sql, deadline in given:
        begin(application, job, 7000, deadline, sql)
    for job, _, _ in given:
        fix_goal(application, 2 * job, MOST, cluster.now_s + 7)
    return application


def core_s(busy: Sequence[float]) -> float:
    return sum(tasks * seconds for tasks, seconds in enumerate(busy, 1))


def test_only_what_belongs_to_the_action_is_planned_for(cluster: FakeCluster) -> None:
    """Its first stage is under way: of the query's four stages three are to come, the last job does not belong to it."""
    application, start_ms = known(cluster), 7000
    begin(application, 0, start_ms, "100s", "0", priority="high")
    fix_goal(application, 0, MOST, cluster.now_s + 7)
    plan = planning.application_plan(application, "w1", MOST, cluster.now_s + 12)
    assert (plan.deadline_s, plan.priority) == (100.0, 100)
    assert plan.left_s == pytest.approx(95.0, abs=0.01)
    assert core_s(plan.future_busy) == pytest.approx(30.0)
    assert plan.future_fixed_s == pytest.approx(0.0, abs=0.1)
    view = cluster.state.core.commands.view(application.id, cluster.now_s + 12)
    assert view.deadline_s == pytest.approx(107.0, abs=0.01)
    # the paper's deadline of the first of four equal stages, from the action's own start
    assert application.plan.goals[(0, 0)].length_s == pytest.approx(0.95 * 100 / 4, rel=0.01)
    application.apply(JobEnd(job=0, time_ms=start_ms + 20_000, ok=True))
    after = planning.application_plan(application, "w1", MOST, cluster.now_s + 30)
    assert (after.deadline_s, after.left_s, after.priority) == (None, None, 50)


def test_actions_side_by_side_have_an_aim_each(cluster: FakeCluster) -> None:
    """A query of two jobs and, 3 s later, a job that is due before it."""
    application = known(cluster)
    for job, sql, deadline, priority in ((0, "0", "100s", "high"), (2, None, "60s", "normal")):
        start_ms = 7000 + 1500 * job
        begin(application, job, start_ms, deadline, sql, priority=priority)
        fix_goal(application, 2 * job, MOST, cluster.now_s + start_ms / 1000)
    plan = planning.application_plan(application, "w1", MOST, cluster.now_s + 12)
    assert plan.priority == 100
    assert [aim.stages for aim in plan.aims] == [((4, 0),), ((0, 0),)]
    assert [aim.deadline_s for aim in plan.aims] == [60.0, 100.0]
    assert [aim.left_s for aim in plan.aims] == pytest.approx([58.0, 95.0], abs=0.01)
    # one stage of 10 s is to come of the job, three of the query
    assert [core_s(aim.future_busy) for aim in plan.aims] == pytest.approx([10.0, 30.0])
    # the plan itself is for the action that is due first, as for agents that do not know aims
    assert (plan.deadline_s, plan.left_s, plan.future_busy) == (60.0, plan.aims[0].left_s, plan.aims[0].future_busy)
    claims = remaining.promises(application, MOST, cluster.now_s + 12)
    # 20 s of the job and 40 of the query
    assert [core_s(claim.forecast.busy) for claim in claims] == pytest.approx([20.0, 40.0])
    assert [claim.left_s for claim in claims] == pytest.approx([58.0, 95.0], abs=0.01)
    # what is asked for the application is for all that it has still to do, under way or not: 60 s
    claim = claim_after(application, Change(deadline_s=200.0), MOST, cluster.now_s + 12)
    assert claim is not None
    assert core_s(claim.forecast.busy) == pytest.approx(60.0)
    assert claim.left_s == pytest.approx(188.0, abs=0.01)
    assert application.options.deadline_s is None
    # each stage has the paper's deadline of its own action: the first of two, and of four, equal stages
    lengths_s = [application.plan.goals[key].length_s for key in ((4, 0), (0, 0))]
    assert lengths_s == pytest.approx([0.95 * 60 / 2, 0.95 * 100 / 4], rel=0.01)
    # a job without a deadline next to one is not the deadline's, but shares its cores
    application.apply(JobEnd(job=0, time_ms=20_000, ok=True))
    application.apply(StageCompleted(stage=0, attempt=0, time_ms=20_000))
    assert planning.application_plan(application, "w1", MOST, cluster.now_s + 20).aims == ()
    application.apply(JobStart(job=1, time_ms=21_000, stages=(info(2),)))
    application.apply(StageSubmitted(info=info(2), time_ms=21_000))
    (aim,) = planning.application_plan(application, "w1", MOST, cluster.now_s + 21).aims
    assert aim.stages == ((4, 0),)


@pytest.mark.parametrize(("deadline", "due_s"), [("20s", [27.0, 90.0]), ("200s", [90.0, 207.0])])
def test_the_applications_deadline_is_always_one_of_the_aims(cluster: FakeCluster, deadline: str, due_s: list[float]) -> None:
    """A query of two jobs has a deadline of its own; of the application 60 s of work are left."""
    application = with_jobs(cluster, 90.0, (0, "0", deadline))
    plan = planning.application_plan(application, "w1", MOST, cluster.now_s + 7)
    assert [aim.left_s + 7 for aim in plan.aims] == pytest.approx(due_s, abs=0.01)
    whole, action = sorted(plan.aims, key=lambda aim: not aim.whole)
    assert (whole.whole, whole.deadline_s, whole.stages) == (True, 90.0, ((0, 0),))
    assert (action.whole, action.stages) == (False, ((0, 0),))
    assert (sum(whole.future_busy), sum(action.future_busy)) == pytest.approx((50.0, 30.0))
    # the plan itself is for what is due first
    first = plan.aims[0]
    assert (plan.deadline_s, plan.left_s, plan.future_busy) == (first.deadline_s, first.left_s, first.future_busy)
    # work is claimed once, for the first deadline that it is due for
    claims = remaining.promises(application, MOST, cluster.now_s + 7)
    assert [claim.left_s + 7 for claim in claims] == pytest.approx([27.0, 90.0] if deadline == "20s" else [90.0], abs=0.01)
    assert [core_s(claim.forecast.busy) for claim in claims] == pytest.approx([40.0, 20.0] if deadline == "20s" else [60.0])


def test_a_value_that_the_application_began_with_stays_no_jobs_own_when_it_is_changed(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application = cluster.registered(age_s=0.0, conf={"spark.pace.deadline": "90.000s", "spark.pace.priority": "high"})
    for changed in (Change(deadline_s=300.0, priority="low"), Change(no_deadline=True)):
        answered(cluster.state.commands.change(application.id, changed, cluster.clock))
        application.apply(started(0, 7000, "90s", priority="100"))
        assert application.actions.by_key == {}
        assert [target.deadline_s for target in application.targets()] == ([300.0] if changed.deadline_s else [])


@pytest.mark.parametrize(
    ("deadline_s", "of_jobs", "priority"),
    [
        (None, ["low"], 0),
        (None, ["low", "7"], 7),
        (None, ["low", None], 50),
        (90.0, ["low"], 50),
        (90.0, ["high"], 100),
        (90.0, [], 50),
    ],
)
def test_the_priority_is_the_highest_of_the_deadlines_that_govern(
    cluster: FakeCluster, deadline_s: float | None, of_jobs: list[str | None], priority: int
) -> None:
    application = known(cluster, deadline_s)
    for job, own in enumerate(of_jobs):
        application.apply(started(job, 7000, "60s", **({} if own is None else {"priority": own})))
    assert application.priority() == priority


def test_under_the_paper_law_a_stage_has_the_deadline_that_needs_most_cores(cluster: FakeCluster) -> None:
    """Six equal stages are left to the application, four of them to the query and two to the job."""

    def lengths_s(deadline_s: float | None, query: str) -> list[float]:
        application = with_jobs(cluster, deadline_s, (0, "0", query), (2, None, "60s"))
        return [application.plan.goals[key].length_s for key in ((0, 0), (4, 0))]

    assert lengths_s(None, "100s") == pytest.approx([0.95 * 100 / 4, 0.95 * 60 / 2], rel=0.01)
    of_application = pytest.approx((0.95 * 67 - 7) / 6, rel=0.01)
    assert lengths_s(67.0, "100s") == [of_application, of_application]
    assert lengths_s(67.0, "20s") == [pytest.approx(0.95 * 20 / 4, rel=0.01), of_application]
