"""Executors as plain processes, for machines without an engine: a deadline kept, and nothing left of a killed submission."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest

from controller.machine.process import find_process
from tests.integration.conftest import STAGES
from tests.integration.local_cluster import LocalCluster, eventually
from tests.integration.pacing import AIM, assert_paced, deadline_for

pytestmark = pytest.mark.spark


def executors_of(application_id: str) -> dict[int, list[str]]:
    """Return the command lines of an application's living executors by process number. What an executor is about to start has
    its command line for a moment."""
    found: dict[int, tuple[int, list[str]]] = {}
    for process in psutil.process_iter(["pid", "ppid", "cmdline", "status"]):
        line = process.info["cmdline"] or []
        if application_id in line and process.info["status"] != psutil.STATUS_ZOMBIE and "java" in line[0]:
            found[process.info["pid"]] = process.info["ppid"], line
    return {pid: line for pid, (parent, line) in found.items() if parent not in found}


def test_a_deadline_is_kept_and_executor_cores_cap_the_slots(process_cluster: LocalCluster, stop_file: Path) -> None:
    words = ("--executor-cores", "1", *STAGES, "--hold", str(stop_file))
    stop_file.touch()
    assert process_cluster.run("--name", "plain", *words).ok().answer["ok"]
    first = process_cluster.summary("plain")
    assert (first["runtime"], first["taught"], first["executors"]) == ("process", True, 1)
    assert first["peak_cores"] <= 1

    stop_file.unlink()  # the job cannot end before the file is there again
    deadline_s = round(deadline_for(first["end_s"]))
    job = process_cluster.submit("--name", "plain", "--deadline", f"{deadline_s}s", *AIM, *words)
    view = process_cluster.running("plain", executors=1)
    lines = [line for line in executors_of(view.application_id).values() if "--cores" in line]
    assert lines
    assert all(line[line.index("--cores") + 1] == "1" for line in lines)
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    summary = process_cluster.summary("plain")
    assert summary["peak_cores"] <= 1
    assert summary["used_core_s"] > 0
    samples = process_cluster.samples(view.application_id)
    assert_paced(summary, samples)
    assert any(sample.set_point is not None and sample.progress for sample in samples)
    assert all(0.1 <= sample.quota <= 2 for sample in samples if sample.quota)  # 0: its last one, of its exit
    eventually(lambda: not executors_of(view.application_id), "the end of the executors")


def test_a_program_that_sets_a_master_of_its_own_runs_and_its_terminal_says_so(
    process_cluster: LocalCluster,
) -> None:
    done = process_cluster.run("--name", "tutorial", "--deadline", "60s", "own_master.py").ok()
    assert done.answer == {"count": 1000, "master": "local[1]"}
    ours = [line for line in done.err.splitlines() if line.startswith("sparkpace: ")]
    assert [line.split(";")[0] for line in ours] == [
        "sparkpace: this application runs without Sparkpace: its master is local[1] and not Sparkpace's",
        "sparkpace: nothing was paced: the program made no SparkContext, or one with a master of its own",
    ]
    assert not process_cluster.views("tutorial")


@pytest.mark.slow
def test_who_kills_submit_ends_driver_and_executors(process_cluster: LocalCluster, stop_file: Path) -> None:
    job = process_cluster.submit("--name", "submit-dies", "rounds.py", str(stop_file))
    view = process_cluster.running("submit-dies", executors=1)
    driver = find_process(job.driver().pid)
    assert driver is not None
    job.process.kill()
    eventually(lambda: not driver.is_alive(), "the end of the driver")
    eventually(lambda: not executors_of(view.application_id), "the end of its executors")
    assert job.finish().code == -signal.SIGKILL
