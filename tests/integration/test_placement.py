"""Placement on real Spark and Docker: labels, pieces, order, eviction and hosts of the input."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments.workloads.hosted import make_jar
from tests.integration.engine import containers_in
from tests.integration.local_cluster import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.docker, pytest.mark.slow]

WORKERS = (
    *("--worker", "cores=0.8 memory=5g labels=zone=a,disk=ssd host=127.0.0.2 id=a"),
    *("--worker", "cores=0.6 memory=5g labels=zone=b host=127.0.0.3 resources=gpu=2 id=b"),
)


@pytest.fixture(scope="module")
def unlike(docker_engine: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Provide two unlike workers with addresses of their own, on the host's network, where Spark knows executors by them."""
    folder = tmp_path_factory.mktemp("placement")
    topology = folder / "topology"
    topology.write_text("127.0.0.2 rack=r1\n127.0.0.3 rack=r2\n")
    with containers_in(docker_engine, folder, *WORKERS, "--network", "host", "--topology", str(topology)) as cluster:
        yield cluster


def where(cluster: LocalCluster, name: str) -> dict[str, list[str]]:
    """Return the workers of the executors of the newest application of that name, as `explain` says."""
    found = json.loads(cluster.command("explain", name, "--output", "json").stdout)
    return {worker["worker_id"]: worker["executors"] for worker in found["workers"] if worker["executors"]}


def conf(**settings: str) -> list[str]:
    """Return words of settings; `_` stands for "."."""
    return [w for key, value in settings.items() for w in ("--conf", f"spark.pace.{key.replace('_', '.')}={value}")]


def test_labels_restrict_and_a_change_counts_at_once(unlike: LocalCluster, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    job = unlike.submit("--name", "labelled", *conf(placement_labels="zone=b"), "rounds.py", str(stop))
    unlike.running("labelled", executors=1)
    assert list(where(unlike, "labelled")) == ["b"]
    said = unlike.command("explain", "labelled").stdout
    assert re.search("labels: .*zone=b", said)
    assert unlike.command("label", "a", "zone=b", "disk-").stdout == "Worker a: zone=b.\n"
    try:
        unlike.running("labelled", executors=2)
        assert sorted(where(unlike, "labelled")) == ["a", "b"]
    finally:
        unlike.command("label", "a", "zone=a", "disk=ssd")
    stop.touch()
    assert job.finish().ok().answer["ok"]


def test_executors_see_their_pieces(unlike: LocalCluster) -> None:
    spark = ("--conf", "spark.executor.resource.gpu.amount=2", "--conf", "spark.task.resource.gpu.amount=2")
    answer = unlike.run("--name", "pieces", *spark, "pieces.py").ok().answer
    assert answer == {"ok": True, "addresses": ["0", "1"], "visible": "0,1"}
    assert unlike.summary("pieces")["workers"] == ["b"]
    shared = unlike.run("--name", "shared", *conf(placement_resources="gpu=0.5"), "pieces.py").ok().answer
    assert shared == {"ok": True, "addresses": [], "visible": "0"}
    refused = unlike.run("--name", "much", *conf(placement_resources="gpu=3"), "pieces.py")
    assert refused.code != 0
    assert "gpu=3" in refused.err
    assert "Traceback" not in refused.err.split("sparkpace:")[-1]


def test_evicted_executors_come_back_and_their_job_is_right(unlike: LocalCluster, tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    large = ("--executor-memory", "3g")
    low = unlike.submit("--name", "evicted", "--priority", "low", *large, "rounds.py", str(stop))
    before = unlike.running("evicted")
    high = unlike.run("--name", "evicting", "--priority", "high", "--evict", "--num-executors", "1", *large, "stages.py").ok()
    assert high.answer["ok"]
    unlike.running("evicted")
    stop.touch()
    assert low.finish().ok().answer["ok"]
    summary = unlike.summary("evicted")
    [record] = summary["evicted"]
    assert record["for"] == unlike.views("evicting")[-1].application_id
    assert (summary["executors_lost"], summary["app_id"]) == (0, before.application_id)


def test_the_hosts_of_the_input_are_asked_of_hadoop(unlike: LocalCluster, tmp_path: Path) -> None:
    jar = tmp_path / "hosted.jar"
    make_jar(jar)
    lines = unlike.home.path.parent / "shown" / "127.0.0.3" / "lines.txt"
    lines.parent.mkdir()
    lines.write_text("a line\n" * 5000)
    hadoop = (
        *("--jars", str(jar), "--driver-class-path", str(jar), "--mount", str(lines.parent)),
        *("--conf", "spark.hadoop.fs.hosted.impl=HostedFileSystem"),
        *("--num-executors", "1", *conf(placement_input=f"hosted://{lines}")),
    )
    nowhere = unlike.submit(
        "--name", "nowhere", *hadoop[:-1], f"spark.pace.placement.input={lines}.not", "lines.py", "x", "1", "1"
    )
    assert unlike.run("--name", "hosted", *hadoop, "lines.py", f"hosted://{lines}", "5000", "1").ok().answer["ok"]
    # the larger worker is the other one
    assert unlike.summary("hosted")["workers"] == ["b"]
    wrong = nowhere.finish()
    assert wrong.code != 0
    assert "spark.pace.placement.input" in wrong.err
    # an executor on each worker: how long tasks wait for the one near the data. The forecast, of tasks of a second that are
    # known by now, is 60 * 1 * 1 / 1 where moving the input takes a minute, and 0.1 where it takes 100 ms.
    both = (*hadoop[:-4], "--num-executors", "2", *conf(placement_input=f"hosted://{lines}"))

    def near(**settings: str) -> dict[str, int]:
        app = ("lines.py", f"hosted://{lines}", "5000", "2")
        found: dict[str, int] = unlike.run("--name", "stages", *both, *conf(**settings), *app).ok().answer["near"]
        return found

    assert near(locality_wait="60s") == {"NODE_LOCAL": 6}
    assert near(locality_move="60s") == {"NODE_LOCAL": 6}
    assert near(locality_move="100ms")["ANY"] > 0
