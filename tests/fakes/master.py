"""A master's HTTP API with one application, its workers and one plan, for the commands' tests. It decides nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgspec

from controller.client import MasterClient
from controller.home import Home
from controller.wire.command import (
    ApplicationView,
    DriverEnded,
    PlanReply,
    PlanRequest,
    Services,
    StartReply,
    StartRequest,
    WorkerView,
)
from controller.wire.hosting import HostedView, HostRequest
from controller.wire.states import ApplicationState
from controller.wire.version import HEADER
from tests.fakes.tls import secure

TOKEN = "right"


class Server(ThreadingHTTPServer):
    """A server that answers like a master that knows one application."""

    view: ApplicationView | None = None
    workers: tuple[WorkerView, ...] = ()
    killed = 0
    exit_codes: list[int]
    """Exit codes of drivers, each as often as it was reported."""
    starts: list[StartReply]
    """Answers to whether a driver may start, in turn; the last one stays."""
    started: list[StartRequest]
    """Requests of drivers that asked to start."""
    services = Services()
    hosted: HostRequest | None = None
    """The driver that it was asked to host."""
    drivers: list[HostedView]
    """Its answers about that driver, in turn; the last one stays."""
    away = 0
    """Number of POSTs that it answers like a master that cannot store anything."""
    plan = PlanReply(known=False, reason="no profile yet: a first run takes what is free and teaches")
    asked: PlanRequest | None = None
    refuse: tuple[int, bytes] | None = None
    speaks: str | None = None
    """Version of the wire that it names, if any."""
    heard: str | None = None

    def __init__(self, home: Home) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.home = home
        self.exit_codes, self.starts, self.started = [], [StartReply()], []
        self.drivers = []
        secure(self, home)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.server_port}"

    def client(self, token: str = TOKEN) -> MasterClient:
        return MasterClient(self.url, self.home.ca_file, token)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.heard = self.headers[HEADER]
        if self.server.refuse is not None:
            self._answer(*self.server.refuse)
        elif self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._answer(401, b'{"error": "wrong token", "exit_code": 77}')
        elif self.path == "/v1/applications":
            views = [self.server.view] if self.server.view else []
            self._answer(200, msgspec.json.encode({"applications": views}))
        elif self.path.startswith("/v1/drivers/"):
            self._answer(200, msgspec.json.encode(self._driver()))
        elif self.path == "/v1/workers":
            self._answer(200, msgspec.json.encode({"workers": self.server.workers}))
        else:
            self._answer(200, msgspec.json.encode(self.server.view))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.refuse is not None:
            self._answer(*self.server.refuse)
            return
        if self.headers["Authorization"] != f"Bearer {TOKEN}":
            self._answer(401, b'{"error": "wrong token", "exit_code": 77}')
            return
        if self.path == "/v1/plan":
            self.server.asked = msgspec.json.decode(body, type=PlanRequest)
            self._answer(200, msgspec.json.encode(self.server.plan))
            return
        if self.path.endswith("/start"):
            self.server.started.append(msgspec.json.decode(body, type=StartRequest))
            reply = self.server.starts[0]
            self.server.starts = self.server.starts[1:] or [reply]
            self._answer(200, msgspec.json.encode(reply))
            return
        if self.path == "/v1/services":
            self._answer(200, msgspec.json.encode(self.server.services))
            return
        if self.path == "/v1/drivers":
            self.server.hosted = msgspec.json.decode(body, type=HostRequest)
            self._answer(200, msgspec.json.encode(self.server.drivers[0]))
            return
        if self.path.startswith("/v1/drivers/"):
            self.server.killed += 1
            self._answer(200, msgspec.json.encode(self._driver()))
            return
        if self.path.endswith("/ended"):
            self.server.exit_codes.append(msgspec.json.decode(body, type=DriverEnded).exit_code)
            self.server.away -= 1
            refused = (507, b'{"error": "the disk is full", "exit_code": 69}')
            taken = self.server.away < 0
            if taken and self.server.view is not None:
                self.server.view = msgspec.structs.replace(
                    self.server.view, state=ApplicationState.ENDED, executors=0, finished=True
                )
            self._answer(*((200, b"{}") if taken else refused))
            return
        self.server.killed += 1
        assert self.server.view is not None
        self.server.view = msgspec.structs.replace(self.server.view, state=ApplicationState.ENDED, executors=0, finished=True)
        self._answer(200, b"{}")

    def _driver(self) -> HostedView:
        view = self.server.drivers[0]
        self.server.drivers = self.server.drivers[1:] or [view]
        return view

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if self.server.speaks is not None:
            self.send_header(HEADER, self.server.speaks)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep stderr quiet."""


@contextmanager
def serving(home: Home) -> Iterator[Server]:
    """Run the master of that home, whose CA is made."""
    with Server(home) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
