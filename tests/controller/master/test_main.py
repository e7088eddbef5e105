"""The master's own task: its pass goes on whatever fails, and a master without it ends."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
import uvicorn

from controller.master import main
from controller.master.topology_file import TopologyFile
from tests.fakes.cluster import FakeCluster


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
        asyncio.run(main._tick(cluster.state, topology))
    assert cluster.state.parts.failures == {"the master's periodic pass": 3, "reading the topology": 4}


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
    assert [r.levelno for r in caplog.records if "the master's pass has ended" in r.message] == [logging.CRITICAL]
