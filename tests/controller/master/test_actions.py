"""Deadlines of single jobs and queries: which jobs share one, which governs, what is planned towards it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from controller.master import planning
from controller.master.actions import MOST_AIMS, Actions
from controller.master.capacity import Capacity
from controller.master.change import claim_after
from controller.wire.command import Change
from stage_model.forecast.estimate import estimate
from stage_model.history.events import JobEnd, JobStart, StageCompleted, StageInfo, StageSubmitted
from stage_model.history.profile import Profile, profile
from stage_model.history.run import Run
from stage_model.history.run_record import to_record
from tests.fakes.cluster import FakeCluster

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

    def test_what_a_query_has_from_the_applications_own_settings_is_not_its_own(self) -> None:
        """Spark copies a session's settings to the local properties of its queries' jobs."""
        actions = Actions({"spark.pace.deadline": "90.000s", "spark.pace.priority": "100"})
        actions.apply(started(0, deadline="90.000s", sql="0", priority="100"))
        assert actions.by_key == {}
        actions.apply(started(1, deadline="60s", sql="1", priority="100"))
        (action,) = actions.under_way()
        assert (action.deadline_s, action.priority) == (60.0, None)
        # an RDD job has none but those that were set for it
        actions.apply(started(2, deadline="90.000s"))
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

    def test_no_more_than_the_first_few_are_looked_after(self) -> None:
        actions = Actions()
        for job in range(MOST_AIMS + 3):
            actions.apply(started(job, job, "60s"))
        assert [action.number for action in actions.under_way()] == list(range(MOST_AIMS))

    def test_without_the_property_and_with_a_bad_one_there_is_none(self) -> None:
        actions = Actions()
        assert actions.apply(started(0, deadline=None)) == ""
        assert "spark.pace.deadline 'soon' is neither a duration nor a time" in actions.apply(started(1, deadline="soon"))
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
    """Three jobs of two stages of 10 s on one core; the first two jobs are one query."""
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
        run, id="run", name="app", main="app.py", when_ms=0, spark_version="4.3.0", cores=1.0, slots=1, executors=1,
        started_ms=0, container_core_s={(i, 0): 10.0 for i in range(6)}, allocated_core_s={(i, 0): 10.0 for i in range(6)},
    )  # fmt: skip
    stages = tuple(structs.replace(s, work_core_s=10.0, teaches=True) for s in record.stages)
    return profile("app@app.py", [structs.replace(record, complete=True, stages=stages)])


def test_only_what_belongs_to_the_action_is_planned_for(tmp_path: Path) -> None:
    """Its first stage is under way: of the query's four stages three are to come, the last job is none of its business."""
    cluster = FakeCluster(tmp_path)
    cluster.worker("w1")
    application_id = cluster.register(age_s=0.0)
    application = cluster.state.applications[application_id]
    application.estimate = estimate(taught())
    start_ms = 7000
    application.apply(
        JobStart(
            job=0,
            time_ms=start_ms,
            stages=(info(0), info(1)),
            sql_execution="0",
            properties={"spark.pace.deadline": "100s", "spark.pace.priority": "high"},
        )
    )
    application.apply(StageSubmitted(info=info(0), time_ms=start_ms))
    planning.set_goal(application, 0, 0, MOST, cluster.now_s + 7)
    plan = planning.application_plan(application, "w1", MOST, cluster.now_s + 12)
    assert (plan.deadline_s, plan.priority) == (100.0, 100)
    assert plan.left_s == pytest.approx(95.0, abs=0.01)
    assert sum(k * v for k, v in enumerate(plan.future_busy, 1)) == pytest.approx(30.0)
    assert plan.future_fixed_s == pytest.approx(0.0, abs=0.1)
    view = cluster.state.commands.view(application_id, cluster.now_s + 12)
    assert view.deadline_s == pytest.approx(107.0, abs=0.01)
    # the paper's deadline of the first of four equal stages, from the action's own start
    assert application.goals[(0, 0)].length_s == pytest.approx(0.95 * 100 / 4, rel=0.01)
    application.apply(JobEnd(job=0, time_ms=start_ms + 20_000, ok=True))
    after = planning.application_plan(application, "w1", MOST, cluster.now_s + 30)
    assert (after.deadline_s, after.left_s, after.priority) == (None, None, 50)


def test_actions_side_by_side_have_an_aim_each(tmp_path: Path) -> None:
    """A query of two jobs and, 3 s later, a job that is due before it."""
    cluster = FakeCluster(tmp_path)
    cluster.worker("w1")
    application = cluster.state.applications[cluster.register(age_s=0.0)]
    application.estimate = estimate(taught())
    for job, sql, deadline, priority in ((0, "0", "100s", "high"), (2, None, "60s", "normal")):
        start_ms = 7000 + 1500 * job
        infos = tuple(info(2 * job + i) for i in range(2))
        properties = {"spark.pace.deadline": deadline, "spark.pace.priority": priority}
        application.apply(JobStart(job=job, time_ms=start_ms, stages=infos, sql_execution=sql, properties=properties))
        application.apply(StageSubmitted(info=infos[0], time_ms=start_ms))
        planning.set_goal(application, 2 * job, 0, MOST, cluster.now_s + start_ms / 1000)
    plan = planning.application_plan(application, "w1", MOST, cluster.now_s + 12)
    assert plan.priority == 100
    assert [aim.stages for aim in plan.aims] == [((4, 0),), ((0, 0),)]
    assert [aim.deadline_s for aim in plan.aims] == [60.0, 100.0]
    assert [aim.left_s for aim in plan.aims] == pytest.approx([58.0, 95.0], abs=0.01)
    # one stage of 10 s is to come of the job, three of the query
    assert [sum(aim.future_busy) for aim in plan.aims] == pytest.approx([10.0, 30.0])
    # the plan itself is for the one that is due first, as for agents that know of no aims
    assert (plan.deadline_s, plan.left_s, plan.future_busy) == (60.0, plan.aims[0].left_s, plan.aims[0].future_busy)
    claims = planning.promises(application, MOST, cluster.now_s + 12)
    # 20 s of the job and 40 of the query
    assert [sum(k * v for k, v in enumerate(claim.forecast.busy, 1)) for claim in claims] == pytest.approx([20.0, 40.0])
    assert [claim.left_s for claim in claims] == pytest.approx([58.0, 95.0], abs=0.01)
    # what is asked for the application is for all that it has still to do, under way or not: 60 s
    claim = claim_after(application, Change(deadline_s=200.0), MOST, cluster.now_s + 12)
    assert claim is not None
    assert sum(k * v for k, v in enumerate(claim.forecast.busy, 1)) == pytest.approx(60.0)
    assert claim.left_s == pytest.approx(188.0, abs=0.01)
    assert application.options.deadline_s is None
    # each stage has the paper's deadline of its own action: the first of two, and of four, equal stages
    lengths_s = [application.goals[key].length_s for key in ((4, 0), (0, 0))]
    assert lengths_s == pytest.approx([0.95 * 60 / 2, 0.95 * 100 / 4], rel=0.01)
    # a job without a deadline beside one is not the deadline's, but shares its cores
    application.apply(JobEnd(job=0, time_ms=20_000, ok=True))
    application.apply(StageCompleted(stage=0, attempt=0, time_ms=20_000))
    assert planning.application_plan(application, "w1", MOST, cluster.now_s + 20).aims == ()
    application.apply(JobStart(job=1, time_ms=21_000, stages=(info(2),)))
    application.apply(StageSubmitted(info=info(2), time_ms=21_000))
    (aim,) = planning.application_plan(application, "w1", MOST, cluster.now_s + 21).aims
    assert aim.stages == ((4, 0),)
