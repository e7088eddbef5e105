"""`sparkpace ui` for a master elsewhere: real processes, the master at an address that is not the page's."""

from __future__ import annotations

import http.client
import json
import shutil
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from controller.client import MasterClient
from controller.home import MASTER_VARIABLE, Home
from controller.machine.waiting import wait_until
from experiments.harness.live_cluster import Sparkpace, end_processes, free_port
from stage_model.errors import Unavailable
from tests.fakes.tls import make_ca

ELSEWHERE = "127.0.0.2"
PATIENCE_S = 60.0
LINK = "Open this within 5 minutes: "


@pytest.fixture
def far(tmp_path: Path) -> Iterator[tuple[Home, str]]:
    """Run a master that answers only at `ELSEWHERE`; provide its home and URL."""
    home, port = Home(tmp_path / "far"), free_port()
    url = f"https://{ELSEWHERE}:{port}"
    sparkpace = Sparkpace(home, tmp_path)
    with ended(sparkpace.start(sparkpace.command(("master", "--host", ELSEWHERE, "--port", str(port))), tmp_path / "log")):

        def answers() -> bool:
            try:
                return bool(MasterClient(url, home.ca_file).health().cluster_id)
            except Unavailable:
                return False

        assert wait_until(answers, PATIENCE_S), (tmp_path / "log").read_text()
        yield home, url


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        end_processes([process])


def near(tmp_path: Path, far: Home, url: str) -> Sparkpace:
    """Make the home of a user who was given the CA's certificate and the submit token, and nothing else."""
    home = Home(tmp_path / "near")
    home.path.mkdir(mode=0o700)
    for file in (far.ca_file, far.submit_token_file):
        shutil.copy(file, home.path)
    return Sparkpace(home, tmp_path, variables={MASTER_VARIABLE: url})


def test_its_page_shows_a_master_elsewhere(tmp_path: Path, far: tuple[Home, str]) -> None:
    sparkpace, out = near(tmp_path, *far), tmp_path / "page"
    with ended(sparkpace.start(sparkpace.command(("ui", "--port", "0")), out)) as page:
        assert wait_until(lambda: LINK in out.read_text() or page.poll() is not None, PATIENCE_S)
        first, link, *_ = out.read_text().splitlines()
        assert first == f"Live page of the cluster at {far[1]}. Ctrl-C ends it."
        where = urllib.parse.urlsplit(link.removeprefix(LINK))
        assert where.hostname == "127.0.0.1"
        with closing(http.client.HTTPConnection(where.netloc, timeout=PATIENCE_S)) as connection:
            connection.request("GET", f"{where.path}?{where.query}")
            entered = connection.getresponse()
            entered.read()
            cookie = str(entered.getheader("set-cookie")).partition(";")[0]
            connection.request("GET", f"{entered.getheader('location')}events", headers={"Cookie": cookie})
            with connection.getresponse() as events:
                assert events.readline() == b"event: cluster\n"
                picture = json.loads(events.readline().removeprefix(b"data: "))
        assert (picture["trouble"], picture["applications"], picture["workers"]) == ("", [], [])


def test_a_master_of_another_ca_receives_nothing(tmp_path: Path, far: tuple[Home, str]) -> None:
    sparkpace, another = near(tmp_path, *far), Home(tmp_path / "another")
    another.create()
    make_ca(another)
    shutil.copy(another.ca_file, sparkpace.home.ca_file)
    done = sparkpace.run(("ui", "--port", "0"), log=tmp_path / "said")
    assert done.code == Unavailable.exit_code
    assert f"what answers at {far[1]} is not the master of the CA in {sparkpace.home.ca_file}" in done.output
    assert LINK not in done.output
