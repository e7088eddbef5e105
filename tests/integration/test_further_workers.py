"""A deadline that the present worker cannot keep starts a second one, on real Spark and Docker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stage_model.errors import InfeasibleDeadline
from tests.integration.local_cluster import LocalCluster, eventually
from tests.integration.pacing import AIM, assert_late_only_with_all
from tests.integration.program_provider import grown_by_a_program

pytestmark = [pytest.mark.spark, pytest.mark.docker, pytest.mark.slow]

JOB = ("stages.py", "--work", "1400", "--tasks", "12", "--rounds", "1")
"""A job that takes long on half a core: a second worker must be there long before its end."""


@pytest.fixture
def small(docker_engine: Any, tmp_path: Path) -> Iterator[LocalCluster]:
    """Provide a worker of half a core; another one may be started by a program."""
    worker = ("--worker", "cores=0.5 memory=3g host=127.0.0.2 id=a")
    with grown_by_a_program(
        tmp_path, docker_engine, *worker, "--grow-up-to", "cores=1 memory=3g resources=fpga=1"
    ) as cluster:
        yield cluster


def test_a_deadline_that_needs_more_cores_starts_a_worker(small: LocalCluster) -> None:
    # how long a worker takes to start here is measured with a first one, which goes back
    fpga = ("--num-executors", "1", "--conf", "spark.pace.placement.resources=fpga=1")
    assert small.run("--name", "first", *fpga, "stages.py").ok().answer["ok"]
    [first] = small.summary("first")["workers"]
    eventually(lambda: first not in {w.worker_id for w in small.client().workers()}, "the first worker's removal")
    assert small.run("--name", "grown", *JOB).ok().answer["ok"]
    alone = small.summary("grown")
    assert alone["workers"] == ["a"]
    deadline = ("--name", "grown", "--deadline", f"{0.85 * alone['end_s']:.1f}s")
    refused = small.run(*deadline, "--num-executors", "1", *JOB)
    assert refused.code == InfeasibleDeadline.exit_code
    assert "its settings allow no executor on more workers" in refused.err
    planned = small.command("submit", "--dry-run", *deadline, *JOB)
    assert "can be met with 1 further worker (1 cores" in planned.stdout + planned.stderr
    assert small.run(*deadline, *AIM, *JOB).ok().answer["ok"]
    summary = small.summary("grown")
    assert "its deadline needs 1 further worker" in small.log("master")
    [second] = [worker for worker in summary["workers"] if worker != "a"]
    assert second.startswith("grown-")
    assert_late_only_with_all(summary["violated"], small.samples(summary["app_id"]))
