"""The master's own task: its pass goes on whatever fails, and a master without it ends."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import uvicorn

from controller.home import Home
from controller.machine.waiting import wait_until
from controller.master import main
from controller.master.handlers import WaitingAgents
from controller.master.storage.store import Store
from controller.master.topology_file import TopologyFile
from controller.start import ours
from controller.wire.driver import Registered
from experiments.bench.overhead.kept_connection import KeptConnection
from experiments.harness.live_cluster import free_port
from tests.fakes.cluster import FakeCluster, registration
from tests.fakes.hook import hooked
from tests.fakes.refusals import assert_names


def test_a_pass_that_fails_is_tried_again_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, passes = FakeCluster(tmp_path), 0
    monkeypatch.setattr(main, "TICK_S", 0.0)

    def tick(_: float) -> None:
        nonlocal passes
        passes += 1
        if passes > 3:
            raise KeyboardInterrupt
        raise OverflowError

    def changed() -> None:
        raise RecursionError

    monkeypatch.setattr(cluster.state, "tick", tick)
    topology = TopologyFile(tmp_path / "none")
    monkeypatch.setattr(topology, "changed", changed)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main._tick(cluster.state, topology, lambda: None))
    assert sorted(cluster.state.parts.failures.values()) == [3, 4]


def test_a_master_whose_pass_has_ended_ends_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async def end(server: uvicorn.Server) -> None:
        async def passes() -> None:
            raise SystemError("on purpose")

        ticking = asyncio.create_task(passes())
        ticking.add_done_callback(lambda task: main._ended(task, server))
        await asyncio.wait([ticking])

    server = uvicorn.Server(uvicorn.Config(app=lambda: None))
    asyncio.run(end(server))
    assert server.should_exit
    assert [r.levelno for r in caplog.records if r.levelno > logging.ERROR] == [logging.CRITICAL]


def test_agents_that_wait_for_changes_are_answered_when_the_master_ends() -> None:
    async def ends() -> None:
        agents = WaitingAgents()
        waiting = [asyncio.create_task(agents.wait(worker_id, 3600.0)) for worker_id in ("w1", "w2")]
        await asyncio.sleep(0)
        agents.wake_all()
        await asyncio.wait_for(asyncio.gather(*waiting), 60.0)

    asyncio.run(ends())


def test_a_master_that_stops_names_what_waits_and_closes_its_store(tmp_path: Path) -> None:
    home, port = Home(tmp_path / "home"), free_port()
    log = tmp_path / "log"
    with hooked(500, 204) as hook:
        options = ("--home", str(home.path), "--port", str(port), "--notify", hook.url)
        with log.open("wb") as out:
            master = subprocess.Popen(ours("controller.cli.main", "master", *options), stdout=out, stderr=out)
        try:
            url = f"https://127.0.0.1:{port}"
            assert wait_until(lambda: home.ca_file.exists() and "Started" in log.read_text(), 60.0), log.read_text()
            connection = KeptConnection(url, home.ca_file)
            with pytest.raises(OSError, match="status 401"):
                connection.post("/v1/applications", home.submit_token(), registration(uid=12345), Registered)
            connection.close()
            assert wait_until(lambda: "is tried again" in log.read_text(), 60.0), log.read_text()
        finally:
            master.terminate()
            assert master.wait(60.0) == -signal.SIGTERM
        assert [heard.fields["event"] for heard in hook.heard] == ["submission_refused"] * 2
    assert not home.database.with_name("master.db-wal").exists(), "the store was closed"


def test_a_database_with_another_schema_ends_the_start_with_one_sentence_and_stays_as_it_is(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    Store(home.database).close()
    with closing(sqlite3.connect(home.database)) as db:
        db.execute("PRAGMA user_version=99").close()
    before = home.database.read_bytes()
    words = ours("controller.cli.main", "master", "--home", str(home.path), "--port", str(free_port()))
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 69
    [said] = [line for line in done.stderr.splitlines() if "schema" in line]
    assert_names(said, home.database, 99)
    assert "Traceback" not in done.stderr
    assert home.database.read_bytes() == before
    assert not home.identity_file.exists()  # no life has begun
