"""A real job that fills what it can: its output, its local directory; its limits, and the messages about them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from controller.home import Home
from controller.runtime.launching import LOG_FILE_BYTES
from tests.integration.engine import Engine
from tests.integration.local_cluster import APPS, LocalCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.timeout(900)]


@pytest.fixture
def cluster(docker_engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    place = tmp_path_factory.mktemp("limits")
    (place / "shown").mkdir()
    made = LocalCluster(Home(place / "home"), "docker")
    try:
        made.up("--workers", "1", "--local-limit", "150m", "--tmp-limit", "70m")
        engine = Engine(docker_engine, made.cluster().cluster_id)
        yield made
    finally:
        made.down()
    assert engine.containers() == []
    eventually(lambda: not made.left(), "the end of the cluster's processes")


def test_a_job_that_fills_output_and_disk_is_bounded_and_ends_with_the_reason(cluster: LocalCluster) -> None:
    job = cluster.submit("--conf", "spark.task.maxFailures=1", str(APPS / "hoard.py"), "300")
    done = job.finish()
    assert done.answer == {"written": [], "tmp_mb": 70, "core": [0, 0]}
    assert done.code != 0
    assert re.search(r"keeps more than 150 MiB of files .*--local-limit 150m", done.err), done.err[-6000:]
    folders = list(cluster.home.runs.glob("*/executors/1"))
    [sizes] = [{path.name: path.stat().st_size for path in folder.iterdir()} for folder in folders]
    # Spark hands what Python workers say to its own standard error
    assert sizes.keys() == {"stdout", "stderr", "stderr.1"}
    assert max(sizes["stdout"], sizes["stderr"]) <= sizes["stderr.1"] == LOG_FILE_BYTES
