"""Calls of a master's API as a server makes them, with the two ends of a real connection, by which the kernel says who
calls."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from typing import Any

import msgspec

from controller.home import Home, User
from controller.master.access.peer import Address
from controller.master.access.tokens import Gatekeeper
from controller.master.api import Api
from controller.master.handlers import WaitingAgents
from controller.master.join_calls import JoinCalls
from controller.wire.version import HEADER, SPOKEN
from tests.fakes.cluster import FakeCluster


class Connection:
    """A connection to a listener of this process; `uid` is that of the calling end (another one needs root)."""

    def __init__(self, uid: int | None = None, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, 0), family=family) as listener:
            os.seteuid(os.geteuid() if uid is None else uid)
            try:
                self.calling = socket.create_connection(listener.getsockname()[:2])
            finally:
                os.seteuid(os.getuid())
            self.called, _ = listener.accept()
        self.client, self.server = Address(*self.calling.getsockname()[:2]), Address(*self.called.getsockname()[:2])

    def close(self) -> None:
        self.calling.close()
        self.called.close()


class Caller:
    """A caller of the API of a cluster's master, over `connection`. Agents' tokens are "of w1" and "of w2", "of 1234" is the
    own token of a user of that uid and gid."""

    def __init__(self, cluster: FakeCluster, connection: Connection) -> None:
        self.cluster, self.connection = cluster, connection
        users = {"of 1234": User(1234, 1234)}
        gate = Gatekeeper("admin", "submit", {"w1": "of w1", "w2": "of w2"}.get, users.get, lambda: "metrics")
        self.home = Home(cluster.path / "home")
        joining = JoinCalls(self.home, "127.0.0.1")
        self.api = Api(self.cluster.state, gate, joining, WaitingAgents(), lambda: self.cluster.now_s, lambda: 1e9)
        self._application = self.api.application()

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        speaks: str | None = SPOKEN,
        token: str = "admin",
        chunks: Iterator[bytes] | None = None,
    ) -> Any:
        """Return the answer's body; `status` and `spoken` are those of the last answer. `chunks` instead of a body: sent bit
        by bit as they come; a body without an end is never sent on."""
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
            "client": self.connection.client,
            "server": self.connection.server,
            "scheme": "http",
        }
        sent: list[Any] = []

        async def receive() -> dict[str, Any]:
            if chunks is not None:
                chunk = next(chunks, None)
                if chunk is None:
                    await asyncio.Event().wait()
                return {"type": "http.request", "body": chunk, "more_body": chunk != b""}
            return {"type": "http.request", "body": b"" if body is None else msgspec.json.encode(body)}

        async def send(message: Any) -> None:
            sent.append(message)

        asyncio.run(self._application(scope, receive, send))
        self.status: int = sent[0]["status"]
        self.spoken = dict(sent[0]["headers"]).get(HEADER.lower().encode(), b"").decode()
        self.kind = dict(sent[0]["headers"]).get(b"content-type", b"").decode()
        return msgspec.json.decode(sent[1]["body"]) if "json" in self.kind else sent[1]["body"].decode()

    def status_of(self, method: str, path: str, token: str) -> int:
        """Return the status of a call with a body that fits none, so that nothing is done."""
        self(method, path, 0, token=token)
        return self.status
