"""Class archives of drivers and executors on real JVMs: they map theirs and print nothing about it, and a damaged one harms
no job."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.agent.executors.class_archive import archive_root
from controller.machine.files import cache_root
from tests.integration.engine import Container, Engine, containers_in
from tests.integration.local_cluster import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.docker]


def archives() -> list[Path]:
    return sorted(archive_root().glob("*/*.jsa"))


def mapped(engine: Engine, container: Container) -> str:
    """Return the files that the container's processes map."""
    found = engine.inspect(container)
    assert found is not None
    first, maps = psutil.Process(found["State"]["Pid"]), ""
    for process in (first, *first.children(recursive=True)):
        with suppress(OSError):  # a Python worker may have ended by now
            maps += Path(f"/proc/{process.pid}/maps").read_text()
    return maps


def test_driver_and_executors_map_archives_that_up_has_made(cluster: LocalCluster, engine: Engine, stop_file: Path) -> None:
    made = archives()
    job = cluster.submit("--name", "archived", "rounds.py", str(stop_file))
    view = cluster.running("archived")
    maps = Path(f"/proc/{job.driver().pid}/maps").read_text()
    assert sum(str(archive) in maps for archive in cache_root().glob("driver-archives/*.jsa")) == 1
    containers = engine.containers(view.application_id, ended=False)
    assert len(containers) == 2
    [archive] = [archive for archive in made if str(archive) in mapped(engine, containers[0])]
    assert str(archive) in mapped(engine, containers[1])
    stop_file.touch()
    assert "[cds" not in job.finish().ok().err, "the driver prints nothing about it"
    for stdout in (cluster.home.runs / view.application_id / "executors").glob("*/stdout"):
        assert "warning" not in stdout.read_text()


@pytest.fixture
def copied(cluster: LocalCluster, docker_engine: Any, tmp_path: Path) -> Iterator[LocalCluster]:
    """Start a cluster with copies of the archives of executors, because others use the archives, too."""
    copies = tmp_path / "cache" / "sparkpace"
    copies.mkdir(parents=True)
    (copies / "driver-archives").symlink_to(cache_root() / "driver-archives")
    shutil.copytree(archive_root(), copies / archive_root().name, ignore=shutil.ignore_patterns(".new-*"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(copies.parent))
        with containers_in(docker_engine, tmp_path, "--workers", "1") as own:
            yield own


@pytest.mark.slow
def test_a_damaged_archive_harms_no_job_and_is_made_again(copied: LocalCluster, stop_file: Path) -> None:
    assert archives()
    for archive in archives():
        archive.chmod(0o600)
        with archive.open("r+b") as file:
            # a JVM looks only at the header and would crash on this
            file.seek(archive.stat().st_size // 2)
            file.write(bytes(1 << 20))
    stop_file.touch()
    assert copied.run("--name", "archived-damaged", "rounds.py", str(stop_file)).ok().answer["ok"]
    summary = copied.summary("archived-damaged")
    assert (summary["tasks_failed"], summary["executors_lost"]) == (0, 0)
    assert "was damaged" in copied.log("agent-w1")
    assert archives()
