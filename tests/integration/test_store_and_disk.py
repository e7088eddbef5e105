"""Real jobs while the home's disk is full, and when the master's database is lost: they go on, controlled, and recorded."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.small_disk import SmallDisk, mounted
from tests.integration.local_cluster import LocalCluster, cluster_in, eventually
from tests.integration.test_process_runtime import executors_of

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def home_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with mounted(tmp_path / "home", "64m") as disk:
        yield disk


@pytest.fixture
def on_small_disk(tmp_path: Path, home_disk: SmallDisk) -> Iterator[LocalCluster]:
    """Provide a worker of two cores, executors as processes; only its home is on the small disk."""
    home_disk.path.chmod(0o700)
    with cluster_in(tmp_path, "process", "--workers", "1") as cluster:
        yield cluster


def stages_done(cluster: LocalCluster, application_id: str) -> int:
    return cluster.client().application(application_id).stages_done


def test_a_full_disk_under_the_home(on_small_disk: LocalCluster, home_disk: SmallDisk, stop_file: Path) -> None:
    cluster = on_small_disk
    job = cluster.submit("--name", "full", "--executor-cores", "1", "--deadline", "1h", "burning.py", str(stop_file))
    doomed = cluster.submit("--name", "doomed", "--executor-cores", "1", "burning.py", str(stop_file))
    application_id = cluster.running("full", executors=1).application_id
    killed_id = cluster.running("doomed", executors=1).application_id
    executors = set(executors_of(application_id))
    with home_disk.kept_full():
        # the driver's reports are taken in, and executors are paced by them
        before = stages_done(cluster, application_id)
        eventually(lambda: stages_done(cluster, application_id) >= before + 3, "three more stages on a full disk")
        # so does an agent whose child has to be started again
        child = cluster.agent_child("w1").pid
        os.kill(child, signal.SIGKILL)
        eventually(lambda: cluster.agent_child("w1").pid != child, "the agent's next child")
        again = stages_done(cluster, application_id)
        eventually(lambda: stages_done(cluster, application_id) >= again + 3, "three more stages with the next child")
        # new promises are refused in one sentence, a kill works
        refused = cluster.command("set", application_id, "--deadline", "2h", check=69)
        assert "database or disk is full" in refused.stderr
        driver = doomed.driver()
        cluster.command("kill", killed_id, check=None)  # the command waits for the end for 15 s at most
        eventually(lambda: not driver.is_running(), "the end of the killed application's driver")
        eventually(lambda: not executors_of(killed_id), "the end of its executors")
        new = cluster.submit("--name", "new", "burning.py", str(stop_file)).finish()
        assert new.code == 1
        assert "so nothing new can be promised" in new.out + new.err or "so no run can be recorded" in new.out + new.err
        assert {view.name for view in cluster.client().applications()} == {"full", "doomed"}
        assert set(executors_of(application_id)) == executors

    # `submit` has tried all the time to report the driver's end
    assert doomed.finish().code != 0
    assert cluster.summary("doomed")["end_reason"] == "it was killed"
    cluster.command("set", application_id, "--deadline", "2h")
    # nothing that was reported meanwhile is lost with the master
    reported = stages_done(cluster, application_id)
    eventually(lambda: "can be written again" in cluster.log("master"), "the store's recovery")
    eventually(lambda: stages_done(cluster, application_id) > reported, "news of the driver")
    cluster.kill_master()
    cluster.restore()
    cluster.await_workers()
    assert cluster.running("full", executors=1).application_id == application_id
    assert set(executors_of(application_id)) == executors
    stop_file.touch()
    answer = job.finish().ok().answer
    summary = cluster.summary("full")
    assert (summary["tasks"], summary["events_missing"], summary["faults"]) == (answer["tasks"], 0, 0)
    assert (summary["executors"], summary["executors_lost"], summary["taught"]) == (1, 0, True)
    assert summary["deadline_s"] == 7200
    _, traceback, trace = cluster.log("master").partition("Traceback")
    assert not traceback, trace[:3000]


def test_a_database_that_is_removed_while_the_master_runs(process_cluster: LocalCluster, stop_file: Path) -> None:
    cluster = process_cluster
    job = cluster.submit("--name", "stays", "--executor-cores", "1", "burning.py", str(stop_file))
    gone = cluster.submit("--name", "goes", "--executor-cores", "1", "burning.py", str(stop_file))
    application_id = cluster.running("stays", executors=1).application_id
    gone_id = cluster.running("goes", executors=1).application_id
    executors = set(executors_of(application_id))
    eventually(lambda: stages_done(cluster, application_id), "a stage")
    cluster_id = cluster.client().health().cluster_id

    # control goes on, and nothing new is promised
    for path in cluster.home.path.glob("master.db*"):
        path.unlink()
    eventually(lambda: "was removed or replaced" in cluster.log("master"), "the master's notice of it")
    assert "was removed or replaced" in cluster.command("set", application_id, "--deadline", "2h", check=69).stderr
    before = stages_done(cluster, application_id)
    eventually(lambda: stages_done(cluster, application_id) >= before + 3, "three more stages without a database")

    # the next master begins a new one; one of the drivers is gone by then
    cluster.kill_master()
    gone.driver().kill()
    cluster.restore()
    cluster.await_workers()
    eventually(lambda: not executors_of(gone_id), "the end of the executors of a driver that has gone")
    assert cluster.running("stays", executors=1).application_id == application_id
    assert set(executors_of(application_id)) == executors
    assert not [view for view in cluster.client().applications() if view.application_id == gone_id]
    assert cluster.client().health().cluster_id == cluster_id
    assert "this agent belongs to" not in cluster.log("agent-w1")
    stop_file.touch()
    answer = job.finish().ok().answer
    summary = cluster.summary("stays")
    assert (summary["executors"], summary["executors_lost"], summary["taught"]) == (1, 0, False)
    # its record says that there was more
    assert 0 < summary["tasks"] < answer["tasks"]
    assert summary["events_missing"] > 0
