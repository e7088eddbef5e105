"""Executors get groups of their own, by application; real shares: tests/integration/test_standalone.py."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.runtime.cgroup.group import Group
from controller.runtime.cgroup.tree import CgroupTree
from experiments.baselines.cpu_shares import application_of, application_of_process, divide, refuse_without_shares
from stage_model.errors import Unavailable

EXECUTOR = ["java", "-cp", "x", "org.apache.spark.executor.CoarseGrainedExecutorBackend", "--cores", "1", "--app-id", "app-7"]
SLEEPING = "import time; print(flush=True); time.sleep(600)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPING!r}])"


def test_an_executors_command_line_names_its_application_and_others_name_none() -> None:
    assert application_of([*EXECUTOR, "--worker-url", "spark://w"]) == "app-7"
    assert application_of(["java", "org.apache.spark.deploy.worker.Worker", "--cores", "4"]) == ""
    assert application_of(EXECUTOR[:-1]) == ""
    assert application_of([]) == ""


@pytest.fixture
def executor() -> Iterator[tuple[int, int]]:
    """Start a process with an executor's words; provide its pid and the pid of a process that it started."""
    words = [sys.executable, "-c", PARENT, "--app-id", "app-7"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout
        process.stdout.readline()
        [child] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield process.pid, int(child)
        os.killpg(process.pid, 9)


def a_group(root: Path, pids: list[int]) -> tuple[CgroupTree, Group]:
    """Make a made-up tree of cgroup v1 with one container's group."""
    for controller in ("cpu", "cpuacct"):
        (root / controller / "c1").mkdir(parents=True)
    (root / "cpu" / "c1" / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    return CgroupTree(root), Group(root / "cpu" / "c1", root / "cpuacct" / "c1", None)


def test_an_executor_and_what_it_started_are_moved_and_nothing_else_is(tmp_path: Path, executor: tuple[int, int]) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert [application_of_process(pid) for pid in (*executor, os.getpid(), gone.pid)] == ["app-7", "app-7", "", ""]
    tree, group = a_group(tmp_path, [os.getpid(), *executor, gone.pid])
    divide(tree, group, {"app-8": 3.0})
    assert list(group.cpu.glob("app-*")) == []
    divide(tree, group, {"app-7": 0.5})
    assert (group.cpu / "app-7" / "cpu.shares").read_text() == "512"
    # each write of a pid moves one; a made-up file keeps the last
    assert (group.cpu / "app-7" / "cgroup.procs").read_text() == str(executor[1])


def test_where_groups_cannot_be_made_it_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").touch()
    with pytest.raises(Unavailable, match="need cgroup v1 and root"):
        refuse_without_shares(CgroupTree(tmp_path))
