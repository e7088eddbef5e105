"""The node image for real: built from a wheel, an agent in a container starts for a job that could not run, and goes back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.home import Home
from controller.master.providers import GROWN
from controller.runtime.image import choose_base
from tests.integration.engine import Engine
from tests.integration.local_cluster import LocalCluster, eventually

pytestmark = [pytest.mark.spark, pytest.mark.docker, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "sparkpace-node:of-the-tests"


@pytest.fixture(scope="module")
def image(docker_engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    dist = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--wheel-dir", str(dist), str(ROOT)], check=True)
    (dist / "Dockerfile").write_bytes((ROOT / "dockerfiles" / "node" / "Dockerfile").read_bytes())
    base = choose_base(docker_engine.api, None)
    arguments = {"PIP_OPTIONS": "--no-index", **({"BASE_IMAGE": base} if base else {})}
    docker_engine.images.build(path=str(dist), tag=IMAGE, buildargs=arguments, network_mode="host", rm=True)
    yield IMAGE
    docker_engine.images.remove(IMAGE, force=True)


def test_a_worker_in_a_container_is_started_for_a_job_and_given_back(docker_engine: Any, image: str, tmp_path: Path) -> None:
    (tmp_path / "shown").mkdir()
    cluster = LocalCluster(Home(tmp_path / "home"), "docker")
    try:
        cluster.up(
            *("--worker", "cores=0.5 memory=3g"),
            *("--provider", "docker", "--provider-image", image, "--grow-up-to", "cores=0.8 memory=3g resources=fpga=1"),
            *("--idle", "3s", "--provider-folder", str(ROOT)),
        )
        engine = Engine(docker_engine, cluster.cluster().cluster_id)
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
    finally:
        cluster.down()
    assert docker_engine.api.containers(all=True, filters={"label": own}) == []
    assert engine.containers() == []
    eventually(lambda: not cluster.left(), "the end of the cluster's processes")
