"""Behaviour of the process runtime only: records on disk, other users, leftovers of pacing by signals."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from controller.machine import process_tree
from controller.machine.process import find_process
from controller.runtime import launching
from controller.runtime.base import Program
from stage_model.errors import RuntimeRefused
from tests.controller.runtime import rigs
from tests.controller.runtime.rigs import ProcessRig
from tests.fakes.small_disk import SmallDisk

NOBODY = 65534


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[ProcessRig]:
    made = ProcessRig(tmp_path)
    yield made
    made.close()


def record_of(rig: ProcessRig) -> Path:
    (path,) = (rig.directory / "state").glob("*.json")
    return path


def test_records_are_private(rig: ProcessRig) -> None:
    rig.start(rig.runtime(), rigs.IDLE)
    assert record_of(rig).stat().st_mode & 0o777 == 0o600
    assert json.loads(record_of(rig).read_text())["executor_id"] == "1"


def test_a_closed_runtime_leaves_nothing_stopped(rig: ProcessRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.BUSY, cores=0.01)
    pid = runtime.observe()[key].pid
    assert pid
    rig.until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    rig.restart(runtime)
    runtime.close()
    rig.until(lambda: psutil.Process(pid).status() != psutil.STATUS_STOPPED)


def test_an_executor_is_paced_while_the_disk_of_its_record_is_full(small_disk: SmallDisk) -> None:
    rig = ProcessRig(small_disk.path)
    try:
        runtime = rig.runtime()
        key = rig.start(runtime, rigs.BUSY, cores=1.0)
        small_disk.fill()
        assert runtime.set_quota(key, 0.01)
        rig.until(lambda: rig.held_back(runtime, key))
        small_disk.clear()
        assert runtime.set_quota(key, 0.5)
        assert json.loads(record_of(rig).read_text())["quota_cores"] == 0.5
    finally:
        rig.close()


def test_an_executor_that_ended_unwatched_is_seen_as_ended(rig: ProcessRig) -> None:
    first = rig.runtime()
    key = rig.start(first, "exec sleep 1000")
    identity = find_process(first.observe()[key].pid or 0)
    assert identity
    first.close()
    rig._open.remove(first)
    process_tree.kill(identity)
    rig.until(lambda: not identity.is_alive())
    seen = rig.runtime().observe()[key]
    assert (seen.running, seen.exit_code) == (False, None)
    assert "no agent watched" in seen.reason


def test_a_record_of_another_boot_kills_no_process(rig: ProcessRig) -> None:
    first = rig.runtime()
    key = rig.start(first, rigs.IDLE)
    path, pid = record_of(rig), first.observe()[key].pid
    stale = json.loads(path.read_text())
    stale["process"]["boot_id"] = "another"
    path.write_text(json.dumps(stale))
    assert not rig.runtime().observe()[key].running
    assert first.observe()[key].running
    assert psutil.pid_exists(pid or 0)


def test_a_pid_that_means_another_process_now_gets_no_signal() -> None:
    me = find_process(os.getpid())
    assert me
    other = structs.replace(me, start_ticks=me.start_ticks - 1)
    assert me.is_alive()
    assert not other.is_alive()
    assert process_tree.members(other) == ()


def test_an_unreadable_record_stays_as_it_is(rig: ProcessRig, caplog: pytest.LogCaptureFixture) -> None:
    state = rig.directory / "state"
    state.mkdir()
    (state / "broken.json").write_text("{")
    assert rig.runtime().observe() == {}
    assert (state / "broken.json").exists()
    assert "broken.json" in caplog.text


def test_an_executor_whose_agent_died_before_its_record_never_runs(rig: ProcessRig) -> None:
    """The state directory is a file, so no record can be written: the waiting child must end."""
    (rig.directory / "state").write_text("")
    runtime = rig.runtime()
    launch = rig.launch("touch ran")
    with pytest.raises(Exception, match="not started"):
        runtime.start(launch)
    assert runtime.observe() == {}
    assert not (launch.working_dir / "ran").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as another user")
def test_a_program_runs_as_its_submitter(rig: ProcessRig) -> None:
    hidden = rig.directory / "python3"
    hidden.symlink_to("/usr/bin/python3")
    rig.directory.chmod(0o700)
    runtime = rig.runtime()
    who = (str(hidden), "-c", "import os; print(os.getuid(), os.getgroups())")
    assert runtime.run_program(Program(who, 0, 0)).startswith("0 ")
    with pytest.raises(RuntimeRefused, match="python3"):
        runtime.run_program(Program(who, NOBODY, NOBODY))
    assert runtime.run_program(Program(("/usr/bin/python3", *who[1:]), NOBODY, NOBODY)) == f"{NOBODY} []\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run programs as another user")
def test_an_executor_of_another_user_starts_only_where_that_user_may_enter() -> None:
    with tempfile.TemporaryDirectory() as folder:  # pytest's own folders are closed to others
        rig = ProcessRig(Path(folder))
        runtime, launch = rig.runtime(), replace(rig.launch(rigs.IDLE), uid=NOBODY, gid=NOBODY)
        for mode, starts in ((0o700, False), (0o711, True)):
            rig.directory.chmod(mode)
            with nullcontext() if starts else pytest.raises(RuntimeRefused, match=f"user {NOBODY} may not enter"):
                runtime.start(launch)
            assert [seen.running for seen in runtime.observe().values()] == [True] * starts
        rig.close()


def test_a_signal_at_the_very_start_reaches_the_program_and_does_not_end_the_shell_that_keeps_its_output(
    tmp_path: Path,
) -> None:
    """The signal is sent often, because only some moments matter."""
    deaf = 'trap "" TERM; kill -TERM $PPID; sleep 0.05; echo deaf; exit 7'
    for _ in range(20):
        done = subprocess.run(
            ["/bin/sh", "-c", launching.LOG_SCRIPT, tmp_path, "/bin/sh", "-c", deaf], check=False, timeout=60
        )
        assert done.returncode == 7
    assert (tmp_path / "stdout").read_text() == 20 * "deaf\n"
