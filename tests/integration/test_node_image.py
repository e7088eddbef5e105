"""The node image for real: built from a wheel, an agent in a container starts for a job that could not run, and goes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from controller.master.providers import GROWN
from tests.integration.conftest import ROOT
from tests.integration.engine import containers_in
from tests.integration.local_cluster import eventually

pytestmark = [pytest.mark.spark, pytest.mark.docker, pytest.mark.slow]


def test_a_worker_in_a_container_is_started_for_a_job_and_given_back(
    docker_engine: Any, node_image: str, tmp_path: Path
) -> None:
    options = (
        *("--worker", "cores=0.5 memory=3g"),
        *("--provider", "docker", "--provider-image", node_image, "--grow-up-to", "cores=0.8 memory=3g resources=fpga=1"),
        *("--idle", "3s", "--provider-folder", str(ROOT)),
    )
    with containers_in(docker_engine, tmp_path, *options) as cluster:
        own = f"{GROWN}={cluster.cluster().cluster_id}"
        words = ("--num-executors", "1", "--conf", "spark.pace.placement.resources=fpga=1")
        assert cluster.run("--name", "grown", *words, "stages.py").ok().answer["ok"]
        assert cluster.summary("grown")["workers"] == ["grown-1"]
        eventually(lambda: not docker_engine.api.containers(all=True, filters={"label": own}), "the worker's end")
        # a second one, which `down` has to give back
        job = cluster.submit("--name", "again", *words, "rounds.py", str(tmp_path / "stop"))
        cluster.running("again", executors=1)
        assert len(docker_engine.api.containers(filters={"label": own})) == 1
        job.kill()
    assert docker_engine.api.containers(all=True, filters={"label": own}) == []
