"""Drivers that a worker hosts, on a real Spark: a killed submitter loses no job, and a killed driver comes back."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from controller.wire.hosting import DriverState
from tests.integration.local_cluster import SUBMIT, LocalCluster, eventually

pytestmark = pytest.mark.spark


def driver_jvms(cluster: LocalCluster) -> list[psutil.Process]:
    """Return the JVMs of drivers that the cluster's worker hosts: they name its home."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = process.info["cmdline"] or []
        if SUBMIT in line and str(cluster.home.path) in " ".join(line) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


def status(cluster: LocalCluster, driver_id: str) -> str:
    said = json.loads(cluster.command("submit", "--status", driver_id).stdout)
    return str(said["driverState"])


def test_neither_a_killed_submitter_nor_a_killed_driver_loses_the_job(process_cluster: LocalCluster, stop_file: Path) -> None:
    job = process_cluster.submit("--deploy-mode", "cluster", "--supervise", "--name", "hosted", "rounds.py", str(stop_file))
    view = process_cluster.running("hosted", executors=1)
    driver = process_cluster.client().hosted_drivers()[-1]
    assert f"submission {driver.driver_id}" in job.out.read_text()
    assert (driver.state, driver.submission) == (DriverState.RUNNING, view.submission)
    job.process.send_signal(signal.SIGKILL)
    job.process.wait()
    assert status(process_cluster, driver.driver_id) == "RUNNING"

    (jvm,) = driver_jvms(process_cluster)
    jvm.kill()
    eventually(lambda: process_cluster.client().hosted_driver(driver.driver_id).attempt == 2, "a second start of the driver")
    eventually(lambda: [one.state for one in process_cluster.views("hosted")] == ["ended", "running"], "its application")
    stop_file.touch()
    eventually(lambda: status(process_cluster, driver.driver_id) == "FINISHED", "the end of the driver")
    logs = process_cluster.command("logs", "hosted").stdout
    answer = json.loads(next(line for line in logs.splitlines() if line.startswith('{"ok"')))
    assert answer["ok"]


def test_a_killed_driver_ends_with_its_executors_and_stays_ended(process_cluster: LocalCluster, stop_file: Path) -> None:
    words = ("--deploy-mode", "cluster", "--supervise", "--detach", "--name", "killed", "rounds.py", str(stop_file))
    driver_id = process_cluster.command("submit", *words).stdout.split()[1]
    process_cluster.running("killed", executors=1)
    process_cluster.command("submit", "--kill", driver_id)
    eventually(lambda: status(process_cluster, driver_id) == "KILLED", "the end of the driver")
    eventually(lambda: not driver_jvms(process_cluster), "the end of its JVM")
    eventually(lambda: [view.outcome for view in process_cluster.views("killed")] == ["killed"], "the outcome of its job")
