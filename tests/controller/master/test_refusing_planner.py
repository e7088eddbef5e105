"""A master whose planner refuses everything: applications wait, none is lost, and the loop goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.master.core import placing
from controller.wire.states import ApplicationState
from placement.plan import Infeasible, PlaceAnswer, Wait
from stage_model.errors import Unavailable
from tests.fakes.cluster import FakeCluster, report
from tests.fakes.refusing import RefusingPlanner

WORKERS = ("w1", "w2")
ROUNDS = 5
ANSWERS = [Wait(()), Infeasible(), Unavailable("the planner refuses"), KeyError("no one thought of this")]


def go_on(cluster: FakeCluster, applications: list[str]) -> None:
    """Let a second pass in which every agent and every driver reports and the master has its pass."""
    cluster.now_s += 1
    for worker in WORKERS:
        running = cluster.state.agents.desired(worker, cluster.now_s).executors
        cluster.worker(worker, *(report(spec.application_id, spec.executor_id) for spec in running))
    for application_id in applications:
        assert cluster.driver(application_id).stop is None
    cluster.tick()
    assert not cluster.state.parts.failures


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_a_master_whose_planner_refuses_everything_stays_sound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: PlaceAnswer | Exception
) -> None:
    cluster, planner = FakeCluster(tmp_path), RefusingPlanner(answer)
    go_on(cluster, [])
    with monkeypatch.context() as refused:
        refused.setattr(placing, "place", planner)
        applications = [cluster.register() for _ in range(3)]
        for number in range(2 * ROUNDS):
            if number == ROUNDS:
                cluster.restart()
            asked = planner.asked
            go_on(cluster, applications)
            assert planner.asked > asked, "the planner is asked again with each pass"
            views = [cluster.view(one) for one in applications]
            assert [view.state for view in views] == [ApplicationState.WAITING] * 3
            assert [view.queue_position for view in views] == [1, 2, 3]
            assert sorted(cluster.state.applications) == sorted(applications)
            assert all(not cluster.state.agents.desired(worker, cluster.now_s).executors for worker in WORKERS)
    for _ in range(2):
        go_on(cluster, applications)
    for one in applications:
        placed = cluster.state.applications[one].executors.values()
        assert {executor.record.worker_id for executor in placed} == set(WORKERS), "what waited is served in the end"
