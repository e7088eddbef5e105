"""A receiver of notifications on loopback, which answers as a test says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import msgspec

from controller.home import Home
from tests.fakes.tls import secure


class Heard(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def fields(self) -> dict[str, Any]:
        decoded: dict[str, Any] = msgspec.json.decode(self.body)
        return decoded


class Hook(ThreadingHTTPServer):
    """A server that gives each call the next of `answers`, and the last one for ever: a status, the bytes of an answer, or an
    action instead of an answer: "close", "silence" (until `over`), "drip" (bytes that go on for ever)."""

    daemon_threads = True

    def __init__(self, host: str, *answers: int | str | bytes) -> None:
        super().__init__((host, 0), _Handler)
        self.answers, self.heard, self.over = list(answers), list[Heard](), threading.Event()
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.server_address[0]!s}:{self.server_port}/hook?key=1"

    def handle_error(self, *_: object) -> None:
        """Ignore errors: some tests want a client that hangs up or does not trust this server."""


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        hook = self.server
        body = self.rfile.read(int(self.headers["Content-Length"]))
        answer = hook.answers.pop(0) if len(hook.answers) > 1 else hook.answers[0]
        hook.heard.append(Heard(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        self.close_connection = True
        if answer == "silence":
            hook.over.wait()
        elif answer == "drip":
            while not hook.over.wait(0.02):
                self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        elif isinstance(answer, bytes):
            self.wfile.write(answer)
        elif isinstance(answer, int):
            self.send_response(answer)
            self.send_header("Location", f"http://127.0.0.1:{hook.server_port}/elsewhere")
            self.end_headers()

    def log_message(self, *_: object) -> None:
        """Keep stderr quiet."""


@contextmanager
def hooked(*answers: int | str | bytes, home: Home | None = None, host: str = "127.0.0.1") -> Iterator[Hook]:
    """Serve a hook, with the certificate of that home's master if a home is given."""
    with Hook(host, *(answers or (204,))) as hook:
        if home is not None:
            secure(hook, home)
            hook.scheme = "https"
        thread = threading.Thread(target=hook.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield hook
        finally:
            hook.over.set()
            hook.shutdown()
            thread.join()
