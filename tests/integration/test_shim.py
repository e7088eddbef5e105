"""The `spark-submit` of `sparkpace shim` before a real one: jobs are paced as by `sparkpace submit`, and it is the driver."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest

from tests.integration.conftest import ONE_SPARK, STAGES
from tests.integration.local_cluster import Job, LocalCluster, adopted_groups, eventually
from tests.integration.pacing import AIM, assert_paced, deadline_for
from tests.integration.test_attach import JOB, SPARKS
from tests.integration.test_process_runtime import executors_of

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


def group_of(leader: int) -> list[str]:
    """Return the command lines of the living processes in the group of `leader`."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        try:
            group = os.getpgid(process.info["pid"])
        except ProcessLookupError:
            continue
        if group == leader and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(" ".join(process.info["cmdline"] or []))
    return found


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
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_who_ends_spark_submit_ends_the_driver(
    process_cluster: LocalCluster, spark_submit: Start, python: Path, number: signal.Signals, stop_file: Path
) -> None:
    name = f"shim-{number.name}-{python.parent.parent.name}"
    job = spark_submit(process_cluster, ("--deadline", "1h", "--name", name, "rounds.py", str(stop_file)))
    view = process_cluster.running(name, executors=1)
    job.process.send_signal(number)
    assert job.process.wait(timeout=300) in {-number, 128 + number}
    eventually(lambda: not group_of(job.process.pid), "the end of the driver's processes")
    eventually(lambda: not executors_of(view.application_id), "the end of its executors")
    outcome = process_cluster.summary(name)["outcome"]
    assert outcome == ("driver_died" if number is signal.SIGKILL else "killed")


@ONE_SPARK
def test_a_job_of_another_cluster_manager_is_attached(adopting: LocalCluster, spark_submit: Start, python: Path) -> None:
    name = f"shim-attached-{python.parent.parent.name}"
    theirs = ("--master", SPARKS, "--name", name)
    assert spark_submit(adopting, (*theirs, "--priority", "high", *JOB)).finish().ok().answer["ok"]
    taught = adopting.summary(name)
    assert taught["executors"] == 2
    deadline = f"{deadline_for(taught['end_s']):.0f}s"
    assert spark_submit(adopting, (*theirs, "--deadline", deadline, *AIM, *JOB)).finish().ok().answer["ok"]
    summary = adopting.summary(name)
    assert_paced(summary, adopting.samples(summary["app_id"]))
    eventually(lambda: adopted_groups(adopting) == [], "the end of the executors' groups")


@ONE_SPARK
def test_a_job_without_an_option_of_ours_knows_nothing_of_us(
    adopting: LocalCluster, spark_submit: Start, python: Path
) -> None:
    before = len(adopting.client().applications())
    done = spark_submit(adopting, ("--master", "local[2]", "--name", "plain", *STAGES)).finish().ok()
    assert done.answer["ok"]
    assert "sparkpace:" not in done.err
    assert len(adopting.client().applications()) == before
