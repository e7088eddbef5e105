"""The `spark-submit` of `sparkpace shim` before a real one: jobs are paced as by `sparkpace submit`, and it is the driver."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import ONE_SPARK, STAGES
from tests.integration.local_cluster import Job, LocalCluster
from tests.integration.pacing import AIM, assert_paced, deadline_for

pytestmark = [pytest.mark.slow, pytest.mark.spark]

Start = Callable[[LocalCluster, Sequence[str]], Job]


@pytest.fixture
def spark_submit(python: Path, tmp_path: Path) -> Start:
    """Provide a function that starts `spark-submit` with these words, for a user who has ours before that of `python` on
    PATH."""

    def start(cluster: LocalCluster, words: Sequence[str]) -> Job:
        cluster.command("shim", str(tmp_path / "shim"))
        return cluster.start(["spark-submit", *words], {"PATH": f"{tmp_path / 'shim'}:{python.parent}:{os.environ['PATH']}"})

    return start


def is_driver(process: int) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in psutil.Process(process).cmdline()


def test_a_deadline_given_to_spark_submit_is_kept(process_cluster: LocalCluster, spark_submit: Start, python: Path) -> None:
    name = f"shim-{python.parent.parent.name}"
    plain = ("--master", process_cluster.master_url, "--name", name, *STAGES)
    assert spark_submit(process_cluster, plain).finish().ok().answer["ok"]
    deadline = f"{deadline_for(process_cluster.summary(name)['end_s']):.0f}s"
    job = spark_submit(process_cluster, ("--deadline", deadline, "--priority", "high", "--name", name, *AIM, *STAGES))
    view = process_cluster.running(name, executors=1)
    assert (view.priority, view.deadline_s) == (100, float(deadline.removesuffix("s")))
    assert is_driver(job.process.pid)
    assert job.finish().ok().answer["ok"]
    assert_paced(process_cluster.summary(name), process_cluster.samples(view.application_id))


@ONE_SPARK
def test_a_job_without_an_option_of_ours_knows_nothing_of_us(process_cluster: LocalCluster, spark_submit: Start) -> None:
    before = len(process_cluster.client().applications())
    done = spark_submit(process_cluster, ("--master", "local[2]", "--name", "plain", *STAGES)).finish().ok()
    assert done.answer["ok"]
    assert "sparkpace:" not in done.err
    assert len(process_cluster.client().applications()) == before
