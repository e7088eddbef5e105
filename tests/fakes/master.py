"""A master's HTTP API with one application, its workers and one plan, for the commands' tests. It decides nothing.

Also its end of TLS: a CA as a master makes it, servers with its certificate, and one without.
"""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import TCPServer

import msgspec

from controller.authority import ALWAYS, certify
from controller.client import MasterClient
from controller.home import Home
from controller.wire.command import ApplicationView, PlanReply, PlanRequest, WorkerView
from controller.wire.version import HEADER

TOKEN = "right"


class Server(ThreadingHTTPServer):
    """Answers like a master that knows one application."""

    view: ApplicationView | None = None
    workers: tuple[WorkerView, ...] = ()
    killed = 0
    plan = PlanReply(known=False)
    asked: PlanRequest | None = None
    refuse: tuple[int, bytes] | None = None
    speaks: str | None = None
    """The versions of the wire that it names; None: none, as the first release."""
    heard: str | None = None

    def __init__(self, home: Home) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.home = home
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
        self.server.killed += 1
        assert self.server.view is not None
        self.server.view = msgspec.structs.replace(self.server.view, state="ended", executors=0, finished=True)
        self._answer(200, b"{}")

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if self.server.speaks is not None:
            self.send_header(HEADER, self.server.speaks)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet."""


@contextmanager
def serving(home: Home) -> Iterator[Server]:
    """The master of that home, whose CA is made."""
    with Server(home) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def make_ca(home: Home) -> None:
    """As a master does at its start."""
    certify(home.ca_key_file, home.ca_file, home.master_certificate, ALWAYS)


def secure(server: TCPServer, home: Home) -> None:
    """From now on it speaks TLS, as the master of that home, whose CA is made if there is none."""
    make_ca(home)
    server.socket = _context(home.master_certificate).wrap_socket(
        server.socket, server_side=True, do_handshake_on_connect=False
    )


def _context(certificate: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context


class Squatter:
    """Holds a port; keeps every byte that it is told, under TLS with `certificate` if it has one."""

    def __init__(self, certificate: Path | None) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.context = None if certificate is None else _context(certificate)
        self.plain, self.secret = b"", b""
        self.shaken = 0

        self.port = self.listening.getsockname()[1]
        self.url = f"https://127.0.0.1:{self.port}"

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            connection.settimeout(10)
            try:
                self._take(connection)
            except OSError:
                pass  # it hung up
            finally:
                connection.close()

    def _take(self, connection: socket.socket) -> None:
        if self.context is None:
            self.plain += connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
            self.plain += connection.recv(1 << 16)
            return
        with self.context.wrap_socket(connection, server_side=True) as talking:
            self.shaken += 1
            self.secret += talking.recv(1 << 16)


@contextmanager
def squatting(certificate: Path | None) -> Iterator[Squatter]:
    squatter = Squatter(certificate)
    thread = threading.Thread(target=squatter.serve)
    thread.start()
    try:
        yield squatter
    finally:
        squatter.listening.shutdown(socket.SHUT_RDWR)
        squatter.listening.close()
        thread.join()
