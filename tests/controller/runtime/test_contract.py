"""Promises of every runtime (`controller.runtime.base`), checked on all of them by the same tests."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import pwd
import resource
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.runtime import launching
from controller.runtime.base import Bind, ExecutorKey, Program, Runtime, Starter
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.table import RUNTIMES
from stage_model.errors import BadInput, RuntimeFailed, RuntimeRefused
from tests.controller.runtime import rigs
from tests.controller.runtime.rigs import Rig

AnyRig = Rig[Any]


def _cgroups_writable() -> bool:
    tree = CgroupTree()
    group = tree.create("sparkpace-probe")
    return group is not None and tree.remove(group)


def _marked(name: str) -> object:
    mark = {"docker": pytest.mark.docker, "kubernetes": pytest.mark.kubernetes_api}.get(name)
    return name if mark is None else pytest.param(name, marks=mark)


@pytest.fixture(params=map(_marked, rigs.RIGS))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyRig]:
    if request.param in ("process-cgroup", "adopt-cgroup") and not _cgroups_writable():
        pytest.skip("control groups are not writable here")
    made = rigs.RIGS[request.param](tmp_path)
    yield made
    made.close()


def test_every_runtime_of_the_table_has_a_rig() -> None:
    assert set(RUNTIMES) == {name.partition("-")[0] for name in rigs.RIGS} - {"fake"}


GONE = ExecutorKey("app-1", "never-there")


def starter(rig: AnyRig) -> Starter:
    """Make a runtime that starts executors; skip the rigs whose runtime does not."""
    if not rig.starts:
        pytest.skip("this runtime starts and ends nothing")
    runtime: Starter = rig.runtime()
    return runtime


@pytest.fixture
def runtime(rig: AnyRig) -> Starter:
    """Provide a runtime that starts programs; skip the rigs whose runtime starts none."""
    if not rig.runs_programs:
        pytest.skip("no program runs here")
    return starter(rig)


def test_a_started_executor_runs_with_its_quota(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.IDLE, cores=0.25)
    seen = runtime.observe()[key]
    assert seen.running
    assert seen.quota_cores == pytest.approx(0.25)
    assert bool(seen.pid) == rig.sees_processes
    assert seen.exit_code is None
    assert not rig.sees_processes or rig.until(lambda: runtime.observe()[key].memory_bytes > 0)


def test_starting_twice_is_starting_once(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.IDLE)
    pid = runtime.observe()[key].pid
    rig.again(runtime)
    assert runtime.observe()[key].pid == pid
    assert len(runtime.observe()) == 1


def test_an_ended_executor_of_the_same_key_makes_room(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.EXITS_WITH_3)
    rig.ended(runtime, key)
    rig.start(runtime, rigs.IDLE)
    assert runtime.observe()[key].running


def in_force(rig: AnyRig, runtime: Runtime, cores: float) -> None:
    """Wait until the quota is in force: at once, unless the agent may not write the files of a container, so that its engine
    does it."""
    rig.until(lambda: runtime.observe()[rigs.KEY].quota_cores == pytest.approx(cores))


def test_a_changed_quota_is_read_back(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.IDLE, cores=0.5)
    for cores in (0.35, 0.01, 1.5):
        assert runtime.set_quota(key, cores)
        in_force(rig, runtime, cores)


def test_an_executor_whose_quota_someone_took_away_has_none(rig: AnyRig) -> None:
    """Such a quota is not an infinite one: JSON cannot say that, so the master could not read the agent's reports."""
    runtime, tree = rig.runtime(), CgroupTree()
    key = rig.start(runtime, rigs.IDLE, cores=0.5)
    in_force(rig, runtime, 0.5)
    pid = runtime.observe()[key].pid
    group = tree.group_of(pid) if pid else None
    if group is None or tree.read_quota(group) != pytest.approx(0.5):
        pytest.skip("no control group here has this executor's quota")
    assert tree.write_quota(group, math.inf)
    assert runtime.observe()[key].quota_cores is None
    assert runtime.set_quota(key, 0.4)
    in_force(rig, runtime, 0.4)


def test_impossible_amounts_are_refused(rig: AnyRig) -> None:
    """Each runtime refuses impossible amounts; `test_launching` tests which amounts those are."""
    runtime = rig.runtime()
    with pytest.raises(BadInput, match="quota"):
        runtime.set_quota(GONE, math.nan)
    with pytest.raises(BadInput, match="memory"):
        runtime.set_memory_limit(GONE, 0)


def test_a_changed_memory_limit_is_read_back_also_by_the_next_agent(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.IDLE)
    if not rig.limits_memory:
        assert runtime.observe()[key].memory_limit_bytes is None
        assert not runtime.set_memory_limit(key, 2 * rigs.MEMORY_BYTES)
        assert runtime.observe()[key].memory_limit_bytes is None
        return
    assert runtime.observe()[key].memory_limit_bytes == rigs.MEMORY_BYTES
    for limit in (2 * rigs.MEMORY_BYTES, 3 * rigs.MEMORY_BYTES // 4, rigs.MEMORY_BYTES):
        assert runtime.set_memory_limit(key, limit)
        assert runtime.observe()[key].memory_limit_bytes == limit
    assert runtime.set_memory_limit(key, 2 * rigs.MEMORY_BYTES)
    assert rig.restart(runtime).observe()[key].memory_limit_bytes == 2 * rigs.MEMORY_BYTES


def test_a_memory_limit_below_what_is_in_use_is_refused_and_kills_nothing(rig: AnyRig) -> None:
    if not rig.limits_memory:
        pytest.skip("nothing limits memory here")
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.HOARDING)
    used = rig.until(lambda: max(0, runtime.observe()[key].memory_bytes - rigs.HOARD_BYTES))
    assert used
    with pytest.raises(RuntimeFailed, match=r"executor app-1/1"):
        runtime.set_memory_limit(key, rigs.HOARD_BYTES)
    seen = runtime.observe()[key]
    assert (seen.running, seen.memory_limit_bytes) == (True, rigs.MEMORY_BYTES)


def test_a_busy_executor_is_held_back_by_its_quota_and_goes_on_with_a_larger_one(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.BUSY, cores=0.05)
    rig.until(lambda: rig.held_back(runtime, key))
    if rig.counts_throttled:
        rig.until(lambda: (runtime.observe()[key].throttled_s or 0.0) > 0)
    else:
        assert runtime.observe()[key].throttled_s is None
    assert runtime.set_quota(key, 2.0)  # more than one shell can use
    free_looks = itertools.count(1)

    def runs_freely() -> bool:
        nonlocal free_looks
        if rig.held_back(runtime, key):
            free_looks = itertools.count(1)
        return next(free_looks) == 50  # a second in a row, ten periods of a quota

    rig.until(runs_freely)


def test_an_exit_code_is_seen(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.EXITS_WITH_3)
    seen = rig.ended(runtime, key)
    assert seen.exit_code == (3 if rig.starts else None)
    assert seen.pid is None
    assert seen.memory_limit_bytes is None
    assert not runtime.set_quota(key, 1.0)
    assert not runtime.set_memory_limit(key, rigs.MEMORY_BYTES)


def test_stop_without_grace_kills(rig: AnyRig) -> None:
    runtime = starter(rig)
    key = rig.start(runtime, rigs.STUBBORN)
    runtime.stop(key)
    assert rig.ended(runtime, key).exit_code == 128 + signal.SIGKILL


def test_stop_with_grace_terminates(rig: AnyRig) -> None:
    runtime = starter(rig)
    key = rig.start(runtime, "exec sleep 1000")

    def stopped() -> bool:
        # one that has only begun may not hear it the first time
        runtime.stop(key, grace_s=20)
        return not runtime.observe()[key].running

    rig.until(stopped)
    assert rig.ended(runtime, key).exit_code == 128 + signal.SIGTERM


def test_what_ignores_sigterm_is_killed_after_the_grace(rig: AnyRig) -> None:
    runtime = starter(rig)
    key = rig.start(runtime, rigs.STUBBORN)
    # a signal before the program's trap would end it
    rig.until(lambda: rig.said(key) or not rig.runs_programs)
    runtime.stop(key, grace_s=0.5)
    runtime.stop(key, grace_s=10 * rigs.DEADLINE_S)  # asking again does not prolong it
    assert rig.ended(runtime, key).exit_code == 128 + signal.SIGKILL


def test_an_executor_stays_visible_until_it_is_removed(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.IDLE)
    with pytest.raises(RuntimeFailed, match="app-1/1"):
        runtime.remove(key)
    runtime.stop(key)
    rig.ended(runtime, key)
    rig.until(lambda: rigs._removed(runtime, key))
    assert runtime.observe() == {}
    assert rig.restart(runtime).observe() == {}


def test_what_is_gone_is_ordinary(rig: AnyRig) -> None:
    runtime = rig.runtime()
    assert not runtime.set_quota(GONE, 1.0)
    assert not runtime.set_memory_limit(GONE, rigs.MEMORY_BYTES)
    runtime.stop(GONE)
    runtime.remove(GONE)
    assert runtime.observe() == {}


def test_a_new_agent_adopts_what_runs(rig: AnyRig) -> None:
    first = rig.runtime()
    key = rig.start(first, rigs.IDLE, cores=0.5)
    assert first.set_quota(key, 0.75)
    pid = first.observe()[key].pid
    second = rig.restart(first)
    seen = second.observe()[key]
    assert (seen.running, seen.pid) == (True, pid)
    assert seen.quota_cores == pytest.approx(0.75)
    assert second.set_quota(key, 0.3)
    in_force(rig, second, 0.3)
    rig.again(second)
    assert second.observe()[key].pid == pid
    second.stop(key)
    assert rig.ended(second, key).exit_code == (137 if rig.knows_exit_of_adopted else None)


def test_an_adopted_executor_is_still_paced(rig: AnyRig) -> None:
    first = rig.runtime()
    key = rig.start(first, rigs.BUSY, cores=0.05)
    second = rig.restart(first)
    for _ in range(3):
        rig.until(lambda: rig.held_back(second, key))


def test_another_worker_sees_and_touches_nothing(rig: AnyRig) -> None:
    mine, other = rig.runtime("w1"), rig.runtime("w2")
    key = rig.start(mine, rigs.IDLE)
    assert other.observe() == {}
    assert not other.set_quota(key, 0.1)
    assert not other.set_memory_limit(key, 2 * rigs.MEMORY_BYTES)
    other.stop(key)
    other.remove(key)
    assert mine.observe()[key].running
    assert mine.observe()[key].quota_cores == pytest.approx(0.5)


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
    if isinstance(rig, rigs.CgroupProcessRig | rigs.DockerRig):  # by session alone, a new session is not found
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
    if isinstance(rig, rigs.DockerRig):  # what an image holds is known only inside
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


def test_a_program_runs_to_its_end_and_its_output_is_the_answer(rig: AnyRig) -> None:
    runtime = starter(rig)
    if not rig.runs_programs:
        assert runtime.run_program(program("python3")) == "3.11\n"
        return
    answer = runtime.run_program(program("/bin/sh", "-c", 'echo "out $1"; echo err >&2', "sh", "a b; $HOME"))
    assert answer == "out a b; $HOME\n"
    assert runtime.observe() == {}


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


def test_java_of_another_home_or_image_is_another_java(rig: AnyRig) -> None:
    runtime = starter(rig)
    mine = runtime.java("/opt/java", None)
    assert mine == runtime.java("/opt/java", None)
    assert Path(mine.program).name == "java"
    if not isinstance(rig, rigs.DockerRig):
        assert runtime.java("/opt/other", None).identity != mine.identity
