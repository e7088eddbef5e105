"""Credentials that executors show their driver: reported by the driver, handed to agents, stored nowhere."""

from __future__ import annotations

import base64

import msgspec
import pytest

from controller.wire.driver import ExecutorWish
from stage_model.errors import BadInput
from tests.fakes.calls import Caller
from tests.fakes.cluster import FakeCluster, registration, report

HUSH = b"hush-hush-7141"
AUTHENTICATED = {"authenticated": True, "credentials": HUSH}


def stored(cluster: FakeCluster) -> list[str]:
    """Return the files below the master's home that hold the secret, in either form."""
    cluster.state.store.checkpoint()
    forms = (HUSH, base64.b64encode(HUSH))
    files = [path for path in cluster.path.rglob("*") if path.is_file()]
    assert any(path.name == "master.db" for path in files)
    return [path.name for path in files if any(form in path.read_bytes() for form in forms)]


def test_a_worker_gets_only_those_of_its_own_executors_until_they_are_to_end(cluster: FakeCluster) -> None:
    for name in ("w1", "w2"):
        cluster.worker(name)
    application_id = cluster.register(**AUTHENTICATED, wanted={"0": ExecutorWish(count=1)})
    [host] = cluster.where(application_id)
    with_one, without = (cluster.worker(name).desired for name in (host, "w2" if host == "w1" else "w1"))
    assert ([spec.authenticated for spec in with_one.executors], without.executors) == ([True], ())
    assert (with_one.credentials, without.credentials) == ({application_id: HUSH}, {})
    assert HUSH not in repr(with_one.executors).encode()
    cluster.driver(application_id, wanted={"0": ExecutorWish(count=0)}, killed=("1",))
    ending = cluster.worker(host, report(application_id, "1")).desired
    assert (ending.stopped, ending.credentials) == ((f"{application_id}/1",), {})
    assert cluster.state.applications[application_id].credentials == HUSH
    cluster.driver(application_id, wanted={"0": ExecutorWish(count=1)}, killed=("1",))
    assert {**cluster.worker("w1").desired.credentials, **cluster.worker("w2").desired.credentials} != {}
    cluster.kill(application_id)
    assert [cluster.worker(name).desired.credentials for name in ("w1", "w2")] == [{}, {}]
    assert cluster.state.applications[application_id].credentials is None


def test_others_have_none(cluster: FakeCluster, application_id: str) -> None:
    desired = cluster.worker("w1").desired
    assert (len(desired.executors), desired.credentials) == (1, {})


def test_a_user_whose_own_file_is_not_used_is_informed(cluster: FakeCluster) -> None:
    own = {"HADOOP_TOKEN_FILE_LOCATION": "/secure/tokens"}
    for name, authenticated, count in (("a", AUTHENTICATED, 1), ("b", {}, 0)):
        application = cluster.registered(name=name, instance=name, environment=own, **authenticated)
        assert sum("HADOOP_TOKEN_FILE_LOCATION" in notice for notice in application.notices.lines) == count


def test_they_are_in_no_file_of_the_masters(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register(**AUTHENTICATED)
    cluster.worker("w1", report(application_id, "1"))
    cluster.tick(30)
    assert HUSH in cluster.worker("w1", report(application_id, "1")).desired.credentials.values()
    assert stored(cluster) == []
    assert HUSH not in repr(cluster.state.applications[application_id]).encode()
    cluster.state.store.close()
    cluster.restart()
    cluster.register(**AUTHENTICATED, application_id=application_id)
    assert stored(cluster) == []


def test_a_master_that_starts_again_asks_for_them_and_the_drivers_own_token_is_enough(call: Caller) -> None:
    cluster = call.cluster
    cluster.worker("w1")
    own = {"authenticated": True, "credentials": base64.b64encode(HUSH).decode()}
    registered = call("POST", "/v1/applications", {**msgspec.to_builtins(registration()), **own}, token="submit")
    application_id, path = registered["application_id"], f"/v1/applications/{registered['application_id']}/sync"
    sync = {"instance": "driver", "wanted": {"0": {}}}
    assert not call("POST", path, sync, token=registered["token"])["lacks_credentials"]
    cluster.state.store.close()
    cluster.restart()
    call.api.cluster = cluster.state
    [spec] = cluster.worker("w1").desired.executors
    assert spec.authenticated
    assert cluster.worker("w1").desired.credentials == {}
    assert call("POST", path, sync, token=registered["token"])["lacks_credentials"]
    complete = {**sync, "credentials": own["credentials"]}
    assert not call("POST", path, complete, token=registered["token"])["lacks_credentials"]
    assert cluster.worker("w1").desired.credentials == {application_id: HUSH}
    other = {**sync, "credentials": base64.b64encode(b"another").decode()}
    call("POST", path, other, token=registered["token"])
    assert cluster.worker("w1").desired.credentials == {application_id: HUSH}, "taken once"


def test_a_driver_that_keeps_them_to_itself_is_refused(cluster: FakeCluster) -> None:
    for given in (None, b""):
        with pytest.raises(BadInput, match="credentials"):
            cluster.register(authenticated=True, credentials=given)
