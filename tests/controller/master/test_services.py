"""Services that others come after, as a master has them: they serve, end, and come again elsewhere."""

from __future__ import annotations

import os

import pytest

from controller.wire.command import StartReply
from controller.wire.driver import NOBODY_UID
from stage_model.errors import BadInput
from tests.controller.master.test_submissions import Submission, end
from tests.fakes.cluster import FakeCluster

pytestmark = pytest.mark.usefixtures("_taught")


def service(cluster: FakeCluster, host: str = "here", port: int | None = None, uid: int | None = None) -> str:
    """Register an application named connect; with a port, it serves there."""
    uid = os.getuid() if uid is None else uid
    application_id = cluster.register(name="connect", instance=f"{host}:{port}", host=host, uid=uid)
    if port is not None:
        cluster.driver(application_id, serves=port)
    return application_id


def addresses(cluster: FakeCluster) -> dict[str, str]:
    """Return the addresses for a job of this user that comes after connect, while it runs."""
    return cluster.state.submissions.addresses("load,connect:up", os.getuid())


def test_a_driver_starts_once_the_service_serves_and_gets_its_address(cluster: FakeCluster) -> None:
    report = Submission(cluster, "report", "connect:up")
    assert report.ask().reason == "it comes after 'connect', which does not run yet"
    connect = service(cluster)
    assert report.ask().reason == f"it comes after {connect} (connect), which does not serve yet"
    waiting = cluster.state.registry.waiting[report.id]
    assert cluster.state.registry.jobs.predecessors(waiting) == [], "no pipeline waits for its end"
    cluster.driver(connect, serves=15002)
    assert cluster.view(connect).address == "here:15002"
    assert report.ask() == StartReply(comes_after={"connect": connect}, addresses={"connect": "here:15002"})


def test_a_running_job_gets_the_new_address_of_a_service_that_comes_again(cluster: FakeCluster) -> None:
    first = service(cluster, "here", 15002)
    assert addresses(cluster) == {"connect": "here:15002"}
    second = service(cluster, "there")
    assert addresses(cluster) == {"connect": "here:15002"}, "the second one does not serve yet"
    cluster.driver(second, serves=15003)
    assert addresses(cluster) == {"connect": "there:15003"}
    end(cluster, first)
    cluster.restart()
    assert addresses(cluster) == {"connect": "there:15003"}, "the address is stored"
    cluster.kill(second)
    assert addresses(cluster) == {}


def test_a_service_that_ends_before_it_serves_ends_what_waits_for_it(cluster: FakeCluster) -> None:
    connect = service(cluster)
    report, by_id = Submission(cluster, "report", "connect:up"), Submission(cluster, "by-id", f"{connect}:up")
    report.ask()
    by_id.ask()
    end(cluster, connect)
    for one in (report, by_id):
        reply = one.ask()
        assert (reply.never, reply.reason) == (True, f"it comes after the service of {connect} (connect), which has ended")


def test_a_service_that_has_served_may_come_again_under_its_name_but_not_under_its_id(cluster: FakeCluster) -> None:
    connect = service(cluster, "here", 15002)
    report, by_id = (Submission(cluster, name, f"load,{after}:up") for name, after in (("r", "connect"), ("i", connect)))
    report.ask()
    by_id.ask()
    end(cluster, connect)
    assert by_id.ask().never
    waits = report.ask()
    assert (waits.never, waits.reason) == (False, "it comes after 'connect', which has ended and is to serve again")
    service(cluster, "there", 15003)
    end(cluster, cluster.register(name="load", instance="load"))
    assert report.ask().addresses == {"connect": "there:15003"}


def test_an_earlier_run_of_a_service_is_neither_taken_nor_held_against_it(cluster: FakeCluster) -> None:
    end(cluster, service(cluster))
    report = Submission(cluster, "report", "connect:up")
    assert not report.ask().never
    service(cluster, "there", 15003)
    assert report.ask().addresses == {"connect": "there:15003"}


def test_another_users_application_is_a_service_by_its_id_and_not_by_a_name_that_anyone_can_take(
    cluster: FakeCluster,
) -> None:
    others = service(cluster, "elsewhere", 15002, uid=os.getuid() + 1)
    report = Submission(cluster, "report", "connect:up")
    assert "'connect', which does not run yet" in report.ask().reason
    assert Submission(cluster, "by-id", f"{others}:up").ask().addresses == {others: "elsewhere:15002"}


def test_a_job_of_an_unknown_user_names_a_service_by_its_id(cluster: FakeCluster) -> None:
    others = service(cluster, "elsewhere", 15002, uid=NOBODY_UID)
    for name in ("connect", "another"):
        with pytest.raises(BadInput, match=f"{name}:up: no one vouches .* give the service's id"):
            cluster.register(instance=name, uid=NOBODY_UID, conf={"spark.pace.after": f"{name}:up"})
    assert cluster.register(instance="by id", uid=NOBODY_UID, conf={"spark.pace.after": f"{others}:up"})


def test_a_stock_driver_gets_no_executors_before_the_service_serves(cluster: FakeCluster) -> None:
    connect = service(cluster)
    application = cluster.state.applications[cluster.register(instance="stock", conf={"spark.pace.after": "connect:up"})]
    cluster.pass_by(1.0)
    assert application.held_back
    cluster.driver(connect, serves=15002)
    cluster.pass_by(1.0)
    assert not application.held_back


def test_a_circle_of_services_is_refused(cluster: FakeCluster) -> None:
    Submission(cluster, "a", "b:up").ask()
    with pytest.raises(BadInput, match="b after a after b"):
        Submission(cluster, "b", "a:up").ask()


@pytest.mark.parametrize("host", ["10.0.0.1", "connect.team.svc", "[fd00::1]", "node_1"])
def test_a_host_is_handed_on_with_the_port(cluster: FakeCluster, host: str) -> None:
    assert cluster.view(service(cluster, host, 15002)).address == f"{host}:15002"


@pytest.mark.parametrize("host", ["", "a b", "a\nLD_PRELOAD=x", "$(reboot)", "::1", "a/b", "user@a", "-a", "a" * 254])
def test_an_invalid_host_is_handed_to_no_job_and_its_user_learns_why(cluster: FakeCluster, host: str) -> None:
    connect = service(cluster, host, 15002)
    assert cluster.view(connect).address == ""
    assert any("spark.driver.host" in line for line in cluster.view(connect).notices)
    report = Submission(cluster, "report", "connect:up")
    assert report.ask().reason.endswith("which does not serve yet")
