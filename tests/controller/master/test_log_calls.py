"""A call for an executor's log waits for the next report of that executor's worker, and for no other one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from controller.wire.command import ExecutorLog
from controller.wire.driver import ExecutorWish
from controller.wire.worker import LogTail
from stage_model.errors import Unavailable
from tests.fakes.cluster import FakeCluster, report
from tests.fakes.refusals import refused

FILES = {"stderr": LogTail(content=b"a line\n", size=7)}


@pytest.fixture
def job(cluster: FakeCluster) -> str:
    """Provide an application with executor 1 on worker w1 and executor 2 on worker w2, whose agents send logs."""
    for worker in ("w1", "w2"):
        cluster.worker(worker, logs={})
    made = cluster.register(wanted={"0": ExecutorWish(count=2)})
    assert sorted(cluster.where(made)) == ["w1", "w2"]
    return made


def on(cluster: FakeCluster, job: str, executor: str) -> str:
    return cluster.state.applications[job].executors[executor].record.worker_id


def sends(cluster: FakeCluster, job: str, executor: str, logs: Mapping[str, Mapping[str, LogTail]]) -> tuple[str, ...]:
    """Let the executor's agent report, with these logs; return the logs that it is to send next."""
    return cluster.worker(on(cluster, job, executor), report(job, executor), logs=logs).desired.logs


def test_a_log_goes_to_all_who_wait_for_it_and_only_its_worker_can_send_it(cluster: FakeCluster, job: str) -> None:
    key = f"{job}/1"

    async def read() -> list[ExecutorLog]:
        cluster.woken.clear()
        calls = [asyncio.create_task(cluster.state.logs.read(job, "1", cluster.clock)) for _ in range(2)]
        await asyncio.sleep(0)
        assert cluster.woken == {on(cluster, job, "1")}
        assert sends(cluster, job, "1", {}) == (key,)
        assert sends(cluster, job, "2", {key: {"stderr": LogTail(content=b"forged", size=6)}}) == ()
        assert sends(cluster, job, "1", {key: FILES, f"{job}/9": {}, "no key": {}}) == ()
        return list(await asyncio.gather(*calls))

    assert asyncio.run(read()) == [ExecutorLog(files=FILES)] * 2
    assert sends(cluster, job, "1", {key: FILES}) == (), "a log that comes again is left out"


def test_a_log_that_does_not_come_in_time_is_named_with_its_place_and_no_longer_asked_for(
    cluster: FakeCluster, job: str
) -> None:
    with refused(Unavailable, "executor 1", on(cluster, job, "1"), "has not sent it", "127.0.0.1"):
        asyncio.run(cluster.state.logs.read(job, "1", cluster.clock, within_s=0.0))
    assert sends(cluster, job, "1", {}) == ()
