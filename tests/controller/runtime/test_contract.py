"""Promises of every runtime (`controller.runtime.base`), checked on all of them by the same tests."""

from __future__ import annotations

import itertools
import math
import signal
from pathlib import Path

import pytest

from controller.runtime.base import ExecutorKey, Runtime, Starter
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.table import RUNTIMES
from stage_model.errors import BadInput, RuntimeFailed
from tests.controller.runtime import rigs
from tests.controller.runtime.conftest import RIGS
from tests.controller.runtime.docker.rig import DockerRig
from tests.controller.runtime.rigs import AnyRig

GONE = ExecutorKey("app-1", "never-there")


def test_every_runtime_of_the_table_has_a_rig() -> None:
    assert set(RUNTIMES) == {name.partition("-")[0] for name in RIGS} - {"fake"}


def test_a_started_executor_runs_with_its_quota(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.IDLE, cores=0.25)
    seen = runtime.observe()[key]
    assert seen.running
    assert seen.quota_cores == pytest.approx(0.25)
    assert bool(seen.pid) == rig.sees_processes
    assert seen.exit_code is None
    assert not rig.sees_processes or rig.until(lambda: runtime.observe()[key].memory_bytes > 0)


def test_the_kernels_group_for_the_traffic_of_an_executor_is_named_where_it_is_known(rig: AnyRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.IDLE)
    place = runtime.place(key)
    if not isinstance(rig, (rigs.CgroupProcessRig, DockerRig)):
        assert place is None
        return
    if place is None or CgroupTree().why_no_rates():
        pytest.skip("no such control group is seen from here")
    assert place.io is not None
    assert place.pid in CgroupTree.pids_in(place.io)
    runtime.stop(key)
    rig.until(lambda: not runtime.observe()[key].running)
    assert runtime.place(key) is None
    assert runtime.place(GONE) is None


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
        # the shell holds more than this at any later moment, although it frees some memory while it builds its text
        runtime.set_memory_limit(key, 2 * rigs.HOARD_BYTES // 3)
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


def test_stop_without_grace_kills(rig: AnyRig, starter: Starter) -> None:
    key = rig.start(starter, rigs.STUBBORN)
    starter.stop(key)
    assert rig.ended(starter, key).exit_code == 128 + signal.SIGKILL


def test_stop_with_grace_terminates(rig: AnyRig, starter: Starter) -> None:
    key = rig.start(starter, "exec sleep 1000")

    def stopped() -> bool:
        # one that has only begun may not hear it the first time
        starter.stop(key, grace_s=20)
        return not starter.observe()[key].running

    rig.until(stopped)
    assert rig.ended(starter, key).exit_code == 128 + signal.SIGTERM


def test_what_ignores_sigterm_is_killed_after_the_grace(rig: AnyRig, starter: Starter) -> None:
    key = rig.start(starter, rigs.STUBBORN)
    # a signal before the program's trap would end it
    rig.until(lambda: rig.said(key) or not rig.runs_programs)
    starter.stop(key, grace_s=0.5)
    starter.stop(key, grace_s=10 * rigs.DEADLINE_S)  # asking again does not prolong it
    assert rig.ended(starter, key).exit_code == 128 + signal.SIGKILL


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


def test_java_of_another_home_or_image_is_another_java(rig: AnyRig, starter: Starter) -> None:
    mine = starter.java("/opt/java", None)
    assert mine == starter.java("/opt/java", None)
    assert Path(mine.program).name == "java"
    if not isinstance(rig, DockerRig):
        assert starter.java("/opt/other", None).identity != mine.identity
