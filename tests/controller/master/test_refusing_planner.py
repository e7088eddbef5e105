"""A master whose planner refuses everything, as Nomad's `RejectPlan` does: applications wait, none is lost, and the loop goes
on."""

from __future__ import annotations

import pytest

from controller.master.core import placing
from controller.wire.states import ApplicationState
from placement.plan import Infeasible, PlaceAnswer, Wait
from stage_model.errors import Unavailable
from tests.fakes.cluster import FakeCluster, report

WORKERS = ("w1", "w2")
ROUNDS = 5
ANSWERS = [Wait(()), Infeasible(), Unavailable("the planner refuses"), KeyError("no one thought of this")]


def go_on(cluster: FakeCluster, applications: list[str]) -> None:
    """Let a second pass in which every agent and every driver reports and the master has its pass."""
    cluster.now_s += 1
    for worker in WORKERS:
        running = cluster.state.core.agents.desired(worker, cluster.now_s).executors
        cluster.worker(worker, *(report(spec.application_id, spec.executor_id) for spec in running))
    for application_id in applications:
        assert cluster.driver(application_id).stop is None
    cluster.tick()
    assert not cluster.state.parts.failures


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: type(answer).__name__)
def test_a_master_whose_planner_refuses_everything_stays_sound(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, answer: PlaceAnswer | Exception
) -> None:
    asked = 0

    def refuse(*_: object) -> PlaceAnswer:
        nonlocal asked
        asked += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    go_on(cluster, [])
    with monkeypatch.context() as refused:
        refused.setattr(placing, "place", refuse)
        applications = [cluster.register() for _ in range(3)]
        for number in range(2 * ROUNDS):
            if number == ROUNDS:
                cluster.restart()
            before = asked
            go_on(cluster, applications)
            assert asked > before, "the planner is asked again with each pass"
            views = [cluster.view(one) for one in applications]
            assert [(view.state, view.queue_position) for view in views] == [(ApplicationState.WAITING, n) for n in (1, 2, 3)]
            assert sorted(cluster.state.applications) == sorted(applications)
            assert all(not cluster.state.core.agents.desired(worker, cluster.now_s).executors for worker in WORKERS)
    for _ in range(2):
        go_on(cluster, applications)
    assert [set(cluster.where(one)) for one in applications] == [set(WORKERS)] * 3, "what waited is served in the end"
