"""`sparkpace set`: another deadline or priority while it runs. Savings: one thread at a time works them out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from controller.runs.run_folders import find_run
from controller.wire.command import Change
from stage_model.errors import BadInput, InfeasibleDeadline, PaceError
from tests.fakes.cluster import FakeCluster, answered, one_stage_run, report

T = TypeVar("T")


def test_savings_are_worked_out_for_one_caller_at_a_time(cluster: FakeCluster) -> None:
    under_way, seen = 0, list[int]()

    async def slowly(work: Callable[[], T]) -> T:
        nonlocal under_way
        under_way += 1
        for _ in range(10):  # turns, in which another one could come in between
            await asyncio.sleep(0)
        seen.append(under_way)
        under_way -= 1
        return work()

    async def three() -> None:
        await asyncio.gather(*(cluster.state.commands.savings(slowly) for _ in range(3)))

    asyncio.run(three())
    assert seen == [1, 1, 1]


def test_the_name_that_an_application_was_submitted_with_is_in_its_view_and_its_record(cluster: FakeCluster) -> None:
    application_id = cluster.finished_run(name="own", conf={"spark.pace.name": "load"})
    assert cluster.view(application_id).names == ("own", "load")
    run = find_run(cluster.path / "runs", "load")
    assert (run.application_id, run.names) == (application_id, ("own", "load"))
    same = cluster.finished_run(name="own", conf={"spark.pace.name": "own"}, instance="second")
    assert cluster.view(same).names == ("own",)


class TestLabel:
    @pytest.mark.parametrize("changes", [{"a=b,c": "d"}, {"a": "b,c=d"}, {" a": "b"}, {"": "b"}])
    def test_a_name_or_value_that_is_several_is_none(self, cluster: FakeCluster, changes: dict[str, str]) -> None:
        cluster.worker("w1")
        with pytest.raises(BadInput):
            cluster.state.commands.label("w1", changes, cluster.now_s)
        assert cluster.state.commands.label("w1", {"x": "y"}, cluster.now_s) == {"x": "y"}


class TestSet:
    def test_deadline_and_priority_change_at_once_and_survive_a_restart(self, cluster: FakeCluster) -> None:
        cluster.worker("w1")
        application_id = cluster.register(conf={"spark.pace.deadline": "100s"})
        version = cluster.state.lifecycle.version("w1")
        cluster.change(application_id, deadline_s=60.0, priority="high")
        assert cluster.state.lifecycle.version("w1") > version
        cluster.restart()
        [plan] = cluster.worker("w1", report(application_id, "1")).desired.applications
        assert (plan.deadline_s, plan.priority) == (60.0, 100)
        assert plan.left_s == pytest.approx(58.0)
        cluster.change(application_id, no_deadline=True)
        [plan] = cluster.worker("w1", report(application_id, "1")).desired.applications
        assert (plan.deadline_s, plan.left_s) == (None, None)
        changes = cluster.state.applications[application_id].record.changes
        assert [(c.at_s, c.deadline_s, c.priority) for c in changes] == [(2.0, 60.0, 100), (2.0, None, 100)]

    def test_the_stage_under_way_gets_a_new_deadline(self, cluster: FakeCluster) -> None:
        cluster.finished_run()
        application_id = cluster.register(conf={"spark.pace.deadline": "100s"}, instance="driver")
        cluster.driver(application_id, *one_stage_run(1000)[:2])
        application = cluster.state.applications[application_id]
        before = application.plan.goals[(0, 0)].length_s
        cluster.change(application_id, deadline_s=50.0)
        assert application.plan.goals[(0, 0)].length_s < before - 40

    @pytest.mark.parametrize(
        ("asked", "error", "part"),
        [
            (Change(deadline_s=1.5), BadInput, "2s"),
            (Change(deadline_s=float("nan")), BadInput, "deadline"),
            (Change(deadline_s=8.0), InfeasibleDeadline, r" 8s .*--force"),
            (Change(priority="101"), BadInput, "'101'"),
            (Change(force=True), BadInput, "deadline_s"),
        ],
    )
    def test_what_cannot_be_changes_nothing(
        self, cluster: FakeCluster, asked: Change, error: type[PaceError], part: str
    ) -> None:
        cluster.finished_run()
        application_id = cluster.register(conf={"spark.pace.deadline": "100s"}, instance="second")
        before = cluster.state.applications[application_id].options
        with pytest.raises(error, match=part):
            answered(cluster.state.commands.change(application_id, asked, cluster.clock))
        assert cluster.state.applications[application_id].options == before
        assert cluster.state.applications[application_id].record.changes == []

    def test_the_priority_of_a_job_that_will_be_late_can_be_raised(self, cluster: FakeCluster) -> None:
        cluster.finished_run()
        forced = {"spark.pace.deadline": "3s", "spark.pace.force": "true"}
        application_id = cluster.register(conf=forced, instance="second")
        cluster.change(application_id, priority="high")
        assert cluster.state.applications[application_id].options.priority == 100

    def test_force_takes_a_deadline_that_cannot_be_met_and_an_ended_application_none(self, cluster: FakeCluster) -> None:
        ended = cluster.finished_run()
        application_id = cluster.register(conf={"spark.pace.deadline": "100s"}, instance="second")
        cluster.change(application_id, deadline_s=8.0, force=True)
        assert cluster.state.applications[application_id].options.deadline_s == 8.0
        with pytest.raises(BadInput, match=ended):
            cluster.change(ended, priority="low")
