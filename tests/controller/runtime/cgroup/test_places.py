"""The places of groups, and the quotas over a process, on planted trees."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.cgroup.v2 import REST
from stage_model.errors import Unavailable
from tests.controller.runtime.cgroup.planted import PID, V1, V2, delegate, plant

NEW = {
    f"proc/{os.getpid()}/cgroup": "0::/box/a\n",
    "fs/box/a/sparkpace/one/cpu.max": "max 100000\n",
    "fs/box/a/sparkpace/one/cgroup.procs": "",
    f"fs/box/a/{REST}/cgroup.procs": "",
}
"""Files that the kernel makes with these groups."""


def test_on_v2_groups_are_made_inside_a_unit_that_may_be_divided_and_its_processes_make_room(tmp_path: Path) -> None:
    tree, unit = plant(tmp_path, V2 | NEW), tmp_path / "fs/box/a"
    delegate(unit)
    group = tree.create("sparkpace/one")
    assert group is not None
    assert group.cpu == unit / "sparkpace/one", "its quota is the unit's, too"
    # one number is written over the other: the kernel adds each
    assert (unit / REST / "cgroup.procs").read_text() == "4712"
    assert (unit / "cgroup.subtree_control").exists()
    assert not (tmp_path / "fs/box/sparkpace").exists()


def test_on_v2_a_process_that_its_unit_has_in_a_group_below_makes_groups_next_to_that_one(tmp_path: Path) -> None:
    """The unit's own group has no processes then, as with DelegateSubgroup=, so none are moved."""
    mine = {f"proc/{os.getpid()}/cgroup": "0::/box/a/agent\n", "fs/box/a/agent/cgroup.procs": f"{os.getpid()}\n"}
    tree, unit = plant(tmp_path, V2 | NEW | mine | {"fs/box/a/cgroup.procs": ""}), tmp_path / "fs/box/a"
    delegate(unit)
    group = tree.create("sparkpace/one")
    assert group is not None
    assert group.cpu == unit / "sparkpace/one"
    assert (unit / REST / "cgroup.procs").read_text() == ""


def test_on_v2_no_group_is_made_inside_one_that_systemd_keeps_or_inside_a_containers_root(tmp_path: Path) -> None:
    tree = plant(tmp_path / "kept", V2 | NEW)
    assert tree.create("sparkpace/one") is None
    assert (tmp_path / "kept/fs/box/a" / REST / "cgroup.procs").read_text() == ""
    root = {f"proc/{os.getpid()}/cgroup": "0::/\n", "fs/cgroup.procs": f"{os.getpid()}\n"}
    tree = plant(tmp_path / "container", V2 | root)
    delegate(tmp_path / "container/fs")
    tree.create("sparkpace/one")
    assert not (tmp_path / "container/fs" / REST).exists()


def why_none(tree: CgroupTree) -> str:
    with pytest.raises(Unavailable) as refused:
        tree.place_of_new(PID)
    return str(refused.value)


def test_the_place_of_new_groups_is_found_without_making_any(tmp_path: Path) -> None:
    assert plant(tmp_path / "1", V1).place_of_new(PID) == tmp_path / "1/fs/cpu/box/a"
    files = {
        "fs/box/cgroup.type": "domain\n",
        "fs/box/cgroup.controllers": "cpu memory\n",
        "fs/box/cgroup.subtree_control": "",
        "fs/box/a/cgroup.type": "domain\n",
        "fs/box/a/cgroup.controllers": "cpu\n",
        "fs/box/a/cgroup.subtree_control": "",
    }
    tree = plant(tmp_path / "2", V2 | files)
    before = sorted(tmp_path.rglob("*"))
    assert tree.place_of_new(PID) == tmp_path / "2/fs/box"
    delegate(tmp_path / "2/fs/box/a")
    assert tree.place_of_new(PID) == tmp_path / "2/fs/box/a", "its processes would make room"
    assert sorted(tmp_path.rglob("*")) == before


def test_where_no_groups_can_be_made_the_reason_is_said(tmp_path: Path) -> None:
    nothing = CgroupTree(tmp_path / "nothing", tmp_path / "proc")
    assert "in sight" in why_none(nothing)
    assert "in sight" in why_none(plant(tmp_path / "1", V1 | {"proc/4711/cgroup": "2:cpuacct:/b\n1:cpu:/b\n"}))
    box = tmp_path / "2/fs/box"
    tree = plant(tmp_path / "2", V2)
    assert why_none(tree) == f"control group {box} may not be written by this user"
    plant(tmp_path / "2", {"fs/box/cgroup.subtree_control": "", "fs/box/cgroup.controllers": "memory pids\n"})
    assert why_none(tree) == f"control group {box} has no CPU controller"
    inner = {"fs/box/cgroup.procs": "7\n", "fs/box/cgroup.type": "domain\n"}
    plant(tmp_path / "2", {"fs/box/cgroup.controllers": "cpu\n"} | inner)
    assert why_none(tree) == f"control group {box} holds processes itself"


@pytest.mark.parametrize(
    ("root", "box", "own", "least"),
    [
        ("max", "50000", "25000", 0.25),
        ("max", "20000", "25000", 0.2),
        ("10000", "20000", "max", 0.1),
        ("max", "max", "max", math.inf),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_of_all_quotas_over_a_process_the_least_counts(
    version: int, root: str, box: str, own: str, least: float, tmp_path: Path
) -> None:
    quotas = {"": root, "box/": box, "box/a/": own}
    if version == 2:
        files = V2 | {f"fs/{place}cpu.max": f"{quota} 100000\n" for place, quota in quotas.items()}
    else:
        files = V1 | {f"fs/cpu/{place}cpu.cfs_period_us": "100000\n" for place in quotas}
        files |= {f"fs/cpu/{place}cpu.cfs_quota_us": quota.replace("max", "-1") for place, quota in quotas.items()}
    assert plant(tmp_path, files).quota_over(PID) == least


@pytest.mark.parametrize("place", ["system.slice/docker-{}.scope", "docker/{}"], ids=["systemd", "cgroupfs"])
def test_on_v2_a_containers_group_is_found_where_either_driver_of_docker_makes_it(place: str, tmp_path: Path) -> None:
    identity = "0f12c00a36ab" * 5
    path = place.format(identity)
    tree = plant(tmp_path, V2 | {"proc/4711/cgroup": f"0::/{path}\n", f"fs/{path}/cpu.max": "70000 100000\n"})
    group = tree.group_of(PID, must_contain=identity)
    assert group is not None
    assert tree.read_quota(group) == 0.7
    assert tree.write_quota(group, 0.2)
    assert (tmp_path / "fs" / path / "cpu.max").read_text().startswith("20000 100000")
    assert tree.group_of(PID, must_contain="another") is None


def test_a_process_that_is_not_in_sight_has_the_quota_of_the_root(tmp_path: Path) -> None:
    assert plant(tmp_path, V2 | {"fs/cpu.max": "50000 100000\n"}).quota_over(PID + 1) == 0.5
    assert plant(tmp_path, V2 | {"fs/box/a/cpu.max": "emulated file\n"}).quota_over(PID) == 0.5
