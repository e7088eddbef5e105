"""Logs of executors on other machines: where they are, and why one cannot be read, in a sentence that says where it is."""

from __future__ import annotations

import pytest

from controller.master.core.logs import Logs
from controller.master.core.workers import STALE_S
from controller.runtime.base import ExecutorKey
from controller.wire.command import ExecutorPlace
from controller.wire.limits import LOGS
from stage_model.errors import BadInput, TooMuch, Unavailable
from tests.controller.master.core import test_attached as attached
from tests.fakes.cluster import FakeCluster, report
from tests.fakes.refusals import refused

FOLDER = "/home/of/m2/runs"


@pytest.fixture
def job(cluster: FakeCluster) -> str:
    """Provide an application with executor 1 on worker m2, which sends logs."""
    cluster.worker("m2", logs={})
    made = cluster.register()
    cluster.worker("m2", report(made, "1", log_dir=FOLDER), logs={})
    return made


def logs_of(cluster: FakeCluster) -> Logs:
    return cluster.state.core.logs


def place_of(cluster: FakeCluster, job: str) -> ExecutorPlace:
    return next(place for place in cluster.state.logs.places(job).executors if place.executor_id == "1")


def test_a_place_is_known_while_it_runs_when_it_has_ended_and_to_the_next_master(cluster: FakeCluster, job: str) -> None:
    place = ExecutorPlace(executor_id="1", worker_id="m2", host="127.0.0.1", log_dir=FOLDER)
    assert place_of(cluster, job) == place
    cluster.worker("m2", report(job, "1", "exited", exit_code=1, log_dir=FOLDER), logs={})
    cluster.kill(job)
    cluster.driver(job, ended=True)
    cluster.worker("m2", logs={})
    cluster.tick(1.0)
    assert cluster.view(job).finished
    assert place in cluster.state.logs.places(job).executors
    cluster.state.store.close()
    cluster.restart()
    assert place in cluster.state.logs.places(job).executors


def test_the_agent_is_woken_for_a_wish_and_for_its_end(cluster: FakeCluster, job: str) -> None:
    key, version = ExecutorKey(job, "1"), cluster.state.lifecycle.version("m2")
    logs_of(cluster).want(key, place_of(cluster, job))
    logs_of(cluster).want(key, place_of(cluster, job))
    assert cluster.state.core.agents.desired("m2", cluster.now_s).logs == (key.text,)
    assert cluster.state.lifecycle.version("m2") == version + 1
    logs_of(cluster).unwant(key, "m2")
    logs_of(cluster).unwant(key, "m2")
    assert cluster.state.core.agents.desired("m2", cluster.now_s).logs == ()
    assert cluster.state.lifecycle.version("m2") == version + 2


def test_the_log_of_a_worker_that_cannot_send_it_is_refused_with_the_place(cluster: FakeCluster, job: str) -> None:
    def assert_refused(*named: object) -> None:
        with refused(Unavailable, "executor 1", FOLDER, *named):
            logs_of(cluster).want(ExecutorKey(job, "1"), place_of(cluster, job))
        assert cluster.state.core.agents.desired("m2", cluster.now_s).logs == ()

    cluster.worker("m2", report(job, "1", log_dir=FOLDER))
    assert_refused("m2", "127.0.0.1", "earlier release", "install")
    for _ in range(int(STALE_S) + 1):
        cluster.worker("w1")
        cluster.tick(1.0)
    assert_refused("worker m2 has not reported for 1", "127.0.0.1")
    cluster.state.store.close()
    cluster.restart()
    assert_refused("worker m2 has not reported since the master began")
    cluster.state.commands.end_worker("m2", cluster.now_s)
    cluster.worker("m2", leaves=True, logs={})
    assert_refused("worker m2 has left")
    del cluster.state.workers.by_id["m2"]
    assert_refused("worker m2 is not known here any more", "its machine")


def test_no_more_than_a_report_takes_are_read_from_a_worker_at_a_time(cluster: FakeCluster, job: str) -> None:
    place = place_of(cluster, job)
    for number in range(LOGS):
        logs_of(cluster).want(ExecutorKey(job, str(number)), place)
    with refused(TooMuch, f"{LOGS} logs", "m2", "try again"):
        logs_of(cluster).want(ExecutorKey(job, "99"), place)
    logs_of(cluster).want(ExecutorKey(job, "0"), place)


def test_an_unknown_application_or_executor_is_named(cluster: FakeCluster, job: str) -> None:
    with refused(BadInput, "'none'", "sparkpace ps"):
        cluster.state.logs.places("none")
    with refused(BadInput, "'7'", job, "the only name is 1"):
        logs_of(cluster).place(job, "7", [e.record for e in cluster.state.applications[job].executors.values()])


def test_the_log_of_an_executor_that_another_cluster_manager_started_is_there(cluster: FakeCluster) -> None:
    attached.desired(cluster, "w1")
    job = attached.attach(cluster)
    attached.tell(cluster, job, attached.executor("0"))
    [executor] = cluster.state.applications[job].executors.values()
    with refused(BadInput, "executor 0", job, "another cluster manager"):
        logs_of(cluster).place(job, "0", [executor.record])
