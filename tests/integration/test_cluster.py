"""The local cluster with real processes: `up` prepares drivers, hostile progress files do no harm.

Bad input, which needs no process, is in `tests/controller/cli`; what `down` ends is in `test_healing`.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller.machine.files import cache_root
from stage_model.progress import SCHEMA
from tests.integration.local_cluster import LocalCluster, eventually

pytestmark = pytest.mark.spark


def said(stderr: str, *parts: str) -> None:
    """Assert that stderr has one sentence of ours and no traceback."""
    lines = [line for line in stderr.splitlines() if line.startswith("sparkpace: ")]
    assert len(lines) == 1, stderr
    assert "Traceback" not in stderr
    for part in parts:
        assert part in lines[0]


def test_nothing_is_missing_where_all_live(process_cluster: LocalCluster) -> None:
    before = process_cluster.cluster()
    assert "nothing was missing" in process_cluster.restore()
    assert process_cluster.cluster() == before
    assert all(process.is_alive() for process in (before.master, *(agent.process for agent in before.agents)))


def test_a_driver_maps_the_archive_that_up_has_made(process_cluster: LocalCluster, stop_file: Path) -> None:
    job = process_cluster.submit("--name", "fast", "rounds.py", str(stop_file))
    process_cluster.running("fast", executors=1)
    mapped = Path(f"/proc/{job.driver().pid}/maps").read_text()
    assert sum(str(archive) in mapped for archive in cache_root().glob("driver-archives/*.jsa")) == 1
    stop_file.touch()
    assert "[cds" not in job.finish().ok().err, "the driver says nothing of it"


# ---------------------------------------------------------------- hostile progress files


def _link(file: Path) -> None:
    file.symlink_to("/etc/passwd")


def _negative(file: Path) -> None:
    stage = {"stage": 0, "attempt": 0, "running": 1, "done": -5, "failed": 0}
    counters = {"records_done": 0, "records_running": 0, "cpu_ns": 0}
    file.write_text(json.dumps({"schema": SCHEMA, "executor": "1", "sequence": 1, "stages": [{**stage, **counters}]}))


@contextlib.contextmanager
def kept(control: Path, make: Callable[[Path], None]) -> Iterator[None]:
    """Put the file back as often as the executor replaces it."""
    stop, target = threading.Event(), control / "progress.json"

    def write() -> None:
        spare = control / "hostile"
        while not stop.wait(0.005):
            spare.unlink(missing_ok=True)
            make(spare)
            spare.rename(target)
        target.unlink(missing_ok=True)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


@pytest.mark.docker
def test_hostile_progress_files_disturb_neither_job_nor_agent(cluster: LocalCluster, stop_file: Path) -> None:
    job = cluster.submit("--name", "hostile", "--deadline", "2h", "rounds.py", str(stop_file))
    view = cluster.running("hostile")
    control = cluster.home.local / view.application_id / "executor-1" / "control"
    worker = next(w for w in ("w1", "w2") if f"executor {view.application_id}/1" in cluster.log(f"agent-{w}"))
    child = cluster.agent_child(worker).pid

    def await_samples(count: int) -> None:
        """Wait for that number of further samples: every period writes one for the executor, and reads its file first."""
        number = len(cluster.samples(view.application_id)) + count
        eventually(lambda: len(cluster.samples(view.application_id)) >= number, "further samples")

    # other kinds are the parser's own tests' to see, and complaints the agent's: it complains once a minute
    with kept(control, _link):
        eventually(lambda: re.search("progress file of executor 1 .*opened", cluster.log(f"agent-{worker}")), "a complaint")
        await_samples(6)
    with kept(control, _negative):
        await_samples(6)
    # The loop has gone on all the time.
    await_samples(4)
    assert cluster.agent_child(worker).pid == child
    assert "Traceback" not in cluster.log(f"agent-{worker}")
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    summary = cluster.summary("hostile")
    assert (summary["tasks_failed"], summary["executors_lost"], summary["violated"]) == (0, 0, False)
    assert summary["app_id"] == view.application_id
