"""Class archives on real JVMs: executors and drivers map theirs and say nothing of it, and a damaged one harms no job."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from controller.agent.site import archive_root
from controller.home import Home
from controller.machine.files import cache_root
from controller.runtime.engines import find_java
from controller.submit.bridge_jar import bridge_jar
from controller.submit.driver_archive import make_archive
from controller.submit.spark_install import find_spark
from tests.integration.conftest import STAGES
from tests.integration.engine import Container, Engine
from tests.integration.local_cluster import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.docker]


def archives() -> list[Path]:
    return sorted(archive_root().glob("*/*.jsa"))


def mapped(engine: Engine, container: Container) -> str:
    """Return the files that the container's processes map."""
    found = engine.inspect(container)
    assert found is not None
    first = psutil.Process(found["State"]["Pid"])
    return "".join(Path(f"/proc/{p.pid}/maps").read_text() for p in (first, *first.children(recursive=True)))


def test_executors_map_the_one_that_up_has_made(cluster: LocalCluster, engine: Engine, stop_file: Path) -> None:
    made = archives()
    job = cluster.submit("--name", "archived", "rounds.py", str(stop_file))
    view = cluster.running("archived")
    containers = engine.containers(view.application_id, ended=False)
    assert len(containers) == 2
    [archive] = [archive for archive in made if str(archive) in mapped(engine, containers[0])]
    assert str(archive) in mapped(engine, containers[1])
    stop_file.touch()
    job.finish().ok()
    for stdout in (cluster.home.runs / view.application_id / "executors").glob("*/stdout"):
        assert "warning" not in stdout.read_text()


def test_a_driver_maps_its_own_and_says_nothing_of_it(
    cluster: LocalCluster, stop_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`up` has made none for the clusters of these tests: there are files in their conf directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # other tests' drivers may have archives in the shared one
    place = {"SPARK_CONF_DIR": str(tmp_path / "none")}
    environment = {**os.environ, **place}
    spark = find_spark(environment)
    make_archive(environment, find_java(environment).home, spark, bridge_jar())
    [archive] = cache_root().glob("driver-archives/*.jsa")
    job = cluster.start(cluster.sparkpace().command(("submit", "--name", "fast", "rounds.py", str(stop_file))), place)
    cluster.running("fast")
    assert str(archive) in Path(f"/proc/{job.driver().pid}/maps").read_text()
    stop_file.touch()
    assert "[cds" not in job.finish().ok().err


@pytest.fixture
def copied(cluster: LocalCluster, tmp_path: Path) -> Iterator[LocalCluster]:
    """Start a cluster with copies of the archives, because others use the archives, too."""
    copies = tmp_path / "cache"
    unfinished = shutil.ignore_patterns(".new-*")
    shutil.copytree(archive_root(), copies / archive_root().relative_to(os.environ["XDG_CACHE_HOME"]), ignore=unfinished)
    (tmp_path / "shown").mkdir()
    own = LocalCluster(Home(tmp_path / "home"), "docker")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(copies))
        own.up("--workers", "2")
        try:
            yield own
        finally:
            own.down()


@pytest.mark.slow
def test_a_damaged_one_harms_no_job_and_is_made_anew(copied: LocalCluster) -> None:
    assert archives()
    for archive in archives():
        archive.chmod(0o600)
        with archive.open("r+b") as file:
            # a JVM looks at the header alone and would crash on this
            file.seek(archive.stat().st_size // 2)
            file.write(bytes(1 << 20))
    assert copied.run("--name", "archived-damaged", *STAGES).ok().answer["ok"]
    summary = copied.summary("archived-damaged")
    assert (summary["tasks_failed"], summary["executors_lost"]) == (0, 0)
    assert "was damaged" in copied.log("agent-w1") + copied.log("agent-w2")
    assert archives()
