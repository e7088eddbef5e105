"""The HTTP API itself: who is let in by the version of the wire that a call is written in, and what the others are told.

Called as a server calls it, without a socket. What the calls do is `cluster`'s.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.master.api import Api, Changes
from controller.master.tokens import Gatekeeper
from controller.wire.version import HEADER, SPOKEN
from tests.fakes.cluster import FakeCluster, registration
from tests.fakes.release_1 import WRITTEN


class Caller:
    """Calls the API of a master with no worker and no application."""

    def __init__(self, path: Path) -> None:
        self.cluster = FakeCluster(path)
        gate = Gatekeeper("admin", "submit")
        self._application = Api(self.cluster.state, gate, Changes(), lambda: self.cluster.now_s).application()

    def __call__(self, method: str, path: str, body: Any = None, *, speaks: str | None = SPOKEN, token: str = "admin") -> Any:
        """The answer's body; `status` and `spoken` are those of the last answer."""
        headers = [(b"authorization", f"Bearer {token}".encode())]
        if speaks is not None:
            headers.append((HEADER.lower().encode(), speaks.encode()))
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"seen=-1&wait=0",
            "headers": headers,
            "server": ("here", 1),
            "scheme": "http",
        }
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"" if body is None else msgspec.json.encode(body)}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self._application(scope, receive, send))
        self.status: int = sent[0]["status"]
        self.spoken = dict(sent[0]["headers"]).get(HEADER.lower().encode(), b"").decode()
        return msgspec.json.decode(sent[1]["body"])


@pytest.fixture
def call(tmp_path: Path) -> Caller:
    return Caller(tmp_path)


def test_a_peer_of_the_release_before_is_served(call: Caller) -> None:
    ours = msgspec.to_builtins(registration())
    me = {name: ours[name] for name in ("boot_id", "pid", "pid_start", "uid", "gid", "age_s")}
    older = {**WRITTEN["Registration"][1], **me}
    registered = call("POST", "/v1/applications", older, speaks=None)
    assert call.status == 200, registered
    sync = {**WRITTEN["DriverSync"][1], "instance": older["instance"]}
    application = f"/v1/applications/{registered['application_id']}"
    assert call("POST", f"{application}/sync", sync, speaks=None, token=registered["token"])["acknowledged"] == 0
    call("GET", application, speaks=None)
    assert (call.status, call.spoken) == (200, SPOKEN)
    worker = {**WRITTEN["WorkerSync"][1], "cluster_id": call.cluster.state.identity.cluster_id}
    worker["worker"]["worker_id"] = "w1"
    assert call("POST", "/v1/workers/w1/sync", worker, speaks=None)["desired"]["cluster_id"] == worker["cluster_id"]
    assert set(call("GET", "/v1/workers/w1/changes", speaks=None)) == {"version"}
    assert [one["worker_id"] for one in call("GET", "/v1/workers", speaks=None)["workers"]] == ["w1"]


def test_a_newer_peer_that_speaks_our_version_too_is_served(call: Caller) -> None:
    assert "cluster_id" in call("GET", "/v1/health", speaks="2-3")
    assert (call.status, call.spoken) == (200, SPOKEN)


@pytest.mark.parametrize("path", ["/v1/health", "/v1/applications", "/v1/workers"])
def test_a_peer_that_speaks_no_version_of_ours_is_refused_before_anything_else(
    call: Caller, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "sparkpace.wire"):
        answers = [call("GET", path, speaks="7-8", token="wrong") for _ in range(3)]
    assert (call.status, call.spoken) == (400, SPOKEN)
    said = answers[0]["error"]
    assert answers == [{"error": said, "exit_code": 69}] * 3
    assert "speaks wire version 7-8, this master 1-2; upgrade this master" in said
    assert [record.getMessage() for record in caplog.records] == [said], "the log has it once"


def test_every_answer_names_the_versions(call: Caller) -> None:
    answers = [call("GET", "/v1/applications"), call("GET", "/v1/applications", token="wrong"), call("GET", "/v9/dreams")]
    assert [answer.get("exit_code") for answer in answers] == [None, 77, 69]
    assert (call.status, call.spoken) == (404, SPOKEN)
    assert "has no call GET /v9/dreams" in answers[2]["error"]
    call("DELETE", "/v1/workers")
    assert (call.status, call.spoken) == (405, SPOKEN)
