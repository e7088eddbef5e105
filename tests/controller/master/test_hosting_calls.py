"""The calls about hosted drivers: for which user one is taken, and that it is stored before it is answered."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from controller.machine.process import find_process
from controller.wire.hosting import HostRequest
from tests.fakes.calls import Caller, Connection
from tests.fakes.cluster import FakeCluster


def host_me(**changed: Any) -> dict[str, Any]:
    """Return the request of this very process."""
    process = find_process(os.getpid())
    assert process is not None
    asked = HostRequest(
        name="job", words=("app.py",), environment={}, working_dir="/", uid=os.getuid(), gid=os.getgid(), process=process
    )
    return msgspec.to_builtins(asked) | changed  # type: ignore[no-any-return]


@pytest.fixture
def calling(cluster: FakeCluster, call: Caller) -> Caller:
    """Provide a caller of a master with a worker that hosts drivers of all users."""
    cluster.worker("w1", hosts_for=0)
    return call


def test_a_driver_is_taken_shown_and_killed_and_outlives_the_master(calling: Caller) -> None:
    driver_id = calling("POST", "/v1/drivers", host_me(), token="submit")["driver_id"]
    assert calling.status == 200
    assert [one["driver_id"] for one in calling("GET", "/v1/drivers", token="submit")["drivers"]] == [driver_id]
    assert calling("GET", f"/v1/drivers/{driver_id}")["state"] == "SUBMITTED"
    calling.cluster.restart()
    assert calling.cluster.state.hosting.view(driver_id).worker_id == "w1"
    assert calling("POST", f"/v1/drivers/{driver_id}/kill", {})["driver_id"] == driver_id
    calling("GET", "/v1/drivers/driver-7")
    assert calling.status == 400


@pytest.mark.parametrize("changed", [{"uid": 54321}, {"gid": 54321}, {"process": {"pid": 1, "start_ticks": 1}}])
def test_no_driver_is_taken_for_a_user_whom_no_one_vouches_for(calling: Caller, changed: dict[str, Any]) -> None:
    plain = host_me()
    calling("POST", "/v1/drivers", plain | {"process": plain["process"] | changed.pop("process", {})} | changed)
    assert calling.status == 401
    assert calling("GET", "/v1/drivers")["drivers"] == []


def test_a_users_own_token_vouches_for_that_user_elsewhere(cluster: FakeCluster) -> None:
    cluster.worker("w1", hosts_for=0)
    connection = Connection()
    call = Caller(cluster, connection)
    elsewhere = {"pid": 7, "start_ticks": 7, "boot_id": "another host"}
    for uid, status in ((1234, 200), (0, 401), (os.getuid(), 401)):
        call("POST", "/v1/drivers", host_me(uid=uid, gid=1234, process=elsewhere), token="of 1234")
        assert call.status == status
    connection.close()


def test_without_a_token_or_a_hosting_worker_nothing_is_taken(call: Caller) -> None:
    call("POST", "/v1/drivers", host_me(), token="wrong")
    assert call.status == 401
    assert "--host-drivers" in call("POST", "/v1/drivers", host_me())["error"]
    assert call.status == 400
