"""The HTTP API itself: the versions of the wire that are let in by what a call is written in, and the answer to the others.

Called as a server calls it, with the two ends of a real connection, by which the kernel names the caller. What the calls do
is `cluster`'s.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.routing import Route

from controller.master.access import bodies
from controller.master.access.join_tokens import JoinTokens
from controller.master.access.peer import Address, find_peer
from controller.wire.driver import DriverSync, Registration
from controller.wire.message import Message
from controller.wire.version import SPOKEN
from controller.wire.worker import WorkerSync
from tests.fakes.calls import Caller, Connection
from tests.fakes.cluster import registration
from tests.fakes.messages import made_up
from tests.fakes.refusals import assert_names


def decoded(kind: type[Message]) -> dict[str, Any]:
    """Return a message of that kind with the fewest fields."""
    found: dict[str, Any] = msgspec.json.decode(made_up(kind, full=False))
    return found


def test_messages_with_their_required_fields_only_are_served_to_a_peer_that_names_no_version(call: Caller) -> None:
    ours = msgspec.to_builtins(registration())
    me = {name: ours[name] for name in ("boot_id", "pid", "pid_start", "uid", "gid", "age_s")}
    short = {**decoded(Registration), **me}
    registered = call("POST", "/v1/applications", short, speaks=None)
    assert call.status == 200, registered
    sync = {**decoded(DriverSync), "instance": short["instance"]}
    application = f"/v1/applications/{registered['application_id']}"
    assert call("POST", f"{application}/sync", sync, speaks=None, token=registered["token"])["acknowledged"] == 0
    call("GET", application, speaks=None)
    assert (call.status, call.spoken) == (200, SPOKEN)
    worker = {**decoded(WorkerSync), "cluster_id": call.cluster.state.identity.cluster_id}
    worker["worker"]["worker_id"] = "w1"
    answer = call("POST", "/v1/workers/w1/sync", worker, speaks=None, token="of w1")
    assert answer["desired"]["cluster_id"] == worker["cluster_id"]
    assert set(call("GET", "/v1/workers/w1/changes", speaks=None, token="of w1")) == {"version", "reported"}
    assert [one["worker_id"] for one in call("GET", "/v1/workers", speaks=None)["workers"]] == ["w1"]


@pytest.mark.parametrize("path", ["/v1/health", "/v1/applications", "/v1/workers"])
def test_a_peer_of_another_version_is_refused_first(call: Caller, path: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "sparkpace.master"):
        answers = [call("GET", path, speaks="7", token="wrong") for _ in range(3)]
    assert (call.status, call.spoken) == (400, SPOKEN)
    said = answers[0]["error"]
    assert answers == [{"error": said, "exit_code": 69}] * 3
    assert_names(said, "'7'", "'1'")
    assert [record.getMessage() for record in caplog.records] == [said], "the log has it once"


def test_every_answer_names_the_version(call: Caller) -> None:
    answers = [call("GET", "/v1/applications"), call("GET", "/v1/applications", token="wrong"), call("GET", "/v9/dreams")]
    assert [answer.get("exit_code") for answer in answers] == [None, 77, 69]
    assert (call.status, call.spoken) == (404, SPOKEN)
    assert "GET /v9/dreams" in answers[2]["error"]
    call("DELETE", "/v1/workers")
    assert (call.status, call.spoken) == (405, SPOKEN)


def padded(size: int, **fields: Any) -> Iterator[bytes]:
    """Yield a JSON object of that many bytes or a few more, in parts."""
    yield b'{"padding": "' + b"x" * (size // 2)
    yield b"x" * (size - size // 2) + b'", ' + msgspec.json.encode({"more": "", **fields})[1:]
    yield b""


@pytest.mark.parametrize(
    ("path", "most"), [("/v1/applications", 4 << 20), ("/v1/plan", 16 << 20), ("/v1/applications/pace-1/set", 1 << 16)]
)
def test_a_body_that_is_too_large_is_refused_before_it_is_read_whole(call: Caller, path: str, most: int) -> None:
    def endless() -> Iterator[bytes]:
        for sent in range(0, most + 1, 1 << 15):
            offsets.append(sent)
            yield b" " * (1 << 15)
        raise AssertionError("it was read on and on")

    offsets: list[int] = []
    answer = call("POST", path, chunks=endless())
    assert (call.status, answer["exit_code"]) == (413, 2)
    assert_names(answer["error"], path, most)
    assert offsets[-1] == most


def test_an_application_that_floods_is_refused_for_a_while_and_its_neighbour_is_not(call: Caller) -> None:
    registered = [
        call("POST", "/v1/applications", {**msgspec.to_builtins(registration()), "instance": name}) for name in ("a", "b")
    ]
    (mine, token), (other, its) = [(f"/v1/applications/{one['application_id']}/sync", one["token"]) for one in registered]

    def tell(path: str, token: str, size: int) -> Any:
        return call("POST", path, token=token, chunks=padded(size, instance="driver"))

    assert [(tell(mine, token, 30 << 20), call.status)[1] for _ in range(2)] == [200, 200]
    refused = tell(mine, token, 30 << 20)
    assert (call.status, refused["exit_code"]) == (429, 69)
    assert_names(refused["error"], "64 MiB", "4 MiB/s")
    tell(other, its, 30 << 20)
    assert call.status == 200, "its neighbour has its own"
    assert [(call("POST", "/v1/plan", token="submit", chunks=padded(15 << 20)), call.status)[1] for _ in range(5)][-1] == 429
    call("POST", "/v1/plan", token="of 1234", chunks=padded(15 << 20))
    assert call.status == 200, "a user with a token of its own has a share of its own"
    call.cluster.now_s += 60
    tell(mine, token, 30 << 20)
    assert call.status == 200


def test_a_body_that_does_not_come_is_waited_for_a_while_only(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_S", 0.01)
    answer = call("POST", "/v1/plan", chunks=iter([b"{", b'"profile"']))
    assert (call.status, answer["exit_code"]) == (408, 69)
    assert_names(answer["error"], "/v1/plan", "0.01 s")


TOKENS = {
    "no token": "", "submit": "submit", "user's own": "of 1234", "own worker": "of w1", "another worker": "of w2",
    "admin": "admin", "metrics": "metrics",
}  # fmt: skip
USERS = {"submit", "user's own", "admin"}
MAY = {
    "GET /metrics": {"metrics", "admin"},
    "GET /v1/health": {*TOKENS, "own application", "another application", "join"},
    "POST /v1/applications": USERS,
    "GET /v1/applications": USERS,
    "GET /v1/applications/{id}": USERS,
    "POST /v1/applications/{id}/sync": {"own application", "admin"},
    **{f"POST /v1/applications/{{id}}/{what}": USERS for what in ("kill", "set")},
    **{f"POST /v1/submissions/{{id}}/{what}": USERS for what in ("start", "ended")},
    **{f"GET /v1/applications/{{id}}/{what}": USERS for what in ("course", "explain")},
    **{f"GET /v1/applications/{{id}}/executors{what}": {"admin"} for what in ("", "/{executor}/log")},
    **{f"{method} /v1/drivers": USERS for method in ("GET", "POST")},
    "GET /v1/drivers/{id}": USERS,
    "POST /v1/drivers/{id}/kill": USERS,
    "POST /v1/plan": USERS,
    "POST /v1/services": USERS,
    "GET /v1/runs": USERS,
    "GET /v1/savings": USERS,
    "GET /v1/workers": USERS,
    "POST /v1/started-workers/end": {"admin"},
    **{f"POST /v1/workers/{{id}}/{what}": {"admin"} for what in ("end", "labels")},
    "POST /v1/workers/{id}/sync": {"own worker"},
    "GET /v1/workers/{id}/changes": {"own worker"},
    "POST /v1/workers/{id}/identity": {"own worker"},
    "GET /v1/ca": {*TOKENS, "own application", "another application", "join"},
    **{f"POST /v1/join{what}": {"join"} for what in ("", "/check")},
}
"""Tokens that may make each call. A route that is not here fails the test."""


def test_each_route_lets_in_only_callers_that_may_call_it(call: Caller) -> None:
    ours = msgspec.to_builtins(registration())
    own, another = (call("POST", "/v1/applications", {**ours, "instance": name}) for name in ("one", "two"))
    call.home.create()
    join = JoinTokens(call.home.join_tokens).make("0" * 64, until_s=1e9 + 1, uses=1, now_s=1e9)
    tokens = {**TOKENS, "own application": own["token"], "another application": another["token"], "join": join.bearer}
    routes = [route for route in call.api.application().routes if isinstance(route, Route)]
    let_in: dict[str, set[str]] = {}
    for route in routes:
        (method,) = (route.methods or set()) - {"HEAD"}
        path = route.path.replace("{id}", own["application_id"] if "/applications/" in route.path else "w1")
        let_in[f"{method} {route.path}"] = {who for who in tokens if call.status_of(method, path, tokens[who]) != 401}
    assert let_in == MAY


def test_services_are_asked_for_in_the_words_of_after(call: Caller) -> None:
    assert call("POST", "/v1/services", {"after": "connect:up,load"}) == {"addresses": {}}
    refused = call("POST", "/v1/services", {"after": "connect:down"})
    assert (call.status, refused["exit_code"]) == (400, 2)


def test_an_agent_reports_of_its_own_worker_only(call: Caller) -> None:
    report = {**decoded(WorkerSync), "cluster_id": call.cluster.state.identity.cluster_id}
    report["worker"] = {**report["worker"], "worker_id": "w2"}
    refused = call("POST", "/v1/workers/w1/sync", report, token="of w1")
    assert (call.status, refused["exit_code"]) == (401, 77)
    assert_names(refused["error"], "w1", "'w2'")
    assert call("GET", "/v1/workers")["workers"] == []


def test_the_kernel_says_whose_the_other_end_of_a_connection_is() -> None:
    for host in ("127.0.0.1", "::1"):
        connection = Connection(host=host)
        found = find_peer(connection.client, connection.server)
        assert found is not None
        assert (found.uid, found.inode) == (os.geteuid(), os.fstat(connection.calling.fileno()).st_ino)
        assert find_peer(connection.server, Address(host, 1)) is None
        connection.close()
        assert find_peer(connection.client, connection.server) is None


def test_a_driver_of_this_host_has_the_uid_and_a_gid_of_its_process(call: Caller) -> None:
    ours = registration()
    stranger = next(gid for gid in range(50_000, 60_000) if gid not in os.getgroups())
    for changed, said in (
        ({"uid": ours.uid + 1}, f"uid {ours.uid + 1} "),
        ({"uid": ours.uid + 1, "boot_id": "invented"}, f"uid {ours.uid + 1} "),
        ({"gid": stranger}, f"gid {stranger}"),
        ({"gid": stranger, "boot_id": "invented"}, f"gid {stranger}" if ours.uid else "root"),
        ({"pid": os.getppid()}, str(os.getppid())),
        ({"pid_start": ours.pid_start + 1}, str(ours.pid)),
    ):
        refused = call("POST", "/v1/applications", msgspec.structs.replace(ours, **changed), token="submit")
        assert (call.status, refused.get("exit_code")) == (401, 77), (changed, refused)
        assert said in refused["error"]
    assert not call.cluster.state.applications
    application_id = call("POST", "/v1/applications", ours, token="submit")["application_id"]
    kept = call.cluster.state.applications[application_id].record.registration
    assert (kept.pid, kept.pid_namespace) == (os.getpid(), str(Path("/proc/self/ns/pid").readlink()))


def test_for_a_driver_elsewhere_the_submit_token_does_not_vouch(call: Caller) -> None:
    call.connection.client = Address("192.0.2.7", 40000)
    refused = call("POST", "/v1/applications", registration(boot_id="another"), token="submit")
    assert call.status == 401
    assert_names(refused["error"], "uid", "192.0.2.7")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make another user's connection")
def test_a_connection_of_another_user_is_not_roots(call: Caller) -> None:
    mine, call.connection = call.connection, Connection(uid=1234)
    refused = call("POST", "/v1/applications", registration(uid=0, gid=0), token="submit")
    assert_names(refused["error"], "uid 0 ", "1234")
    # the connection is of 1234, the process that it names is root's
    call("POST", "/v1/applications", registration(uid=1234), token="submit")
    assert call.status == 401
    call.connection.close()
    call.connection = mine


def test_a_users_own_token_vouches_for_that_user_from_anywhere(call: Caller) -> None:
    elsewhere = {"boot_id": "of another machine", "pid_namespace": "pid:[1]", "uid": 1234, "gid": 1234}
    call("POST", "/v1/applications", registration(**elsewhere), token="of 1234")
    assert call.status == 200
    for changed in ({"uid": 1235}, {"uid": 0, "gid": 0}, {"gid": 0}):
        call("POST", "/v1/applications", registration(**(elsewhere | changed)), token="of 1234")
        assert call.status == 401, changed


def test_what_cannot_be_stored_is_refused_and_the_rest_is_on_disk_first(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, ours = call.cluster.state.store, msgspec.to_builtins(registration())
    synced: list[int] = []
    really = store.sync

    def sync() -> None:
        synced.append(store.commits)
        really()

    monkeypatch.setattr(store, "sync", sync)
    registered = call("POST", "/v1/applications", ours)
    assert (call.status, synced) == (200, [store.commits])
    call("POST", f"/v1/applications/{registered['application_id']}/kill", {})
    assert synced[1:] == [store.commits]
    call("POST", f"/v1/applications/{registered['application_id']}/kill", {})
    call("GET", "/v1/applications")
    assert len(synced) == 2  # nothing has changed, so no caller waits
    [(pages,)] = store._db.execute("PRAGMA page_count")
    store._db.execute(f"PRAGMA max_page_count={pages}").close()
    while call.status != 507:  # what is left of the last pages
        said = call("POST", "/v1/applications", {**ours, "instance": f"another {len(call.cluster.state.applications)}"})
    assert said["exit_code"] == 69
    assert call.cluster.state.store.failing == ""  # a refused request says nothing about later ones


def test_an_executor_with_an_id_that_is_no_number_is_refused_and_the_application_goes_on(call: Caller) -> None:
    ours = {**msgspec.to_builtins(registration()), "attached": True, "wanted": {}}
    registered = call("POST", "/v1/applications", ours)
    assert call.status == 200, registered
    process = {"pid": 7, "start_ticks": 1, "boot_id": ours["boot_id"], "pid_namespace": "pid:[1]", "uid": 0}
    executor = {"executor_id": "first", "host": "node", "slots": 1, "process": process}
    sync = {**decoded(DriverSync), "instance": ours["instance"], "wanted": {}, "executors": [executor]}
    path = f"/v1/applications/{registered['application_id']}/sync"
    said = call("POST", path, sync, token=registered["token"])["error"]
    assert call.status == 400
    assert_names(said, "DriverSync", "$.executors[0].executor_id")
    call("POST", path, {**sync, "executors": [{**executor, "executor_id": "1"}]}, token=registered["token"])
    assert call.status == 200
