"""The bridge's line to the master in a JVM of its own: which version of the wire it names and takes; no Spark is started."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from controller.home import Home
from controller.wire.version import HEADER, SPOKEN
from tests.fakes.tls import make_ca, secure, squatting

pytestmark = pytest.mark.spark

CLIENT_HELLO = b"\x16\x03"
"""A TLS record of the handshake, version 3.x."""


class Server(ThreadingHTTPServer):
    """A server that gives the answers one after the other: status, the version it names (None: it names none), body."""

    def __init__(self, home: Home) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.home = home
        secure(self, home)
        self.answers: list[tuple[int, str | None, bytes]] = []
        self.heard: list[str | None] = []


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.heard.append(self.headers[HEADER])
        status, version, body = self.server.answers[len(self.server.heard) - 1]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if version is not None:
            self.send_header(HEADER, version)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep stderr quiet."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(Home(tmp_path)) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def bridge_output(server: Server, classes: str, answers: list[tuple[int, str | None, bytes]]) -> tuple[list[str], str]:
    """Return what the bridge makes of these answers, a line for each; and what it says to the user."""
    server.answers = answers
    return ask(server.server_port, server.home, classes, len(answers))


def ask(port: int, home: Home, classes: str, times: int) -> tuple[list[str], str]:
    """Return the same for any server at that port, when the CA of `home` is pinned."""
    words = [f"sparkpace://127.0.0.1:{port}", str(times), str(home.ca_file)]
    command = ["java", "-cp", classes, "org.sparkpace.bridge.WireHarness", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines(), done.stderr


def test_the_bridge_names_its_version_and_takes_an_answer_of_that_one(server: Server, classes: str) -> None:
    lines, _ = bridge_output(server, classes, [(200, version, b'{"a":1}') for version in (None, SPOKEN)])
    assert lines == ['answer {"a":1}'] * 2
    assert server.heard == [SPOKEN] * 2


def test_an_answer_of_another_version_is_refused_in_one_sentence(server: Server, classes: str) -> None:
    lines, _ = bridge_output(server, classes, [(200, "2", b"{}"), (400, "2", b'{"error": "no."}'), (200, "new", b"{}")])
    said = f"refused false the master at 127.0.0.1:{server.server_port} speaks wire version"
    assert [line.partition(",")[0] for line in lines] == [f"{said} '2'", f"{said} '2'", f"{said} 'new'"]


def test_a_failing_master_is_no_question_of_versions(server: Server, classes: str) -> None:
    lines, _ = bridge_output(server, classes, [(503, "0", b""), (404, None, b'{"error": "who?"}')])
    assert lines == ["failed HTTP 503", "refused true who?"]


@pytest.mark.parametrize("dressed", ["plainly", "of another CA"])
def test_a_program_that_squats_the_port_learns_no_token_and_is_refused(dressed: str, classes: str, tmp_path: Path) -> None:
    ours, other = Home(tmp_path / "ours"), Home(tmp_path / "other")
    for home in (ours, other):
        home.create()
        make_ca(home)
    with squatting(None if dressed == "plainly" else other.master_certificate) as squatter:
        [line], _ = ask(squatter.port, ours, classes, 1)
    if dressed == "plainly":
        # taken for a master that is ill: the bridge tries again, and says no more to it
        assert line.startswith("failed ")
        assert squatter.plain.startswith(CLIENT_HELLO)
    else:
        assert line.startswith(f"refused false what answers at 127.0.0.1:{squatter.port} is not the master of the CA in")
    assert squatter.secret == b""
    assert b"token" not in squatter.plain


def test_a_ca_file_that_is_missing_or_damaged_is_named(classes: str, tmp_path: Path) -> None:
    command = ["java", "-cp", classes, "org.sparkpace.bridge.WireHarness", "sparkpace://127.0.0.1:1", "1"]
    missing = subprocess.run([*command, str(tmp_path / "ca.pem")], capture_output=True, text=True, check=False)
    assert f"{tmp_path}/ca.pem" in missing.stderr
    (tmp_path / "ca.pem").write_bytes(b"no PEM")
    damaged = subprocess.run([*command, str(tmp_path / "ca.pem")], capture_output=True, text=True, check=False)
    assert f"{tmp_path}/ca.pem" in damaged.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has files of root's and can be somebody else")
def test_a_token_may_be_roots_file_for_a_group_of_the_drivers_as_a_pod_sees_a_secret(classes: str, tmp_path: Path) -> None:
    token = tmp_path / "submit.token"
    token.write_text("a-token\n")
    # another user, who may pass the folders above all the same
    nobody = ("--reuid", "65534", "--regid", "65534", "--clear-groups")
    through = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    command = ["setpriv", *nobody, *through, "java", "-cp", classes, "org.sparkpace.bridge.TokenHarness", str(token)]

    def read(mode: int, group: int) -> str:
        os.chown(token, 0, group)
        token.chmod(mode)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert read(0o440, 65534) == "a-token\n"
    assert "has mode rw-r--r--, open to others" in read(0o644, 65534)
    assert "has mode rw-rw----, open to others" in read(0o660, 65534)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts file systems")
def test_a_token_that_others_may_read_is_good_where_a_pod_has_its_secrets(classes: str, tmp_path: Path) -> None:
    """A kubelet mounts a secret in memory and read-only; the mount is gone with the process."""
    place = tmp_path / "place"
    place.mkdir()
    mounted = """\
mount -t tmpfs -o mode=755 secret "$1" && echo a-token >"$1/submit.token" && chmod 644 "$1/submit.token" || exit
"${@:2}" "$1/submit.token"
chown 65534 "$1/submit.token" && mount -o remount,ro "$1" || exit
"${@:2}" "$1/submit.token"
mount -o remount,rw "$1" && chown 0 "$1/submit.token" && mount -o remount,ro "$1" || exit
"${@:2}" "$1/submit.token"
"""
    java = ("java", "-cp", classes, "org.sparkpace.bridge.TokenHarness")
    command = ["unshare", "--mount", "bash", "-c", mounted, "bash", str(place), *java]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    writable, others, secret = done.stdout.splitlines()
    assert "has mode rw-r--r--, open to others" in writable
    assert "has mode rw-r--r--, open to others" in others
    assert secret == "a-token"
