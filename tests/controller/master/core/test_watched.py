"""Applications that are only watched: no deadline refuses them, and agents and records know them."""

from __future__ import annotations

import pytest

from stage_model.errors import InfeasibleDeadline
from tests.fakes.cluster import FakeCluster

HURRY = {"spark.pace.deadline": "6s"}
OBSERVE = {"spark.pace.observe": "true"}


def test_no_deadline_refuses_a_watched_application(cluster: FakeCluster) -> None:
    cluster.finished_run()  # which teaches 8 s of work
    with pytest.raises(InfeasibleDeadline):
        cluster.register(conf=HURRY)
    options = cluster.registered(conf=HURRY | OBSERVE).options
    assert (options.observe, options.deadline_s) == (True, 6.0)


def test_where_all_applications_are_watched_none_is_paced_or_refused(cluster: FakeCluster) -> None:
    cluster.finished_run()
    cluster.state.admission.core.observe = True
    assert cluster.registered(conf=HURRY | {"spark.pace.observe": "false"}).options.observe
    # a submission goes on, and a question is answered
    assert cluster.plan(profile="app@app.py", deadline_s=6.0, submits="app").feasible is None
    assert cluster.plan(profile="app@app.py", deadline_s=6.0).feasible is False


@pytest.mark.parametrize("watched", [True, False])
def test_its_executors_are_marked_for_their_agents(cluster: FakeCluster, watched: bool) -> None:
    cluster.worker("w1")
    cluster.register(conf=OBSERVE if watched else {})
    cluster.tick()
    [spec] = cluster.worker("w1").desired.executors
    assert spec.watched is watched


@pytest.mark.parametrize("watched", [True, False])
def test_its_record_says_that_it_was_watched(cluster: FakeCluster, watched: bool) -> None:
    application_id = cluster.finished_run(conf=OBSERVE if watched else {})
    assert cluster.summary(application_id)["observed"] is watched


def test_it_is_watched_after_a_restart_of_the_master(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register(conf=OBSERVE)
    cluster.restart()
    assert cluster.state.applications[application_id].options.observe
