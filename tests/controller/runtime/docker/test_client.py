"""An engine that is made up, at a socket: where an engine is found, the version of its protocol, the sentence about one that
cannot be used, and updates of quotas."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

import docker
import pytest
from docker.errors import APIError

from controller.runtime.docker.client import EngineClients, docker_version, engine_place
from controller.runtime.docker.updates import Updates
from controller.runtime.table import choose_runtime
from stage_model.errors import Unavailable, Unusable
from tests.fakes.refusals import assert_names

LEAST, NEWEST = 44, 52
"""The API versions of Docker 29: it refuses clients older than 1.44."""


class Engine(ThreadingUnixStreamServer):
    """An engine of that release, which answers with `status` and its version, and refuses clients that are too old. `says`:
    further parts of that answer, or others."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), Handler)
        self.url = f"unix://{path}"
        self.asked: list[tuple[str, dict[str, int]]] = []
        self.connections = 0
        self.status = 200
        self.says: dict[str, object] = {}


class Handler(BaseHTTPRequestHandler):
    server: Engine
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        self.server.connections += 1
        super().setup()

    def do_GET(self) -> None:
        asked = re.match(r"/v1\.(\d+)/", self.path)
        if asked and int(asked[1]) < LEAST:
            self._send(400, {"message": f"client version 1.{asked[1]} is too old; the least is 1.{LEAST}"})
        else:
            version = {"Version": "29.0.0", "ApiVersion": f"1.{NEWEST}", "MinAPIVersion": f"1.{LEAST}", **self.server.says}
            self._send(self.server.status, version)

    def do_POST(self) -> None:
        self.server.asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
        self._send(self.server.status, {"message": "no such container"})

    def _send(self, code: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

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
    client = docker.APIClient(base_url=engine.url, version="1.41")
    made = Updates(lambda: client)
    yield made
    made.close()
    client.close()


@pytest.fixture(autouse=True)
def no_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put Docker's configuration into a folder of the test's own, and let no variable name an engine."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "docker"
    folder.mkdir()
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    return folder


def context(folder: Path, name: str, url: str) -> None:
    """Write a context as `docker context create` does."""
    meta = folder / "contexts" / "meta" / sha256(name.encode()).hexdigest()
    meta.mkdir(parents=True)
    described = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": url, "SkipTLSVerify": False}}}
    (meta / "meta.json").write_text(json.dumps(described))


class TestVersions:
    def test_an_engine_that_refuses_old_clients_is_used(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        assert docker_version().startswith("29.0.0 ")
        assert choose_runtime("auto").name == "docker"

    def test_clients_speak_the_engines_own_version(self, engine: Engine) -> None:
        clients = EngineClients(engine.url)
        assert clients.quick().api_version == f"1.{NEWEST}"
        clients.close()

    @pytest.mark.parametrize("version", ["4.3.1", "5.0.3", "unknown"])
    def test_a_podman_that_cannot_change_limits_is_no_engine(
        self, version: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        engine.says = {"Version": version, "Components": [{"Name": "Podman Engine"}, {"Name": "Conmon"}]}
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        ways: tuple[Callable[[], object], ...] = (docker_version, partial(choose_runtime, "auto"))
        for choose in ways:
            with pytest.raises(Unusable) as refused:
                choose()
            assert_names(refused.value, engine.url, f"Podman {version}", "before 5.1", "--runtime process")

    @pytest.mark.parametrize("version", ["5.1.0", "5.10.2", "6.0.1"])
    def test_a_newer_podman_is_used_and_named(self, version: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        engine.says = {"Version": version, "Components": [{"Name": "Podman Engine"}]}
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        assert docker_version().startswith(f"Podman {version}, with which Sparkpace was not tried, at {engine.url}")

    def test_docker_with_components_is_docker(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        engine.says = {"Components": [{"Name": "Engine"}, {"Name": "containerd"}]}
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        assert docker_version().startswith("29.0.0 at ")


class TestAuto:
    def test_without_an_engine_it_takes_processes_and_says_why(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        choice = choose_runtime("auto")
        assert choice.name == "process"
        assert f"{tmp_path}/none.sock" in choice.why_not_better

    def test_what_answers_and_cannot_be_used_is_an_error(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        engine.status = 500
        monkeypatch.setenv("DOCKER_HOST", engine.url)
        with pytest.raises(Unusable, match=re.escape(engine.url)):
            choose_runtime("auto")
        assert choose_runtime("process").name == "process"


class TestPlace:
    def test_docker_host_comes_first(self, no_configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        context(no_configuration, "other", "unix:///run/other.sock")
        monkeypatch.setenv("DOCKER_HOST", "unix:///run/mine.sock")
        monkeypatch.setenv("DOCKER_CONTEXT", "other")
        assert engine_place().url.endswith("/run/mine.sock")

    def test_the_context_in_use_is_followed(self, no_configuration: Path, engine: Engine) -> None:
        context(no_configuration, "colima", engine.url)
        (no_configuration / "config.json").write_text('{"currentContext": "colima"}')
        assert engine_place().url == engine.url
        assert "29.0.0" in docker_version()
        assert "colima" in docker_version()

    def test_a_variable_names_another_context(self, no_configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        context(no_configuration, "one", "unix:///run/one.sock")
        context(no_configuration, "two", "unix:///run/two.sock")
        (no_configuration / "config.json").write_text('{"currentContext": "one"}')
        monkeypatch.setenv("DOCKER_CONTEXT", "two")
        assert engine_place().url == "unix:///run/two.sock"

    @pytest.mark.parametrize("configured", [True, False])
    def test_a_context_that_does_not_exist_is_refused(
        self, configured: bool, no_configuration: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        if configured:
            (no_configuration / "config.json").write_text("{}")
        monkeypatch.setenv("DOCKER_CONTEXT", "gone")
        with pytest.raises(Unavailable, match="'gone'"):
            engine_place()

    def test_without_any_it_is_the_default_socket(self) -> None:
        assert engine_place().url == "unix:///var/run/docker.sock"


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
