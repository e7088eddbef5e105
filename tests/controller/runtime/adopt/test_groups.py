"""An adopted executor on version 1 is in a group that its owner can remove, with the quota that it had afterwards."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from controller.agent.open_quotas import let_go_all
from controller.machine import proc
from controller.machine.process import find_process
from controller.runtime.adopt.runtime import AdoptRuntime
from controller.runtime.base import Adoption, ExecutorKey
from controller.runtime.cgroup.group import ADOPTED, Group, removed
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.claimed_process import BACKENDS
from stage_model.errors import RuntimeRefused
from tests.controller.runtime.adopt.adopting import adoption, control_files, said_to_an_ordinary_user
from tests.controller.runtime.rigs import BUSY, IDLE, KEY, AdoptRig, CgroupAdoptRig, executor_command
from tests.fakes.refusals import assert_names


@pytest.fixture
def grouped(tmp_path: Path) -> Iterator[CgroupAdoptRig]:
    if CgroupTree().version != 1 or os.geteuid() != 0:
        pytest.skip("these groups are of version 1 and root's")
    made = CgroupAdoptRig(tmp_path)
    yield made
    made.close()


def contained(rig: AdoptRig, container: Group, quota_cores: float) -> Adoption:
    """Put an executor into a container's group, which has a quota."""
    what = adoption(rig, BUSY)
    CgroupTree().write_quota(container, quota_cores)
    CgroupTree().add(container, what.claim.process.pid)
    return what


def group_of(pid: int) -> Group:
    found = CgroupTree().group_of(pid)
    assert found is not None
    return found


@pytest.mark.groups
def test_an_agent_that_may_not_write_the_group_refuses_and_says_what_would_help(grouped: CgroupAdoptRig) -> None:
    what = adoption(grouped)
    runtime = grouped.runtime()
    said = said_to_an_ordinary_user(lambda: runtime.adopt(what))
    group = group_of(what.claim.process.pid)
    assert_names(said, "RuntimeRefused", group.cpu, "root", "--signals")
    signals = AdoptRuntime(grouped.cluster, "w1", grouped.directory / "state/w1", signals=True)
    assert_names(said_to_an_ordinary_user(lambda: signals.adopt(what)), "RuntimeRefused", "root")
    assert grouped.processes[-1].poll() is None, "the executor goes on"


def test_its_group_lies_below_its_owners_only_for_cpu_and_goes_with_it(grouped: CgroupAdoptRig) -> None:
    runtime, what, tree = grouped.runtime(), adoption(grouped, "sleep 1000 & sleep 1000 & wait"), CgroupTree()
    grouped.until(lambda: len(_children(what.claim.process.pid)) == 2)
    owners = group_of(what.claim.process.pid)
    runtime.adopt(what)
    group = group_of(what.claim.process.pid)
    assert group.cpu.parent == owners.cpu / ADOPTED
    assert group.memory == owners.memory
    its = {what.claim.process.pid, *(int(pid) for pid in _children(what.claim.process.pid))}
    assert set(tree.pids(group)) == its
    runtime.stop(KEY)
    assert not runtime.observe()[KEY].running
    assert tree.group_of(what.claim.process.pid) == owners
    assert not group.cpu.exists()
    runtime.remove(KEY)
    assert (runtime.observe(), list((grouped.directory / "state").rglob("*.json"))) == ({}, [])
    assert find_process(what.claim.process.pid) is not None  # it goes on


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_a_made_group_weighs_as_the_threads_of_its_slots_do(grouped: CgroupAdoptRig, container: Group) -> None:
    """Busy threads next to the made group, in its owner's group, weigh 1024 each."""
    runtime, tree = grouped.runtime(), CgroupTree()
    first, second, other = (grouped.spawn(IDLE) for _ in range(3))
    for claim in (first, second, other):
        tree.add(container, claim.process.pid)
    adopted = container.cpu / ADOPTED / "cpu.shares"
    for application, claim, slots in (("app-1", first, 3), ("app-2", second, 2)):
        runtime.adopt(Adoption(ExecutorKey(application, KEY.executor_id), claim, grouped.SERVES, 0.5, slots=slots))
        group = group_of(claim.process.pid)
        assert int((group.cpu / "cpu.shares").read_text()) == 1024 * slots
    assert int(adopted.read_text()) == 1024 * (3 + 2), "weights count among siblings alone"
    assert int((container.cpu / "cpu.shares").read_text()) == 1024, "its owner's is left alone"
    runtime.stop(KEY)
    assert int(adopted.read_text()) == 1024 * 2
    runtime.stop(ExecutorKey("app-2", KEY.executor_id))
    assert not adopted.exists()


def test_the_group_goes_when_the_executor_ends(grouped: CgroupAdoptRig) -> None:
    runtime, what = grouped.runtime(), adoption(grouped)
    runtime.adopt(what)
    group = group_of(what.claim.process.pid)
    grouped.processes[-1].kill()
    assert not grouped.ended(runtime, KEY).running
    grouped.until(lambda: not group.cpu.exists())


@pytest.fixture
def container(grouped: CgroupAdoptRig) -> Iterator[Group]:
    """Provide a group as a container manager makes it."""
    tree, root, name = CgroupTree(), group_of(1), f"container-{grouped.cluster}"
    made = Group(root.cpu / name, root.cpuacct / name, None)
    for directory in made.directories():
        directory.mkdir()
    yield made
    tree.kill_all(made)
    grouped.until(lambda: tree.remove(made))


@pytest.fixture
def inner(grouped: CgroupAdoptRig, container: Group) -> Iterator[Group]:
    """Provide a group below that of the container, of a cluster manager, too."""
    tree, made = CgroupTree(), Group(container.cpu / "inner", container.cpuacct / "inner", None)
    for directory in made.directories():
        directory.mkdir()
    yield made
    for group in (*(Group(path, path, None) for path in made.cpu.glob(f"{ADOPTED}/*")), made):
        tree.kill_all(group)
    for path in [path for directory in made.directories() for path in (*directory.glob(f"{ADOPTED}/*"), directory / ADOPTED)]:
        grouped.until(partial(removed, path))
    grouped.until(lambda: tree.remove(made))


def test_a_group_of_its_own_gets_its_quota_and_no_children_and_what_it_had_afterwards(
    grouped: CgroupAdoptRig, container: Group
) -> None:
    runtime, what, tree = grouped.runtime(), contained(grouped, container, 0.9), CgroupTree()
    runtime.adopt(what)
    assert tree.read_quota(container) == pytest.approx(0.5)
    assert [path for path in container.cpu.iterdir() if path.is_dir()] == []
    runtime.set_quota(KEY, 4.0)
    assert tree.read_quota(container) == pytest.approx(0.9)  # never more than its owner gave
    assert runtime.observe()[KEY].most_cores == pytest.approx(0.9)
    runtime.set_quota(KEY, 0.2)
    runtime.stop(KEY)
    assert tree.read_quota(container) == pytest.approx(0.9)


@pytest.mark.parametrize(
    ("given", "raised", "recorded", "owners"),
    [
        (0.9, None, True, 0.9),
        (math.inf, None, True, math.inf),
        pytest.param(0.9, 1.7, True, 1.7, id="its owner has raised it meanwhile"),
        pytest.param(0.9, None, False, 0.2, id="without a record what is there counts"),
    ],
)
def test_what_an_agent_of_another_cluster_left_is_not_taken_for_its_owners_quota(
    grouped: CgroupAdoptRig, container: Group, given: float, raised: float | None, recorded: bool, owners: float
) -> None:
    """The agent of the other cluster was killed, and its master has a new cluster by now. The agent's record is in the folder
    still."""
    what, tree = contained(grouped, container, given), CgroupTree()
    grouped.runtime().adopt(dataclasses.replace(what, cores=0.2))
    assert tree.read_quota(container) == pytest.approx(0.2)
    if raised is not None:
        tree.write_quota(container, raised)
    successor = AdoptRuntime("another-cluster", "w1", grouped.directory / ("state/w1" if recorded else "elsewhere"))
    assert successor.observe() == {}
    successor.adopt(what)
    successor.set_quota(KEY, 4.0)
    assert tree.read_quota(container) == pytest.approx(min(owners, 4.0))
    successor.stop(KEY)
    assert tree.read_quota(container) == pytest.approx(owners)


def test_of_a_watched_executor_every_control_file_is_as_before(grouped: CgroupAdoptRig, container: Group) -> None:
    what = dataclasses.replace(contained(grouped, container, 1.5), watched=True)
    before = control_files(container)
    runtime = grouped.runtime()
    runtime.adopt(what)
    for cores in (0.1, 2.0):
        assert runtime.set_quota(KEY, cores)
        assert control_files(container) == before
    grouped.until(lambda: runtime.observe()[KEY].cpu_s > 0.1)
    assert let_go_all(runtime)
    assert control_files(container) == before
    assert len(before) > 5


def test_a_process_has_one_application(grouped: CgroupAdoptRig) -> None:
    runtime, what = grouped.runtime(), adoption(grouped)
    runtime.adopt(what)
    thief = dataclasses.replace(what, key=ExecutorKey("app-2", KEY.executor_id), cores=0.1)
    with pytest.raises(RuntimeRefused, match="app-1/1"):
        runtime.adopt(thief)
    assert runtime.observe()[KEY].quota_cores == pytest.approx(0.5)


@pytest.mark.groups
def test_below_a_group_with_a_quota_an_executor_gets_as_much_as_that_has(
    grouped: CgroupAdoptRig, container: Group, inner: Group
) -> None:
    """The kernel refuses more on version 1: a service of standalone Workers may have CPUQuota."""
    runtime, what, tree = grouped.runtime(), adoption(grouped), CgroupTree()
    (container.cpu / "cpu.cfs_period_us").write_text("70000")
    (container.cpu / "cpu.cfs_quota_us").write_text("33333")  # 47618.6 of 100000, so it may not be rounded up
    for pid in (what.claim.process.pid, grouped.spawn(IDLE).process.pid):
        tree.add(inner, pid)
    runtime.adopt(what)
    group = group_of(what.claim.process.pid)
    assert group.cpu.parent.parent == inner.cpu
    assert tree.read_quota(group) == pytest.approx(0.47618, abs=1e-9)
    assert runtime.set_quota(KEY, 0.25)
    assert tree.read_quota(group) == pytest.approx(0.25)
    assert runtime.set_quota(KEY, 4.0)
    seen = runtime.observe()[KEY]
    assert seen.quota_cores == pytest.approx(0.47618, abs=1e-9)
    assert seen.most_cores == pytest.approx(0.47618, abs=1e-9)
    assert seen.remark == ""
    runtime.stop(KEY)


@pytest.mark.groups
@pytest.mark.parametrize("period_us", [50_000, 100_000, 1_000_000])
def test_a_quota_of_another_period_is_written_below_a_group_with_a_quota(
    grouped: CgroupAdoptRig, container: Group, inner: Group, period_us: int
) -> None:
    """YARN gives a container 1 s of a longer period; 1 s of ours would be ten cores, which the kernel refuses here."""
    runtime, what, tree = grouped.runtime(), adoption(grouped, BUSY), CgroupTree()
    tree.write_quota(container, 1.5)
    (inner.cpu / "cpu.cfs_period_us").write_text(str(period_us))
    (inner.cpu / "cpu.cfs_quota_us").write_text(str(period_us))
    tree.add(inner, what.claim.process.pid)
    runtime.adopt(what)
    assert tree.read_quota(inner) == pytest.approx(0.5)
    runtime.stop(KEY)
    assert tree.read_quota(inner) == pytest.approx(1.0)


def test_a_group_that_a_forgotten_agent_left_is_not_taken_for_the_executors_own(grouped: CgroupAdoptRig) -> None:
    what, tree = adoption(grouped, BUSY), CgroupTree()
    owners = group_of(what.claim.process.pid)
    grouped.runtime().adopt(dataclasses.replace(what, cores=0.1))
    left = group_of(what.claim.process.pid)
    successor = AdoptRuntime("another-cluster", "w1", grouped.directory / "elsewhere")
    successor.adopt(what)
    group = group_of(what.claim.process.pid)
    assert group != left
    assert group.cpu.parent == owners.cpu / ADOPTED
    assert successor.set_quota(KEY, 1.5)
    assert successor.observe()[KEY].quota_cores == pytest.approx(1.5), "the old agent's quota is no limit"
    successor.stop(KEY)
    assert tree.group_of(what.claim.process.pid) == owners
    tree.dissolve(left, owners)


def test_a_container_as_yarns_node_manager_makes_it_can_be_removed_by_it_while_it_is_paced(grouped: CgroupAdoptRig) -> None:
    """`CgroupsLCEResourcesHandler` makes hadoop-yarn/CONTAINER for CPU, starts a shell in it that starts the executor, and
    removes the directory when both have ended. No real YARN runs here."""
    runtime = grouped.runtime()
    yarn = group_of(1).cpu / f"hadoop-yarn-{grouped.cluster}"
    container = yarn / "container_e01_1763971200000_0001_01_000002"
    container.mkdir(parents=True)
    try:
        (container / "cpu.shares").write_text("1024")
        (container / "cpu.cfs_quota_us").write_text("150000")
        program = executor_command(IDLE, BACKENDS[1], grouped.SERVES)
        starts = ["/bin/sh", "-c", '"$@" & wait', "default_container_executor.sh", *program]
        shell = subprocess.Popen(starts, start_new_session=True)
        grouped.processes.append(shell)
        grouped.until(lambda: bool(_children(shell.pid)))
        executor = int(_children(shell.pid)[0])
        # a child has its shell's command line, which names the program, too, until it becomes that program
        grouped.until(lambda: proc.command_line(executor) == program)
        for pid in (shell.pid, executor):
            (container / "cgroup.procs").write_text(str(pid))
        runtime.adopt(Adoption(KEY, grouped.claim(executor), grouped.SERVES, 0.5))
        runtime.set_quota(KEY, 0.7)
        assert (container / "cpu.cfs_quota_us").read_text().strip() == "70000"
        assert [path for path in container.iterdir() if path.is_dir()] == []
        seen = runtime.observe()[KEY]
        assert seen.cpu_s < 5, "of the executor alone, whatever YARN's group counts"
        assert seen.memory_bytes < 1 << 30
        os.kill(executor, signal.SIGKILL)  # its shell reaps it; an orphan would stay in the group until init comes to it
        shell.wait()
        grouped.until(partial(removed, container))
        assert not grouped.ended(runtime, KEY).running
        runtime.remove(KEY)
    finally:
        with contextlib.suppress(OSError):  # after a failure it holds processes still
            container.rmdir()
        with contextlib.suppress(OSError):
            yarn.rmdir()


class _ChangesMeanwhile(CgroupTree):
    """Control groups of which a child of the executor begins, or ends, while they are read."""

    def __init__(self, executor: subprocess.Popen[bytes], change: str) -> None:
        super().__init__()
        self._executor, self._change = executor, change

    def pids_in(self, directory: Path) -> tuple[int, ...]:  # type: ignore[override] # it needs the executor
        if self._change == "begins":
            self.begin_child()
            return CgroupTree.pids_in(directory)
        found = CgroupTree.pids_in(directory)
        (child,) = psutil.Process(self._executor.pid).children()
        child.kill()
        child.wait(30)
        return found

    def begin_child(self) -> None:
        assert self._executor.stdin is not None
        assert self._executor.stdout is not None
        self._executor.stdin.write(b"\n")
        self._executor.stdin.flush()
        assert self._executor.stdout.readline() == b"begun\n"


@pytest.mark.parametrize("change", ["begins", "ends"])
def test_a_child_that_begins_or_ends_during_a_look_does_not_make_the_group_anothers(
    grouped: CgroupAdoptRig, change: str
) -> None:
    group = CgroupTree().create(f"{grouped.cluster}-own")
    assert group is not None
    program = "read line; sleep 600 & echo begun; wait; read line"
    words = executor_command(program, BACKENDS[1], grouped.SERVES)
    executor = subprocess.Popen(words, start_new_session=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    grouped.processes.append(executor)
    try:
        (group.cpu / "cgroup.procs").write_text(str(executor.pid))
        cgroups = _ChangesMeanwhile(executor, change)
        if change == "ends":
            cgroups.begin_child()
        runtime = AdoptRuntime(grouped.cluster, "w1", grouped.directory / "state/w1", cgroups=cgroups)
        process = find_process(executor.pid)
        assert process is not None
        assert runtime._is_its_own(group.cpu, process)
        runtime.close()
    finally:
        os.killpg(executor.pid, signal.SIGKILL)
        executor.communicate()
        grouped.until(lambda: CgroupTree().remove(group))


def test_a_group_with_another_process_in_it_is_not_the_executors_own(grouped: CgroupAdoptRig, container: Group) -> None:
    runtime, what, tree = grouped.runtime(), adoption(grouped), CgroupTree()
    other = grouped.spawn(IDLE).process
    for pid in (what.claim.process.pid, other.pid):
        tree.add(container, pid)
    runtime.adopt(what)
    assert tree.read_quota(container) == math.inf
    assert tree.pids(container) == (other.pid,)
    runtime.stop(KEY)


def test_another_writer_of_the_quota_is_reported(grouped: CgroupAdoptRig) -> None:
    runtime, what, tree = grouped.runtime(), adoption(grouped), CgroupTree()
    runtime.adopt(what)
    assert runtime.observe()[KEY].remark == ""
    group = group_of(what.claim.process.pid)
    tree.write_quota(group, 0.33)
    assert_names(runtime.observe()[KEY].remark, "0.50", "0.33")
    runtime.set_quota(KEY, 0.4)
    assert runtime.observe()[KEY].remark == ""
