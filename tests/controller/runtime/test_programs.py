"""Promises of every runtime that starts programs: what they see and have, what they say, and what is left of them."""

from __future__ import annotations

import dataclasses
import os
import pwd
import resource
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest

from controller.runtime import launching
from controller.runtime.base import Bind, Program, Starter
from stage_model.errors import RuntimeRefused
from tests.controller.runtime import rigs
from tests.controller.runtime.docker.rig import DockerRig
from tests.controller.runtime.rigs import AnyRig


def test_logs_are_files_and_arguments_arrive_unchanged(rig: AnyRig, runtime: Starter) -> None:
    key = rig.start(runtime, rigs.TALKING)
    logs = rig.directory / "logs" / key.executor_id
    for name in ("stdout", "stderr"):
        rig.until(lambda name=name: (logs / name).exists() and (logs / name).read_text())  # type: ignore[misc]
    assert (logs / "stdout").read_text() == "to stdout with spaces; $HOME\n"
    assert (logs / "stderr").read_text() == "to stderr\n"


def test_output_is_bounded_and_the_last_words_are_kept(rig: AnyRig, runtime: Starter) -> None:
    flood = "yes 0123456789abcde | head -c 40000000"
    launch = rig.launch(f"({flood} >&2) & {flood}; wait; echo last word; echo and another >&2; exit 7", cores=2.0)
    runtime.start(launch)
    assert rig.ended(runtime, launch.key).exit_code == 7
    sizes = {path.name: path.stat().st_size for path in launch.log_dir.iterdir()}
    assert sizes.keys() == {"stdout", "stdout.1", "stderr", "stderr.1"}
    assert sizes["stdout.1"] == sizes["stderr.1"] == launching.LOG_FILE_BYTES
    assert max(sizes.values()) <= launching.LOG_FILE_BYTES
    assert (launch.log_dir / "stdout").read_text().endswith("last word\n")
    assert (launch.log_dir / "stderr").read_text().endswith("and another\n")


def test_no_core_is_dumped(rig: AnyRig, runtime: Starter) -> None:
    launch = rig.launch("ulimit -c")
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))  # inherited by processes
    try:
        assert rigs.output(rig, runtime, launch) == "0\n"
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def test_the_environment_arrives_and_is_written_nowhere(rig: AnyRig, runtime: Starter) -> None:
    secret = "s3cr3t-of-this-test"
    program = 'test "$SECRET" = s3cr3t-of-"this-test" && echo arrived; while :; do sleep 1; done'
    launch = rig.launch(program, environment={"SECRET": secret})
    runtime.start(launch)
    rig.until(lambda: rig.said(launch.key))
    pid = runtime.observe()[launch.key].pid
    assert secret not in Path(f"/proc/{pid}/cmdline").read_text()
    for path in rig.directory.rglob("*"):
        assert path.is_dir() or secret not in path.read_text()


@pytest.mark.parametrize("umask", [0o002, 0o027])
def test_new_files_lack_the_permissions_that_the_launch_names(rig: AnyRig, runtime: Starter, umask: int) -> None:
    launch = dataclasses.replace(rig.launch("umask"), umask=umask)
    assert int(rigs.output(rig, runtime, launch), 8) == umask


def test_an_executor_has_the_user_and_the_groups_that_the_launch_names(rig: AnyRig, runtime: Starter) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root starts executors as another user")
    nobody = pwd.getpwnam("nobody")
    with tempfile.TemporaryDirectory() as name:  # a test's own folder is root's, as are those above it
        folder = Path(name)
        folder.chmod(0o755)
        launch = dataclasses.replace(
            rig.launch("id -u; id -G"),
            working_dir=folder,
            log_dir=folder / "logs",
            uid=nobody.pw_uid,
            gid=nobody.pw_gid,
            groups=(nobody.pw_gid, 54321),
        )
        user, groups = rigs.output(rig, runtime, launch).splitlines()
        assert (user, set(groups.split())) == (str(nobody.pw_uid), {str(nobody.pw_gid), "54321"})


def test_an_executor_ends_with_its_children(rig: AnyRig, runtime: Starter) -> None:
    marker = f"99{os.getpid()}"  # an argument that no other process has
    seen = rig.directory / "logs" / rigs.KEY.executor_id / "seen"
    waits = f"while [ ! -e {seen} ]; do sleep 0.05; done"
    launch = rig.launch(f"sleep {marker} & (setsid sleep {marker}; :) & {waits}; kill -9 $$")
    runtime.start(launch)
    rig.until(lambda: len(_running(marker)) >= 2)
    seen.touch()
    rig.ended(runtime, launch.key)
    if isinstance(rig, rigs.CgroupProcessRig | DockerRig):  # by session alone, a new session is not found
        rig.until(lambda: not _running(marker))
    else:
        rig.until(lambda: len(_running(marker)) <= 1)
        for pid in _running(marker):
            os.kill(pid, signal.SIGKILL)


def _running(argument: str) -> list[int]:
    """Return Processes `sleep argument`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes() == f"sleep\0{argument}\0".encode():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_a_missing_program_is_refused_or_ends_at_once(rig: AnyRig, runtime: Any) -> None:
    launch = dataclasses.replace(rig.launch(rigs.IDLE), argv=["/no/such/program"])
    if isinstance(rig, DockerRig):  # what an image holds is known only inside
        runtime.start(launch)
        assert rig.ended(runtime, launch.key).exit_code == 127
        assert "/no/such/program" in (launch.log_dir / "stderr").read_text()
    else:
        with pytest.raises(RuntimeRefused, match="/no/such/program"):
            runtime.start(launch)
        assert runtime.observe() == {}


def test_a_bind_that_does_not_exist_is_refused(rig: AnyRig, runtime: Starter) -> None:
    with pytest.raises(RuntimeRefused, match="no-such-place"):
        runtime.start(dataclasses.replace(rig.launch(rigs.IDLE), binds=[Bind(rig.directory / "no-such-place")]))
    assert runtime.observe() == {}


def program(*argv: str, **more: Any) -> Program:
    return Program(argv, os.getuid(), os.getgid(), **more)


def test_a_program_runs_to_its_end_and_its_output_is_the_answer(rig: AnyRig, starter: Starter) -> None:
    if not rig.runs_programs:
        assert starter.run_program(program("python3")) == "3.11\n"
        return
    answer = starter.run_program(program("/bin/sh", "-c", 'echo "out $1"; echo err >&2', "sh", "a b; $HOME"))
    assert answer == "out a b; $HOME\n"
    assert starter.observe() == {}


def test_a_program_sees_its_binds_and_writes_where_it_may(rig: AnyRig, runtime: Starter) -> None:
    shown, own = rig.directory / "shown", rig.directory / "own"
    for directory in (shown, own):
        directory.mkdir()
    (shown / "word").write_text("hello")
    copying = program("/bin/cp", str(shown / "word"), str(own / "copy"), binds=[Bind(shown), Bind(own, writable=True)])
    runtime.run_program(dataclasses.replace(copying, cores=0.5, memory_bytes=rigs.MEMORY_BYTES))
    assert (own / "copy").read_text() == "hello"
    assert (own / "copy").stat().st_uid == os.getuid()


def test_a_program_that_does_not_end_well_is_refused_with_its_words(rig: AnyRig, runtime: Starter) -> None:
    for wrong in ("/no/such/program", "/bin/false"):
        with pytest.raises(RuntimeRefused, match=wrong):
            runtime.run_program(program(wrong))
    with pytest.raises(RuntimeRefused, match="3: sorry"):
        runtime.run_program(program("/bin/sh", "-c", "echo sorry >&2; exit 3"))
    with pytest.raises(RuntimeRefused, match="/bin/sleep"):
        runtime.run_program(program("/bin/sleep", "60", timeout_s=0.5))
