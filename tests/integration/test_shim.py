"""The `spark-submit` of `sparkpace shim` before a real one: jobs are paced as by `sparkpace submit`, and it is the driver. A
paced job of the installed Spark is in `test_airflow`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import STAGES
from tests.integration.local_cluster import Job, LocalCluster
from tests.integration.pacing import AIM, assert_paced, deadline_for

pytestmark = [pytest.mark.slow, pytest.mark.spark]

Start = Callable[[Path, Sequence[str]], Job]


@pytest.fixture
def spark_submit(process_cluster: LocalCluster, tmp_path: Path) -> Start:
    """Provide a function that starts `spark-submit` with these words, for a user who has Sparkpace's before that of a Python
    on PATH."""
    process_cluster.command("shim", str(tmp_path / "shim"))

    def start(python: Path, words: Sequence[str]) -> Job:
        path = f"{tmp_path / 'shim'}:{python.parent}:{os.environ['PATH']}"
        return process_cluster.start(["spark-submit", *words], {"PATH": path})

    return start


def test_a_deadline_given_to_spark_submit_is_kept(
    process_cluster: LocalCluster, spark_submit: Start, spark35_python: Path, stop_file: Path
) -> None:
    job = (*STAGES, "--hold", str(stop_file))
    stop_file.touch()
    plain = ("--master", process_cluster.master_url, "--name", "shim", *job)
    assert spark_submit(spark35_python, plain).finish().ok().answer["ok"]
    first = process_cluster.summary("shim")
    assert first["spark_version"].startswith("3.5.")
    deadline = f"{deadline_for(first['end_s']):.0f}s"
    stop_file.unlink()  # the job cannot end before the file is there again
    paced = spark_submit(spark35_python, ("--deadline", deadline, "--priority", "high", "--name", "shim", *AIM, *job))
    view = process_cluster.running("shim", executors=1)
    assert (view.priority, view.deadline_s) == (100, float(deadline.removesuffix("s")))
    assert "org.apache.spark.deploy.SparkSubmit" in psutil.Process(paced.process.pid).cmdline()
    stop_file.touch()
    assert paced.finish().ok().answer["ok"]
    assert_paced(process_cluster.summary("shim"), process_cluster.samples(view.application_id))


def test_a_job_without_an_option_of_sparkpace_runs_without_it(process_cluster: LocalCluster, spark_submit: Start) -> None:
    before = len(process_cluster.client().applications())
    words = ("--master", "local[2]", "--name", "plain", "stages.py", "--work", "1", "--tasks", "2", "--rounds", "1")
    done = spark_submit(Path(sys.executable), words).finish().ok()
    assert done.answer["ok"]
    assert "sparkpace:" not in done.err
    assert len(process_cluster.client().applications()) == before
