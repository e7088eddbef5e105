"""The whole master: nothing is lost in a restart, and its store stays small. No network, a manual clock."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing

import pytest

from controller.runs.profile_store import ProfileStore
from controller.wire.worker import StageUse
from stage_model.errors import Unavailable
from tests.fakes.cluster import FakeCluster, one_stage_run, report, use


def test_nothing_is_lost_in_a_restart(cluster: FakeCluster, application_id: str) -> None:
    cluster.driver(application_id, *one_stage_run(1000)[:4])
    half_done = report(application_id, "1", stages=(use(0, 3.0, done=2),))
    before = cluster.worker("w1", half_done).desired
    generation, cluster_id = cluster.state.identity.generation, cluster.state.identity.cluster_id
    cluster.state.tick(cluster.now_s + 60)  # counters are stored now and then
    cluster.now_s += 5
    cluster.restart()
    assert (cluster.state.identity.cluster_id, cluster.state.identity.generation) == (cluster_id, generation + 1)
    application = cluster.state.applications[application_id]
    assert application.stream.acknowledged == 4
    assert application.elapsed_s(cluster.now_s) == pytest.approx(7.0)  # 2 s old at registration, 5 s away
    after = cluster.worker("w1", half_done).desired
    assert [s.executor_id for s in after.executors] == [s.executor_id for s in before.executors] == ["1"]
    assert application.totals.stage_use() == {(0, 0): 3.0}
    assert cluster.driver(application_id, first=5).acknowledged == 4


def test_throttled_time_of_a_stage_adds_up_and_is_known_only_where_every_executor_knows_it(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.worker("w2")
    application = cluster.registered()

    def reported(worker: str, *stages: StageUse, instance: str = "first") -> None:
        [executor] = [e for e, one in application.executors.items() if one.record.worker_id == worker]
        cluster.worker(worker, report(application.id, executor, stages=stages), instance=instance)

    reported("w1", use(0, 3.0, throttled_s=1.5), use(1, 1.0, throttled_s=2.0), use(2, 1.0, throttled_s=4.0))
    reported("w2", use(0, 3.0, throttled_s=0.25), use(1, 1.0))
    assert application.totals.stage_throttling() == {(0, 0): 1.75, (2, 0): 4.0}
    # another life of an agent counts from nothing
    reported("w1", use(0, 1.0, throttled_s=0.5), use(2, 1.0), instance="second")
    assert application.totals.stage_throttling() == {(0, 0): 2.25}


@pytest.mark.parametrize("restarted", [False, True])
def test_the_cold_part_of_a_stage_is_learned_from_all_its_executors(cluster: FakeCluster, restarted: bool) -> None:
    cluster.worker("w1")
    cluster.worker("w2")
    application = cluster.registered()
    cluster.driver(application.id, *one_stage_run(1000)[:2])
    # of the 40 records that the stage has, the first ten take 6 of its 12 core-seconds
    shares = [(4, 2.5), (5, 3.0), (7, 3.5), (11, 4.5), (15, 5.5), (20, 6.0)]
    for number, (records, core_s) in enumerate(shares):
        if restarted and number == 3:
            cluster.restart()
        for worker, executor in (("w1", "1"), ("w2", "2")):
            cluster.worker(worker, report(application.id, executor, stages=(use(0, core_s, records=float(records)),)))
    cluster.driver(application.id, *one_stage_run(1000)[2:], first=3, ended=True)
    cluster.worker("w2", report(application.id, "2", "exited", exit_code=0))
    cluster.worker("w2")
    cluster.exits(application.id, exit_code=0)
    known = ProfileStore(cluster.path / "profiles").load("app@app.py")
    assert known is not None
    [[stage]] = [run.stages for run in known.runs]
    # a master that starts again hears of one executor after the other, so it sees less than there was
    whole_core_s = (6.0 - 0.25 * 12.0) / 0.75
    assert stage.cold_core_s is not None
    assert 0 < stage.cold_core_s < whole_core_s if restarted else stage.cold_core_s == pytest.approx(whole_core_s)


def test_workers_known_before_a_restart_count_as_capacity_of_running_applications(cluster: FakeCluster) -> None:
    for worker in ("w1", "w2"):
        cluster.worker(worker)
    application_id = cluster.register()
    cluster.restart()
    [plan] = cluster.worker("w1", report(application_id, "1")).desired.applications
    assert plan.cores == 2.0
    assert [w.worker_id for w in cluster.state.workers.views(cluster.now_s)] == ["w1"]


def test_a_flood_empties_the_stores_log_at_once_and_a_reader_that_prevents_that_is_logged(
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
    [logged] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert logged.exc_info is not None
    assert logged.exc_info[0] is Unavailable
    flood()
    assert store.log_bytes() == 0
