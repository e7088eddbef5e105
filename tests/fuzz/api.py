"""A master that is spoken to by a hostile driver, a hostile worker and hostile commands, each with its right token.

A conversation is lines: a letter that says which call, then its body. No answer may be a 5xx; afterwards another application
goes on, and a master that is started again knows the same applications.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote_from_bytes

import msgspec

from controller.home import Home, User
from controller.master.access.tokens import Gatekeeper
from controller.master.api import Api
from controller.master.handlers import WaitingAgents
from controller.master.join_calls import JoinCalls
from controller.wire.version import HEADER, SPOKEN
from tests.fakes.cluster import FakeCluster, one_stage_run, registration, report, sample, use
from tests.properties.test_plan_cache import taught

MOST_CALLS = 25
CALLS = {
    b"R": ("POST", "/v1/applications", "of 1000"),
    b"V": ("GET", "/v1/applications", "submit"),
    b"S": ("POST", "/v1/applications/@mine/sync", "@own"),
    b"C": ("POST", "/v1/applications/@mine/set", "submit"),
    b"E": ("GET", "/v1/applications/@mine/explain", "submit"),
    b"K": ("POST", "/v1/applications/@mine/kill", "submit"),
    b"P": ("POST", "/v1/plan", "submit"),
    b"W": ("POST", "/v1/workers/w2/sync", "of w2"),
    b"N": ("GET", "/v1/workers/w2/changes", "of w2"),
    b"L": ("POST", "/v1/workers/w2/labels", "admin"),
    b"O": ("GET", "/v1/workers", "submit"),
    b"H": ("GET", "/v1/applications", "@header"),
    b"U": ("GET", "@path", "admin"),
}


class _Errors(logging.Handler):
    """A handler that keeps what was raised in calls that were answered with a 5xx."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.last: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.last = record.exc_info[1]


class Conversation:
    """A master in a folder, with an application of worker w1 that the input does not mention."""

    def __init__(self, path: Path) -> None:
        self.cluster, self.path = FakeCluster(path), path
        self.cluster.state.profiles.add(taught())
        self.cluster.worker("w1")
        self.other = self.cluster.register(instance="other", name="other", conf={"spark.pace.priority": "high"})
        self.cluster.driver(self.other, *one_stage_run(1000)[:3])
        self.cluster.worker("w1", report(self.other, "1"))
        self.mine, self.token = "pace-20300101-000000-000000", "none"
        self.errors = _Errors()
        self._serve()

    def _serve(self) -> None:
        users = {"of 1000": User(1000, 1000)}
        gate = Gatekeeper("admin", "submit", {"w1": "of w1", "w2": "of w2"}.get, users.get)
        joining = JoinCalls(Home(self.path), "127.0.0.1")
        self.app = Api(self.cluster.state, gate, joining, WaitingAgents(), self.cluster.clock, lambda: 1e9).application()

    def __enter__(self) -> Self:
        self._log = logging.getLogger("sparkpace")
        self._log.addHandler(self.errors)
        self._before, self._log.propagate = self._log.propagate, False
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._log.removeHandler(self.errors)
        self._log.propagate = self._before
        self.cluster.state.store.close()

    def say(self, data: bytes) -> None:
        """Raise what the master raised in a call that it answered with a 5xx; AssertionError if others are harmed."""
        for line in data.split(b"\n")[:MOST_CALLS]:
            if line[:1] == b"T":
                self.cluster.now_s += 1
                self.cluster.state.tick(self.cluster.now_s)
            elif line[:1] == b"X":
                self._restart()
            elif line[:1] in CALLS:
                self._call(*CALLS[line[:1]], line[1:])
        self._check()
        known = {key for key, one in self.cluster.state.applications.items() if not one.finished}
        self._restart()
        assert set(self.cluster.state.applications) == known, "a restart has lost or found applications"
        self._check()
        self.cluster.driver(self.other, *one_stage_run(1000)[3:], first=4, ended=True)
        self.cluster.worker("w1")
        self.cluster.state.tick(self.cluster.now_s)
        view = self.cluster.state.core.commands.view(self.other, self.cluster.now_s)
        assert view.finished, "another's record is not written"

    def _restart(self) -> None:
        self.cluster.state.store.close()
        self.cluster.restart()
        self._serve()

    def _check(self) -> None:
        self.cluster.now_s += 1
        reply = self.cluster.worker("w1", report(self.other, "1"))
        assert self.other in {plan.application_id for plan in reply.desired.applications}, "another application has no plan"
        self.cluster.state.tick(self.cluster.now_s)
        assert not self.cluster.state.parts.failures, self.cluster.state.parts.failures
        for call in (b"V", b"O"):
            shown = self._call(*CALLS[call], b"")
            assert (self.other if call == b"V" else "w1") in shown.decode(), "what is shown is not whole"

    def _call(self, method: str, path: str, token: str, body: bytes) -> bytes:
        query = b"seen=-1&wait=0"
        headers = {b"authorization": b"Bearer " + token.encode(), HEADER.lower().encode(): SPOKEN.encode()}
        if token == "@own":
            headers[b"authorization"] = b"Bearer " + self.token.encode()
        elif token == "@header":
            authorization, _, named = body.partition(b"|")
            headers = {b"authorization": authorization, HEADER.lower().encode(): named}
        if method == "GET" and path != "@path":
            query = body or query
        if path == "@path":
            path = body.decode(errors="replace") or "/"
        path = path.replace("@mine", self.mine)
        status, answer = asyncio.run(self._answered(method, path, query, headers, body if method == "POST" else b""))
        if status >= 500:
            raise self.errors.last or AssertionError(f"{method} {path}: {status} {answer!r}")
        if (method, path, status) == ("POST", "/v1/applications", 200):
            reply = msgspec.json.decode(answer)
            self.mine, self.token = reply["application_id"], reply["token"]
        return answer

    async def _answered(
        self, method: str, path: str, query: bytes, headers: dict[bytes, bytes], body: bytes
    ) -> tuple[int, bytes]:
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": quote_from_bytes(path.encode()).encode(),
            "query_string": query,
            "headers": list(headers.items()),
            "server": ("here", 1),
            "scheme": "http",
        }
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def conversations() -> Iterator[bytes]:
    """Return good conversations, with every call."""
    elsewhere = {"uid": 1000, "gid": 1000, "pid": 4242, "boot_id": "elsewhere", "pid_start": 1, "working_dir": "/tmp"}

    def register(**changed: Any) -> bytes:
        return b"R" + json.dumps({**msgspec.to_builtins(registration()), **elsewhere, **changed}).encode()

    def sync(*events: Any, first: int = 1, **changed: Any) -> bytes:
        numbered = [{"seq": seq, "event": msgspec.to_builtins(event)} for seq, event in enumerate(events, first)]
        return b"S" + json.dumps({"instance": "driver", "wanted": {"0": {}}, "events": numbered, **changed}).encode()

    def worker(*reports: Any, offers: Any = None, **changed: Any) -> bytes:
        info = {
            "worker_id": "w2",
            "host": "h2",
            "cores": 2.0,
            "memory_mb": 8192,
            "runtime": "docker",
            "pid": 1,
            "boot_id": "x",
        }
        message = {"instance": "l", "cluster_id": "c", "generation": 1, "worker": {**info, **(offers or {})}, **changed}
        return b"W" + json.dumps({**message, "executors": [msgspec.to_builtins(one) for one in reports]}).encode()

    events = one_stage_run(1000)
    conf = {"spark.pace.deadline": "1h", "spark.pace.priority": "low", "spark.pace.placement.labels": "zone=a"}
    yield b"\n".join([register(), worker(), sync(*events[:3]), b"T", sync(*events[3:], first=4, ended=True), b"T", b"V"])
    yield b"\n".join(
        [
            worker(offers={"labels": {"zone": "a"}}),
            register(conf=conf),
            b"E",
            b'C{"deadline_s": 100.0, "priority": "high"}',
            b"K",
        ]
    )
    stage = msgspec.to_builtins(events[1])
    yield b"\n".join([register(wanted={"0": {"count": 2}}), sync(snapshot=[stage], next_seq=5, steady_ms=5000), b"X", b"E"])
    mine = "pace-20300101-000000-000000"
    run = worker(
        report(mine, "1", stages=(use(0, 1.0, done=1),), off_heap_mb=64),
        samples=[msgspec.to_builtins(sample(mine, "1", float(n))) for n in (1, 2)],
        drivers_gone=["x"],
        notes=["note"],
    )
    yield b"\n".join(
        [register(application_id=mine, steady_ms=1000, data={"h2": 1000}), run, run, sync(*events[:2]), run, b"T"]
    )
    plan = {
        "profile": "app@app.py",
        "deadline_s": 60.0,
        "executors": 1,
        "executor_cores": 1,
        "settings": {"paper.alpha": 0.9},
    }
    yield b"\n".join(
        [worker(), b"P" + json.dumps({**plan, "law": "paper", "conf": {"spark.executor.memory": "1g"}}).encode()]
    )
    yield (
        worker()
        + b'\nNseen=1&wait=0\nL{"labels": {"zone": "b", "old": null}}\nHBearer submit|1\nU/v1/applications/x\nOx=y\nE'
    )
    after = {"spark.pace.after": "other", "spark.pace.locality.wait": "3s", "spark.pace.placement.prefer": "h2"}
    yield b"\n".join(
        [
            worker(offers={"resources": {"gpu": 2}}),
            register(conf={**after, "spark.pace.placement.resources": "gpu=1"}),
            b"T",
            b"E",
        ]
    )
