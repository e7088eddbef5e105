"""The local cluster's life with real processes: refusals leave nothing behind, hostile progress files do no harm.

Bad input that needs no process at all is in `tests/controller/cli`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from controller.home import Cluster, Home
from controller.machine.files import write_whole
from stage_model.progress import SCHEMA
from tests.integration.local_cluster import LocalCluster, eventually

pytestmark = pytest.mark.spark


@pytest.fixture
def nowhere(tmp_path: Path) -> Iterator[LocalCluster]:
    """Provide a home where no cluster is; a test must leave it so."""
    (tmp_path / "conf").mkdir()
    place = LocalCluster(Home(tmp_path / "home"), "process")
    yield place
    assert place.left() == []
    assert place.home.cluster() is None
    assert not list(tmp_path.glob("home/runs/*"))


def said(stderr: str, *parts: str) -> None:
    """Assert that stderr has one sentence of ours and no traceback."""
    lines = [line for line in stderr.splitlines() if line.startswith("sparkpace: ")]
    assert len(lines) == 1, stderr
    assert "Traceback" not in stderr
    for part in parts:
        assert part in lines[0]


def test_a_second_up_finds_all_alive_or_is_refused_with_other_options(process_cluster: LocalCluster) -> None:
    before = process_cluster.cluster()
    assert "nothing was missing" in process_cluster.restore()
    done = process_cluster.command("up", "--port", "0", "--law", "paper", check=2)
    said(done.stderr, before.url, "--law", "sparkpace down")
    assert process_cluster.cluster() == before
    assert living(before) == 2


def test_a_taken_port_is_refused(nowhere: LocalCluster) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = nowhere.command("up", "--runtime", "process", "--port", str(port), check=69)
    said(done.stderr, "--host 127.0.0.1", f"--port {port}")
    assert not nowhere.home.path.exists()


def test_up_without_an_engine_is_refused(nowhere: LocalCluster, tmp_path: Path) -> None:
    for host in (f"unix://{tmp_path}/no.sock", "tcp://127.0.0.1:1"):
        done = nowhere.command("up", "--runtime", "docker", "--port", "0", check=69, environment={"DOCKER_HOST": host})
        said(done.stderr, "Docker", "--runtime process")
        assert not nowhere.home.path.exists()


def test_without_a_jdk_neither_up_nor_submit_starts_anything(nowhere: LocalCluster, process_cluster: LocalCluster) -> None:
    bare = {"PATH": "", "JAVA_HOME": ""}
    done = nowhere.command("up", "--runtime", "process", "--port", "0", check=69, environment=bare)
    said(done.stderr, "Java")
    assert not nowhere.home.path.exists()
    known = process_cluster.client().applications()
    done = process_cluster.command("submit", "rounds.py", "never", check=69, environment=bare)
    said(done.stderr, "Java")
    assert process_cluster.client().applications() == known


def test_submit_without_up_is_refused(nowhere: LocalCluster) -> None:
    said(nowhere.command("submit", "rounds.py", "never", check=69).stderr, "sparkpace up")
    assert not nowhere.home.path.exists()


def test_a_wrong_token_is_refused(process_cluster: LocalCluster, tmp_path: Path) -> None:
    forged = Home(tmp_path / "forged")
    forged.create()
    forged.write_cluster(process_cluster.cluster())
    write_whole(forged.submit_token_file, b"not-the-token")
    write_whole(forged.ca_file, process_cluster.home.ca_file.read_bytes())
    known = process_cluster.client().applications()
    for words in (("submit", "--home", str(forged.path), "rounds.py", "never"), ("ps", "--home", str(forged.path))):
        said(process_cluster.command(*words, check=77).stderr, "token")
    assert process_cluster.client().applications() == known


def test_down_leaves_no_process_and_a_second_down_has_nothing_to_do(nowhere: LocalCluster, tmp_path: Path) -> None:
    nowhere.command("up", "--workers", "1", "--runtime", "process", "--port", "0")
    assert living(nowhere.cluster()) == 2
    assert "is down" in nowhere.command("down").stdout
    eventually(lambda: not nowhere.left(), "the end of all processes")
    assert "No local cluster" in nowhere.command("down").stdout
    modes = {file.stat().st_mode & 0o777 for file in nowhere.home.path.glob("*.token")}
    assert modes == {0o600}


# ---------------------------------------------------------------- hostile progress files


def _link(file: Path) -> None:
    file.symlink_to("/etc/passwd")


def _huge(file: Path) -> None:
    with file.open("wb") as out:
        out.truncate(1 << 30)


def _text(content: str) -> Callable[[Path], None]:
    return lambda file: void(file.write_text(content))


def void(_: object) -> None:
    """Say that a result is not wanted."""


def _claim(**wrong: object) -> str:
    stage = {"stage": 0, "attempt": 0, "running": 1, "done": 0, "failed": 0}
    counters = {"records_done": 0, "records_running": 0, "cpu_ns": 0}
    return json.dumps({"schema": SCHEMA, "executor": "1", "sequence": 1, "stages": [{**stage, **counters, **wrong}]})


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a link": _link,
    "a directory": Path.mkdir,
    "a gigabyte": _huge,
    "a pipe": os.mkfifo,
    "no JSON": _text("}{"),
    "negative numbers": _text(_claim(done=-5)),
    "deep JSON": _text("[" * 60_000),
    "another schema": _text(json.dumps({"schema": 99, "executor": "1", "sequence": 1, "stages": []})),
    "another's": _text(json.dumps({"schema": SCHEMA, "executor": "2", "sequence": 1, "stages": []})),
    "huge numbers": _text(_claim(records_running=1 << 60)),
}
"""Actions that put a bad file in place."""


@contextlib.contextmanager
def kept(control: Path, make: Callable[[Path], None]) -> Iterator[None]:
    """Put the file back as often as the executor replaces it."""
    stop, target = threading.Event(), control / "progress.json"

    def write() -> None:
        spare = control / "hostile"
        while not stop.wait(0.005):
            if target.is_dir():
                continue  # nothing can be renamed over it
            clear(spare)
            with contextlib.suppress(OSError):
                make(spare)
                if spare.is_dir():
                    target.unlink()
                spare.rename(target)
        clear(spare)
        clear(target)

    def clear(path: Path) -> None:
        with contextlib.suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()

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

    def looked_at(number: int) -> bool:
        """Check that the samples are enough: every period writes a row for the executor, and reads its file first."""
        return len(cluster.samples(view.application_id)) >= number

    # what is said of each kind is the agent's own tests' to see: it complains once a minute
    with kept(control, _link):
        eventually(lambda: re.search("progress file of executor 1 .*opened", cluster.log(f"agent-{worker}")), "a complaint")
    for name, make in HOSTILE.items():
        rows = len(cluster.samples(view.application_id)) + 6
        with kept(control, make):
            eventually(partial(looked_at, rows), f"periods with {name}")
    # The loop has gone on all the time.
    samples = len(cluster.samples(view.application_id))
    eventually(lambda: len(cluster.samples(view.application_id)) >= samples + 4, "further samples")
    assert cluster.agent_child(worker).pid == child
    assert "Traceback" not in cluster.log(f"agent-{worker}")
    stop_file.touch()
    assert job.finish().ok().answer["ok"]
    summary = cluster.summary("hostile")
    assert (summary["tasks_failed"], summary["executors_lost"], summary["violated"]) == (0, 0, False)
    assert summary["app_id"] == view.application_id


def living(cluster: Cluster) -> int:
    """Count the cluster's processes that run."""
    return sum(process.is_alive() for process in (cluster.master, *(agent.process for agent in cluster.agents)))
