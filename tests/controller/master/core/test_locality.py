"""Orders to drivers about Spark's own wait for data."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.wire.driver import ExecutorWish, Locality
from tests.fakes.cluster import FakeCluster, one_stage_run


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    cluster = FakeCluster(tmp_path)
    cluster.worker("w1")
    return cluster


def told(cluster: FakeCluster, **conf: str) -> Locality | None:
    application = cluster.register(conf={f"spark.pace.locality.{key}": value for key, value in conf.items()})
    # four tasks of two seconds have ended
    return cluster.driver(application, *one_stage_run(1000)[:6], wanted={"0": ExecutorWish(count=1)}).locality


def test_a_host_with_data_is_worth_what_the_forecast_says(cluster: FakeCluster) -> None:
    # E = TT * S * K / t = 1 s * 1 slot * 1 host / 2 s
    assert told(cluster, move="1s") == Locality(worth=0.5, wait_ms=1000)


def test_it_never_waits_or_always_so_long_as_the_user_says(cluster: FakeCluster) -> None:
    assert told(cluster, wait="none") == Locality(worth=0.0, wait_ms=0)
    assert told(cluster, wait="5s") == Locality(worth=1.0, wait_ms=5000)


def test_as_long_as_nobody_knows_the_tasks_spark_decides(cluster: FakeCluster) -> None:
    application = cluster.register()
    assert cluster.driver(application).locality is None
