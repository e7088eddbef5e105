"""A program outside of Sparkpace takes the machine's memory: the job of low priority makes room, the important one is not
touched and is on time, and afterwards the low one has its cores again.

The cluster is the test's own, because the limit is given when it starts. The test takes a few gigabytes at most, however many
there are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.integration.local_cluster import APPS, PATIENCE_S, LocalCluster, cluster_in, eventually
from tests.integration.pacing import AIM, assert_late_only_with_all

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(1800)]

ROOM_MB = 4096
"""Memory above the limit when the cluster starts: drivers and executors of two jobs take about half of it."""
BELOW_MB = 200
SAID = "squeezed: this machine has"


def test_only_the_job_of_low_priority_makes_room_for_a_program_that_eats_memory(tmp_path: Path) -> None:
    least_mb = (psutil.virtual_memory().available >> 20) - ROOM_MB
    if least_mb < 1024:
        pytest.skip("this machine has too little free memory to take some of it away")
    begin, hold = tmp_path / "begin", tmp_path / "hold"
    files = ("--begin", str(begin), "--hold", str(hold))
    important = ("--name", "important", "stages.py", "--work", "4", "--tasks", "6", *files)
    with cluster_in(tmp_path, "process", "--workers", "1", "--least-free-memory", f"{least_mb}m") as cluster:
        for file in (begin, hold):
            file.touch()
        assert cluster.run(*important).ok().answer["ok"]  # it teaches
        for file in (begin, hold):
            file.unlink()
        low = cluster.submit("--name", "low", "--priority", "low", "sleeping.py")
        high = cluster.submit("--priority", "high", "--deadline", "3min", *AIM, *important)
        low_id = cluster.running("low", executors=1).application_id
        high_id = cluster.running("important", executors=1).application_id

        def low_cores() -> float:
            return cluster.client().application(low_id).granted_cores

        # the important one waits for its file, so all cores but its floor are left
        eventually(lambda: low_cores() > 0.5, "the cores that the important job leaves")
        eater = subprocess.Popen(
            [sys.executable, str(APPS / "eat.py"), str(least_mb - BELOW_MB), str(2 * ROOM_MB)], stdin=subprocess.PIPE
        )
        cluster.by_hand.append(eater)
        eventually(lambda: low_cores() == pytest.approx(0.1), "a squeeze to the floor")
        eventually(lambda: SAID in quotas(cluster, low_id), "the reason for the squeeze")
        begin.touch()
        eventually(lambda: cluster.client().application(high_id).stages_done, "work of the important job")

        eater.communicate(timeout=PATIENCE_S)
        eventually(lambda: low_cores() > 0.5, "the cores of the low one")
        assert low.process.poll() is None, "it was not ended"
        hold.touch()
        assert high.finish().ok().answer["ok"]
        summary = cluster.summary("important")
        assert_late_only_with_all(summary["violated"], cluster.samples(high_id))
        assert (summary["tasks_failed"], summary["executors_lost"]) == (0, 0)
        assert SAID not in quotas(cluster, high_id)
        assert "worker w1: under pressure: this machine has" in cluster.log("master")
        low.kill()


def quotas(cluster: LocalCluster, application_id: str) -> str:
    """Return all quotas that were ordered for the application, with their reasons."""
    file = cluster.home.runs / application_id / "quotas.csv"
    return file.read_text() if file.exists() else ""
