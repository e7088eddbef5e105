"""The whole master: executors come about as Spark wants them, nothing is lost in a restart. No network, a manual clock."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing

import pytest

from controller.wire.driver import ExecutorWish
from controller.wire.worker import StageUse
from stage_model.errors import Unavailable
from tests.fakes.cluster import FakeCluster, one_stage_run, report, use
from tests.fakes.refusals import assert_names


def test_an_application_gets_one_executor_per_worker(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.worker("w2")
    application_id = cluster.register()
    for worker in ("w1", "w2"):
        [spec] = cluster.worker(worker).desired.executors
        assert spec.application_id == application_id
        assert spec.slots == 1  # a worker of one core
    assert [e.record.executor_id for e in cluster.state.applications[application_id].executors.values()] == ["1", "2"]


def test_no_more_executors_than_spark_wants(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.worker("w2")
    cluster.register(wanted={"0": ExecutorWish(count=1)})
    assert sum(len(cluster.worker(w).desired.executors) for w in ("w1", "w2")) == 1


def test_a_worker_that_joins_later_gets_an_executor_too(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.register()
    assert cluster.worker("w2").desired.executors


def test_without_room_the_application_waits_and_says_why(cluster: FakeCluster) -> None:
    cluster.worker("w1", memory_mb=2000)
    first = cluster.register()  # 1024 heap + 384 overhead
    cluster.worker("w1", report(first, "1"), memory_mb=2000)
    second = cluster.register(instance="other")
    view = cluster.view(second)
    assert view.state == "waiting"
    assert_names(view.reason, "1408 MiB", "592 MiB")


def test_nothing_is_lost_in_a_restart(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register()
    cluster.driver(application_id, *one_stage_run(1000)[:4])
    before = cluster.worker("w1", report(application_id, "1", stages=(use(0, 3.0, done=2),))).desired
    generation, cluster_id = cluster.state.identity.generation, cluster.state.identity.cluster_id
    cluster.state.tick(cluster.now_s + 60)  # counters are stored now and then
    cluster.now_s += 5
    cluster.restart()
    assert (cluster.state.identity.cluster_id, cluster.state.identity.generation) == (cluster_id, generation + 1)
    application = cluster.state.applications[application_id]
    assert application.stream.acknowledged == 4
    assert application.elapsed_s(cluster.now_s) == pytest.approx(7.0)  # 2 s old at registration, 5 s away
    after = cluster.worker("w1", report(application_id, "1", stages=(use(0, 3.0, done=2),))).desired
    assert [s.executor_id for s in after.executors] == [s.executor_id for s in before.executors] == ["1"]
    assert application.totals.stage_use() == {(0, 0): 3.0}
    assert cluster.driver(application_id, first=5).acknowledged == 4


def test_throttled_time_of_a_stage_adds_up_and_is_known_only_where_every_executor_knows_it(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.worker("w2")
    application = cluster.registered()
    application_id = application.id

    def reported(worker: str, *stages: StageUse, instance: str = "first") -> None:
        [executor] = [e for e, one in application.executors.items() if one.record.worker_id == worker]
        cluster.worker(worker, report(application_id, executor, stages=stages), instance=instance)

    reported("w1", use(0, 3.0, throttled_s=1.5), use(1, 1.0, throttled_s=2.0), use(2, 1.0, throttled_s=4.0))
    reported("w2", use(0, 3.0, throttled_s=0.25), use(1, 1.0))
    assert application.totals.stage_throttling() == {(0, 0): 1.75, (2, 0): 4.0}
    # another life of an agent counts from nothing
    reported("w1", use(0, 1.0, throttled_s=0.5), use(2, 1.0), instance="second")
    assert application.totals.stage_throttling() == {(0, 0): 2.25}


def test_workers_known_before_a_restart_count_as_capacity_of_running_applications(cluster: FakeCluster) -> None:
    for worker in ("w1", "w2"):
        cluster.worker(worker)
    application_id = cluster.register()
    cluster.restart()
    [plan] = cluster.worker("w1", report(application_id, "1")).desired.applications
    assert plan.cores == 2.0
    assert [w.worker_id for w in cluster.state.workers.views(cluster.now_s)] == ["w1"]


def test_a_flood_empties_the_store_s_log_at_once_and_a_reader_that_prevents_it_is_told_of(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("controller.master.cluster.LARGEST_LOG", 1 << 20)
    store = cluster.state.store

    def flood() -> None:
        store.put_application("flood", False, b"x" * (2 << 20))
        cluster.tick(0.5)

    flood()
    assert store.log_bytes() == 0
    with closing(sqlite3.connect(cluster.path / "master.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT id FROM applications").fetchall()
        flood()
        flood()
        assert store.log_bytes() > 4 << 20
    [told] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told.exc_info is not None
    assert told.exc_info[0] is Unavailable
    flood()
    assert store.log_bytes() == 0
