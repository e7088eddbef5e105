"""Outcomes of applications on real Spark: the driver's end decides, whichever part sees it, and `--after APP:success`
follows."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local_cluster import LocalCluster, eventually

pytestmark = [pytest.mark.slow, pytest.mark.spark]

PYTHON = Path(sys.executable)


def outcome(summary: dict[str, Any]) -> tuple[str, str, bool]:
    return summary["outcome"], summary["end_reason"], summary["taught"]


def test_a_streaming_query_that_stops_amid_a_batch_teaches(process_cluster: LocalCluster, tmp_path: Path) -> None:
    done = process_cluster.run("--name", "stream", "ends.py", "stream", str(tmp_path)).ok()
    assert done.answer["ok"]
    summary = process_cluster.summary("stream")
    assert outcome(summary) == ("succeeded", "", True)
    profile = process_cluster.command("profile", "show", summary["profile"], "--output", "json").stdout
    assert "sleep" not in profile
    assert summary["tasks_failed"] == 0, "tasks of what was cancelled have not failed"


def test_a_driver_that_fails_after_its_last_job_teaches_nothing_and_no_one_comes_after_it(
    process_cluster: LocalCluster,
) -> None:
    after = process_cluster.submit("--name", "after", "--after", "fails:success", "ends.py", "well")
    eventually(lambda: process_cluster.views("after"), "the one that waits")
    assert process_cluster.run("--name", "fails", "ends.py", "fail").code == 3
    assert outcome(process_cluster.summary("fails")) == ("failed", "its driver ended with exit code 3", False)
    stopped = after.finish()
    assert (stopped.code, "which did not succeed" in stopped.err) == (1, True)


@pytest.mark.parametrize("stock", [False, True])
def test_a_signal_between_two_jobs_is_no_success(process_cluster: LocalCluster, tmp_path: Path, stock: bool) -> None:
    ready, name = tmp_path / "ready", "stock" if stock else "own"
    words = ("--name", name, "ends.py", "wait", str(ready))
    job = process_cluster.stock(PYTHON, *settings(process_cluster), *words) if stock else process_cluster.submit(*words)
    eventually(ready.exists, "the end of its job")
    job.process.send_signal(signal.SIGTERM)
    assert job.finish().code in (-signal.SIGTERM, 128 + signal.SIGTERM)
    by = "a signal" if stock else "SIGTERM"
    assert outcome(process_cluster.summary(name)) == ("killed", f"its driver was ended by {by}", False)


def test_a_master_that_is_away_at_the_end_learns_the_exit_code_when_it_is_back(
    process_cluster: LocalCluster, tmp_path: Path
) -> None:
    """The bridge gives up after 5 s, so the master has not all events: nothing is learned."""
    ready, end = tmp_path / "ready", tmp_path / "end"
    job = process_cluster.submit("--name", "away", "ends.py", "wait", str(ready), str(end))
    driver = job.driver()
    eventually(ready.exists, "the end of its job")
    eventually(lambda: process_cluster.views("away")[0].stages_done, "the job's events")
    process_cluster.kill_master()
    end.touch()
    driver.wait(120)
    assert job.process.poll() is None, "submit waits for the master"
    process_cluster.restore()
    job.finish().ok()
    assert outcome(process_cluster.summary("away")) == ("succeeded", "", False)


def test_the_bridge_sees_that_a_stock_driver_fails(process_cluster: LocalCluster, python: Path) -> None:
    """The SparkContext of a driver that fails ends before the driver does."""
    name = f"fail {python.parent.parent.name}"
    assert process_cluster.stock(python, *settings(process_cluster), "--name", name, "ends.py", "fail").finish().code == 3
    assert outcome(process_cluster.summary(name)) == ("failed", "its driver failed", False)


def settings(cluster: LocalCluster) -> tuple[str, ...]:
    return ("--properties-file", str(cluster.properties()))
