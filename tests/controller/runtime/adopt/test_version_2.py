"""Adopting on version 2, in folders that look like it; moving a process is writing its number."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.agent.open_quotas import let_go_all
from controller.runtime import launching
from controller.runtime.adopt.runtime import AdoptRuntime
from controller.runtime.cgroup.group import ADOPTED, Group
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.cgroup.v2 import REST
from stage_model.errors import RuntimeRefused
from tests.controller.runtime.adopt.adopting import adoption, control_files
from tests.controller.runtime.cgroup.planted import delegate
from tests.controller.runtime.rigs import BUSY, IDLE, KEY, AdoptRig
from tests.fakes.refusals import assert_names


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[AdoptRig]:
    made = AdoptRig(tmp_path)
    yield made
    made.close()


@pytest.fixture
def two(tmp_path: Path) -> CgroupTree:
    """Provide a tree of version 2 in which a service's group holds this test's processes; moving is writing a number."""
    (tmp_path / "cgroup.controllers").write_text("cpu\n")
    return CgroupTree(tmp_path)


def _service(tree_root: Path, *pids: int) -> Group:
    service = tree_root / "spark.service"
    service.mkdir()
    (service / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in pids))
    (service / "cgroup.subtree_control").write_text("")
    return Group(service, service, service)


def test_version_2_is_divided_only_where_its_owner_was_handed_it(two: CgroupTree, tmp_path: Path) -> None:
    service = _service(tmp_path)
    assert not two.delegated(service)
    delegate(service.cpu)
    assert two.delegated(service)


def test_on_version_2_a_made_group_weighs_100_for_each_slot_and_the_rest_as_the_whole_machine(
    two: CgroupTree, tmp_path: Path
) -> None:
    service = _service(tmp_path)
    for name in (REST, ADOPTED, f"{ADOPTED}/one", f"{ADOPTED}/many"):
        (service.cpu / name).mkdir()
        (service.cpu / name / "cpu.weight").write_text("100")
    one = two.create_below(service, "one", 3)
    assert int((one.cpu / "cpu.weight").read_text()) == 300
    assert int((service.cpu / ADOPTED / "cpu.weight").read_text()) == 300 + 100
    assert int((service.cpu / REST / "cpu.weight").read_text()) == 100 * (os.cpu_count() or 1)
    many = two.create_below(service, "many", 4096)
    assert int((many.cpu / "cpu.weight").read_text()) == 10_000, "the kernel refuses more"


class _InAService(CgroupTree):
    """Control groups of version 2 in which every process is in the service's."""

    def group_of(self, pid: int, must_contain: str = "") -> Group | None:
        service = self._root / "spark.service"
        return Group(service, service, service)


def _in_a_service(root: Path, *pids: int) -> tuple[Group, CgroupTree]:
    root.mkdir()
    (root / "cgroup.controllers").write_text("cpu\n")
    service = _service(root, *pids)
    (service.cpu / "cpu.max").write_text("max 100000\n")
    return service, _InAService(root)


def test_on_version_2_every_control_file_of_a_watched_executors_service_is_as_before(rig: AdoptRig, tmp_path: Path) -> None:
    what = dataclasses.replace(adoption(rig, BUSY), watched=True)
    service, tree = _in_a_service(tmp_path / "cgroups", what.claim.process.pid)
    before = control_files(service)
    runtime = AdoptRuntime(rig.cluster, "w1", tmp_path / "state", cgroups=tree)
    runtime.adopt(what)
    assert runtime.set_quota(KEY, 0.1)
    assert runtime.observe()[KEY].running
    assert let_go_all(runtime)
    assert control_files(service) == before


def test_on_version_2_a_plain_process_is_refused_where_its_group_may_not_be_divided(rig: AdoptRig, tmp_path: Path) -> None:
    """A worker that was started from a shell is in a group of the session, with others."""
    what, other = adoption(rig), rig.spawn(IDLE).process
    service, tree = _in_a_service(tmp_path / "cgroups", what.claim.process.pid, other.pid)
    before = control_files(service)
    runtime = AdoptRuntime(rig.cluster, "w1", tmp_path / "state", cgroups=tree)
    with pytest.raises(RuntimeRefused) as refused:
        runtime.adopt(what)
    assert_names(refused.value, service.cpu, "Delegate=yes", "systemd-run", "--signals")
    assert (runtime.observe(), control_files(service)) == ({}, before)
    runtime.close()


def test_on_version_2_an_executor_of_a_delegated_service_gets_a_quota_of_its_own(rig: AdoptRig, tmp_path: Path) -> None:
    what, other = adoption(rig, BUSY), rig.spawn(IDLE).process
    service, tree = _in_a_service(tmp_path / "cgroups", what.claim.process.pid, other.pid)
    delegate(service.cpu)
    (service.cpu / "cpu.max").write_text("30000 100000\n")
    made = service.cpu / ADOPTED / launching.unique_name(rig.cluster, "w1", KEY)
    made.mkdir(parents=True)
    for name in ("cpu.max", "cpu.stat", "cpu.weight", "cgroup.procs"):  # as the kernel makes them
        (made / name).write_text("")
    runtime = AdoptRuntime(rig.cluster, "w1", tmp_path / "state", cgroups=tree)
    runtime.adopt(what)
    assert (made / "cpu.max").read_text() == "30000 100000", "its service has no more"
    assert runtime.set_quota(KEY, 0.25)
    assert (made / "cpu.max").read_text() == "25000 100000"
    assert (made / "cgroup.procs").read_text() == str(what.claim.process.pid)
    runtime.close()


def test_the_rest_of_a_divided_group_is_divided_no_further(two: CgroupTree, tmp_path: Path) -> None:
    service = _service(tmp_path)
    rest = Group(service.cpu / REST, service.cpu / REST, service.cpu / REST)
    assert two.undivided(rest) == service
    assert two.undivided(service) == service
