"""Quotas over an engine's socket: the request, and refusals. The engine is made up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

import docker
import pytest
from docker.errors import APIError

from controller.runtime.docker.updates import Updates


class Engine(ThreadingUnixStreamServer):
    """An engine with the answer `status`."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.asked: list[tuple[str, dict[str, int]]] = []
        self.connections = 0
        self.status = 200


class Handler(BaseHTTPRequestHandler):
    server: Engine
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_POST(self) -> None:
        self.server.asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        self.send_response(self.server.status)
        body = b'{"message": "no such container"}'
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep stderr quiet."""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(tmp_path / "engine.sock") as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture
def updates(engine: Engine) -> Iterator[Updates]:
    client = docker.APIClient(base_url=f"unix://{engine.server_address}", version="1.41")
    made = Updates(lambda: client)
    yield made
    made.close()
    client.close()


def test_quotas_are_set_over_one_connection(engine: Engine, updates: Updates) -> None:
    for quota_us in (50_000, 30_000):
        updates.set_quota("abc", quota_us)
    expected = [{"CpuPeriod": 100_000, "CpuQuota": quota_us} for quota_us in (50_000, 30_000)]
    assert engine.asked == [("/v1.41/containers/abc/update", body) for body in expected]
    assert engine.connections == 1


def test_each_thread_has_a_connection_of_its_own(engine: Engine, updates: Updates) -> None:
    both = threading.Barrier(2)

    def work() -> None:
        updates.set_quota("abc", 50_000)
        both.wait()
        updates.set_quota("abc", 60_000)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(engine.asked) == 4
    assert engine.connections == 2


def test_a_refusal_is_the_librarys_error(engine: Engine, updates: Updates) -> None:
    engine.status = 404
    with pytest.raises(APIError, match=r"status 404.*no such container"):
        updates.set_quota("abc", 50_000)
