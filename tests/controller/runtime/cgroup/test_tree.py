"""Reading and writing control groups, on trees declared in one statement: v1 and v2, there and gone."""

from __future__ import annotations

import contextlib
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from controller.machine.waiting import wait_until
from controller.runtime.cgroup.group import Group, OpenFiles, Usage, quota_us
from controller.runtime.cgroup.tree import CgroupTree
from tests.controller.runtime.cgroup.planted import PID, V1, V2, plant


@pytest.fixture(params=[V1, V2], ids=["v1", "v2"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupTree:
    return plant(tmp_path, request.param)


def group_in(tree: CgroupTree) -> Group:
    found = tree.group_of(PID)
    assert found is not None
    return found


@pytest.fixture
def group(tree: CgroupTree) -> Group:
    return group_in(tree)


def used(tree: CgroupTree, group: Group) -> Usage:
    usage = tree.read(group)
    assert usage is not None
    return usage


def test_the_version_is_found(tmp_path: Path) -> None:
    assert plant(tmp_path / "1", V1).version == 1
    assert plant(tmp_path / "2", V2).version == 2
    assert CgroupTree(tmp_path / "nothing").version is None


def test_usage_is_read(tree: CgroupTree, group: Group) -> None:
    usage = used(tree, group)
    assert usage.cpu_s == pytest.approx(12.25)
    assert usage.quota_cores == pytest.approx(0.25)
    assert usage.memory_bytes == 1_000_000 - 300_000
    assert usage.memory_limit_bytes is None
    assert usage.throttled_s == pytest.approx(3.5)
    assert tree.pids(group) == (4711, 4712)


@pytest.mark.parametrize(
    "files",
    [
        V1 | {"fs/cpu/box/a/cpu.stat": ""},  # without bandwidth control the file has not these lines
        V2 | {"fs/box/a/cpu.stat": "usage_usec 12250000\nuser_usec 1\n"},  # without the cpu controller it has only the use
    ],
)
def test_throttled_time_that_the_kernel_does_not_count_is_not_known(tmp_path: Path, files: dict[str, str]) -> None:
    tree = plant(tmp_path, files)
    usage = used(tree, group_in(tree))
    assert usage.throttled_s is None
    assert usage.cpu_s == pytest.approx(12.25)


def test_the_kernel_counts_how_long_a_quota_holds_a_real_process_back() -> None:
    tree = CgroupTree()
    group = tree.create(f"sparkpace-test-throttled-{os.getpid()}")
    if group is None:
        pytest.skip("no control group can be made here")

    def throttled_s() -> float | None:
        usage = tree.read(group)
        return usage.throttled_s if usage is not None else None

    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        assert throttled_s() == 0.0
        assert tree.write_quota(group, 0.01)
        assert tree.add(group, process.pid)
        # it wants a core and has a hundredth, so it stands still for nearly all of each period
        assert wait_until(lambda: (throttled_s() or 0.0) > 0.1, 60.0, 0.05)
        usage = used(tree, group)
        assert usage.throttled_s is not None
        assert usage.throttled_s > usage.cpu_s
    finally:
        process.kill()
        process.wait()
        assert wait_until(lambda: tree.remove(group), 10.0, 0.05)


def test_files_that_are_kept_open_tell_what_is_true_now(tree: CgroupTree, group: Group) -> None:
    files = OpenFiles()
    assert tree.read(group, files.text) == tree.read(group)
    assert tree.write_quota(group, 1.75)
    usage = tree.read(group, files.text)
    assert usage is not None
    assert usage.quota_cores == pytest.approx(1.75)
    gone = Group(group.cpu / "x", group.cpu / "x", None)
    assert tree.read(gone, files.text) is None


def test_a_real_group_that_is_removed_is_gone_for_files_that_are_open() -> None:
    tree = CgroupTree()
    group = tree.create(f"sparkpace-test-{os.getpid()}")
    if group is None:
        pytest.skip("no control group can be made here")
    files = OpenFiles()
    before = tree.read(group, files.text)
    assert tree.remove(group)
    assert before is not None
    assert tree.read(group, files.text) is None


def test_its_files_are_closed_with_it(tmp_path: Path) -> None:
    (tmp_path / "one").write_text("1")
    files = OpenFiles()
    assert files.text(str(tmp_path / "one")) == "1"
    assert files.text(str(tmp_path / "two")) is None
    [descriptor] = [
        int(fd.name) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink() and fd.resolve() == tmp_path / "one"
    ]
    del files
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_group_that_is_gone_is_none(tree: CgroupTree, tmp_path: Path) -> None:
    gone = Group(tmp_path / "x", tmp_path / "x", tmp_path / "x")
    assert tree.read(gone) is None
    assert tree.read_quota(gone) is None
    assert tree.pids(gone) == ()
    assert not tree.write_quota(gone, 1.0)
    assert not tree.write_memory_limit(gone, 1)
    assert not tree.add(gone, PID)
    assert tree.kill_all(gone)
    assert tree.remove(gone)


def test_a_process_that_is_gone_or_foreign_has_no_group(tree: CgroupTree) -> None:
    assert tree.group_of(PID + 1) is None
    assert tree.group_of(PID, must_contain="box/a") is not None
    assert tree.group_of(PID, must_contain="0f12c00a36ab") is None


def test_a_path_that_is_not_mounted_here_is_no_group(tmp_path: Path) -> None:
    assert plant(tmp_path / "1", V1 | {"proc/4711/cgroup": "2:cpuacct:/b\n1:cpu:/b\n"}).group_of(PID) is None
    assert plant(tmp_path / "2", V2 | {"proc/4711/cgroup": "0::/b\n"}).group_of(PID) is None


def test_joint_mounts_of_v1_are_found(tmp_path: Path) -> None:
    files = {
        name.replace("fs/cpuacct/", "fs/cpu,cpuacct/").replace("fs/cpu/", "fs/cpu,cpuacct/"): text
        for name, text in V1.items()
    }
    tree = plant(tmp_path, files | {"proc/4711/cgroup": "3:cpu,cpuacct:/box/a\n"})
    group = group_in(tree)
    assert group.memory is None
    usage = used(tree, group)
    assert usage.cpu_s == pytest.approx(12.25)
    assert usage.memory_bytes is None


def test_a_written_quota_is_read_back(tree: CgroupTree, group: Group) -> None:
    for cores in (0.35, 2.5, math.inf):
        assert tree.write_quota(group, cores)
        assert tree.read_quota(group) == pytest.approx(cores)


def test_quotas_are_rounded_and_never_below_the_kernels_least() -> None:
    assert quota_us(0.29) == 29_000  # int() would give 28999
    assert quota_us(2.5) == 250_000
    assert quota_us(0.001) == 1_000


def test_a_written_memory_limit_is_read_back(tree: CgroupTree, group: Group) -> None:
    limit = 4 * 10**18  # as many digits as are there: unlike the kernel's, a plain file keeps what is not overwritten
    assert tree.write_memory_limit(group, limit)
    assert used(tree, group).memory_limit_bytes == tree.read_memory_limit(group) == limit
    assert tree.read_memory_limit(Group(group.cpu, group.cpuacct, None)) is None


@pytest.mark.parametrize(("before", "limit", "order"), [(100, 200, ["memsw", "limit"]), (200, 100, ["limit", "memsw"])])
def test_on_v1_the_limit_without_swap_never_passes_the_one_with_swap(
    before: int, limit: int, order: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel refuses it: EINVAL."""
    files = {"memsw": "memory.memsw.limit_in_bytes", "limit": "memory.limit_in_bytes"}
    tree = plant(tmp_path, V1 | {f"fs/memory/box/a/{name}": f"{before}\n" for name in files.values()})
    group = group_in(tree)
    written: list[str] = []

    def write(path: Path, value: str) -> bool:
        written.append(f"{path.name} {value}")
        return True

    monkeypatch.setattr("controller.runtime.cgroup.v1.write_text", write)
    assert tree.write_memory_limit(group, limit)
    assert written == [f"{files[name]} {limit}" for name in order]


def test_a_pid_is_added_everywhere(tree: CgroupTree, group: Group) -> None:
    assert tree.add(group, 99)
    assert all((directory / "cgroup.procs").read_text().startswith("99") for directory in group.directories())


def test_a_group_that_cannot_be_written_is_not_created(tmp_path: Path) -> None:
    """Plain directories grow no control files, so the new group is found unusable, and nothing is left behind."""
    mine = {f"proc/{os.getpid()}/cgroup": "2:cpuacct:/box\n1:cpu:/box\n"}
    tree = plant(tmp_path / "1", V1 | mine)
    assert tree.create("mine") is None
    assert not (tmp_path / "1/fs/cpu/box/mine").exists()
    tree = plant(tmp_path / "2", V2 | {f"proc/{os.getpid()}/cgroup": "0::/box/a\n"})
    assert tree.create("mine/deeper") is None
    assert not (tmp_path / "2/fs/box/mine/deeper").exists()


def test_where_nothing_is_mounted_nothing_is_created(tmp_path: Path) -> None:
    assert CgroupTree(tmp_path).create("mine") is None


def test_v2_delegates_controllers_on_the_way_down(tmp_path: Path) -> None:
    tree = plant(tmp_path, V2 | {f"proc/{os.getpid()}/cgroup": "0::/box/a\n", "fs/box/cgroup.subtree_control": ""})
    tree.create("sparkpace/one")
    assert (tmp_path / "fs/box/cgroup.subtree_control").read_text() in ("+cpu", "+memory", "+io")
    assert (tmp_path / "fs/box/sparkpace/cgroup.subtree_control").exists()


def test_groups_of_our_name_go_with_their_empty_parent_and_others_stay(tmp_path: Path) -> None:
    """Real groups are removed so, too: plain directories stand for them here, empty as the kernel's look to rmdir."""
    ours = [f"{place}/sparkpace/mine" for place in ("cpu", "cpuacct/box", "memory/deep/er")]
    theirs = "cpu/box/sparkpace/theirs"
    for directory in (*ours, theirs):
        (tmp_path / "fs" / directory).mkdir(parents=True)
    tree = plant(tmp_path, V1)
    assert tree.clear(["mine", "never-made"]) == {"mine": True}
    left = sorted(str(path.relative_to(tmp_path / "fs")) for path in (tmp_path / "fs").rglob("sparkpace*/**"))
    assert left == ["cpu/box/sparkpace", theirs]


def test_a_parent_that_is_taken_away_meanwhile_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another home's `clear` takes `PARENT` away in the same way, here at the worst moment: just before the group is made in
    it. The parent belongs to this test, because other groups in it would keep it from being taken."""
    tree = CgroupTree()
    name = f"parent-{os.getpid()}/child"
    first = tree.create(name)
    if first is None:
        pytest.skip("no control group can be made here")
    assert tree.remove(first)
    taken: list[Path] = []
    make = os.mkdir

    def taken_away_before(path: Path, mode: int = 0o777) -> None:
        if path in first.directories() and len(taken) < 5:
            with contextlib.suppress(FileNotFoundError):
                path.parent.rmdir()
                taken.append(path)
        make(path, mode)

    monkeypatch.setattr(os, "mkdir", taken_away_before)
    group = tree.create(name)
    assert group == first
    assert len(taken) == 5
    assert tree.remove(group)
    for directory in group.directories():
        directory.parent.rmdir()


@pytest.mark.parametrize(
    "files",
    [
        {"fs/cgroup.controllers": "cpu", "fs/cpu.max": "50000 100000\n"},
        {"fs/cpu/cpu.cfs_quota_us": "50000\n", "fs/cpu/cpu.cfs_period_us": "100000\n", "fs/cpuacct/cpuacct.usage": "1"},
    ],
)
def test_a_containers_own_quota_is_that_of_the_root(tmp_path: Path, files: dict[str, str]) -> None:
    assert plant(tmp_path, files).own_quota() == 0.5


def test_a_machine_without_a_quota_has_no_end_of_cores(tmp_path: Path) -> None:
    assert CgroupTree(tmp_path).own_quota() == math.inf
    (tmp_path / "cgroup.controllers").touch()
    assert CgroupTree(tmp_path).own_quota() == math.inf
    (tmp_path / "cpu.max").write_text("max 100000")
    assert CgroupTree(tmp_path).own_quota() == math.inf


@pytest.mark.parametrize(
    "files",
    [
        {
            "fs/cgroup.controllers": "cpu memory",
            "fs/memory.max": "4000\n",
            "fs/memory.current": "3000\n",
            "fs/memory.stat": "inactive_file 400\nactive_file 100\n",
        },
        {
            "fs/cpu/cpu.cfs_quota_us": "-1\n",
            "fs/cpuacct/cpuacct.usage": "1",
            "fs/memory/memory.limit_in_bytes": "4000\n",
            "fs/memory/memory.usage_in_bytes": "3000\n",
            "fs/memory/memory.stat": "total_inactive_file 400\ntotal_active_file 100\n",
        },
    ],
)
def test_a_containers_own_memory_is_that_of_the_root_without_file_cache(tmp_path: Path, files: dict[str, str]) -> None:
    assert plant(tmp_path, files).own_memory() == (4000, 2500)


def test_a_machine_without_a_limit_of_memory_has_no_own_memory(tmp_path: Path) -> None:
    assert CgroupTree(tmp_path).own_memory() is None
    unlimited = {"fs/cgroup.controllers": "", "fs/memory.max": "max\n", "fs/memory.current": "1"}
    assert plant(tmp_path, unlimited).own_memory() is None
