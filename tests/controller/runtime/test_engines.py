"""The Docker engine that is found, the version of its protocol, and the sentence about an engine that cannot be used."""

from __future__ import annotations

import json
import re
import socketserver
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from controller.runtime.docker.client import EngineClients, docker_version, engine_place
from controller.runtime.table import choose_runtime
from stage_model.errors import Unavailable, Unusable

LEAST, NEWEST = 44, 52
"""The API versions of Docker 29: it refuses clients older than 1.44."""


class _Answers(BaseHTTPRequestHandler):
    """An engine of that release: it answers with its version, and refuses clients that are too old."""

    def do_GET(self) -> None:
        asked = re.match(r"/v1\.(\d+)/", self.path)
        if asked and int(asked[1]) < LEAST:
            self._send(400, {"message": f"client version 1.{asked[1]} is too old; the least is 1.{LEAST}"})
        else:
            self._send(200, {"Version": "29.0.0", "ApiVersion": f"1.{NEWEST}", "MinAPIVersion": f"1.{LEAST}"})

    def _send(self, code: int, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def address_string(self) -> str:
        return "test"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Keep stderr quiet."""


class _Broken(_Answers):
    """A server that speaks HTTP and is no engine."""

    def do_GET(self) -> None:
        self._send(500, {"message": "broken"})


def _serve(path: Path, handler: type[_Answers]) -> Iterator[str]:
    """Serve at a socket; yield its URL."""
    with socketserver.ThreadingUnixStreamServer(str(path), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"unix://{path}"
        server.shutdown()
        thread.join()


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    yield from _serve(tmp_path / "new.sock", _Answers)


@pytest.fixture
def broken(tmp_path: Path) -> Iterator[str]:
    yield from _serve(tmp_path / "broken.sock", _Broken)


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
    def test_an_engine_that_refuses_old_clients_is_used(self, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", engine)
        assert docker_version().startswith("29.0.0 ")
        assert choose_runtime("auto").name == "docker"

    def test_clients_speak_the_engines_own_version(self, engine: str) -> None:
        clients = EngineClients(engine)
        assert clients.quick().api_version == f"1.{NEWEST}"
        clients.close()


class TestAuto:
    def test_without_an_engine_it_takes_processes_and_says_why(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
        choice = choose_runtime("auto")
        assert choice.name == "process"
        assert f"{tmp_path}/none.sock" in choice.why_not_better

    def test_what_answers_and_cannot_be_used_is_an_error(self, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DOCKER_HOST", broken)
        with pytest.raises(Unusable, match=re.escape(broken)):
            choose_runtime("auto")
        assert choose_runtime("process").name == "process"


class TestPlace:
    def test_docker_host_comes_first(self, no_configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        context(no_configuration, "other", "unix:///run/other.sock")
        monkeypatch.setenv("DOCKER_HOST", "unix:///run/mine.sock")
        monkeypatch.setenv("DOCKER_CONTEXT", "other")
        assert engine_place().url.endswith("/run/mine.sock")

    def test_the_context_in_use_is_followed(self, no_configuration: Path, engine: str) -> None:
        context(no_configuration, "colima", engine)
        (no_configuration / "config.json").write_text('{"currentContext": "colima"}')
        assert engine_place().url == engine
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
