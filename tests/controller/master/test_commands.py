"""`sparkpace set`: another deadline or priority while it runs. Savings: one thread at a time works them out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from controller.master.core.application import Application
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


def test_deadline_and_priority_change_at_once_and_survive_a_restart(cluster: FakeCluster) -> None:
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


@pytest.fixture
def paced(cluster: FakeCluster) -> Application:
    """Provide an application with a profile and a deadline of 100 s."""
    cluster.finished_run()
    return cluster.registered(conf={"spark.pace.deadline": "100s"})


def test_the_stage_under_way_gets_a_new_deadline(cluster: FakeCluster, paced: Application) -> None:
    cluster.driver(paced.id, *one_stage_run(1000)[:2])
    cluster.worker("w1", report(paced.id, "1"))
    before = paced.plan.goals[(0, 0)].length_s
    cluster.change(paced.id, deadline_s=50.0)
    cluster.worker("w1", report(paced.id, "1"))
    assert paced.plan.goals[(0, 0)].length_s < before - 40


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
    cluster: FakeCluster, paced: Application, asked: Change, error: type[PaceError], part: str
) -> None:
    before = paced.options
    with pytest.raises(error, match=part):
        answered(cluster.state.commands.change(paced.id, asked, cluster.clock))
    assert (paced.options, paced.record.changes) == (before, [])


def test_force_takes_a_hopeless_deadline_whose_priority_can_then_be_raised(cluster: FakeCluster, paced: Application) -> None:
    cluster.change(paced.id, deadline_s=8.0, force=True)
    assert paced.options.deadline_s == 8.0
    cluster.change(paced.id, priority="high")
    assert paced.options.priority == 100


def test_an_ended_application_cannot_be_changed(cluster: FakeCluster) -> None:
    ended = cluster.finished_run()
    with pytest.raises(BadInput, match=ended):
        cluster.change(ended, priority="low")
