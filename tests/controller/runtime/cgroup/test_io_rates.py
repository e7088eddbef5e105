"""Rates of block devices in control groups: on planted files of both versions, and on the real kernel."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from controller.machine.devices import whole_device
from controller.runtime.cgroup.tree import CgroupTree
from stage_model.errors import Unavailable
from tests.controller.runtime.cgroup.planted import IO_V1, IO_V2, PID, V1, V2, plant

DEVICE = "8:0"


def directory_in(tree: CgroupTree) -> Path:
    found = tree.group_of(PID)
    assert found is not None
    assert found.io is not None
    return found.io


@pytest.mark.parametrize("files", [IO_V1, IO_V2], ids=["v1", "v2"])
def test_bytes_and_rates_are_read_by_device(tmp_path: Path, files: dict[str, str]) -> None:
    tree = plant(tmp_path, files)
    directory = directory_in(tree)
    assert tree.io_bytes(directory, DEVICE) == (1000, 200)
    assert tree.io_bytes(directory, "8:32") == (0, 0)
    assert tree.io_rates(directory) == {DEVICE: (5_000_000, math.inf)}
    assert tree.why_no_rates() == ""


@pytest.mark.parametrize("files", [V1, V2], ids=["v1", "v2"])
def test_without_the_controller_nothing_is_known_and_the_reason_is_said(tmp_path: Path, files: dict[str, str]) -> None:
    tree = plant(tmp_path, files)
    assert tree.io_bytes(tmp_path, DEVICE) is None
    assert tree.io_rates(tmp_path) is None
    assert tree.why_no_rates()
    assert not tree.write_io_rates(tmp_path, DEVICE, (1.0, 1.0))


def test_without_control_groups_that_is_the_reason(tmp_path: Path) -> None:
    assert "no control groups" in CgroupTree(tmp_path / "nothing").why_no_rates()


@pytest.mark.parametrize("files", [IO_V1, IO_V2], ids=["v1", "v2"])
def test_where_new_groups_can_have_no_rates_the_reason_names_the_group(tmp_path: Path, files: dict[str, str]) -> None:
    handed = {"fs/box/cgroup.controllers": "cpu io memory\n", "fs/box/cgroup.subtree_control": ""}
    tree = plant(tmp_path, {**files, **(handed if files is IO_V2 else {})})
    assert tree.why_no_new_rates(PID) == ""
    if files is IO_V2:  # as systemd does for a session
        (tmp_path / "fs/box/cgroup.controllers").write_text("cpu memory pids\n")
        assert tree.why_no_new_rates(PID) == f"control group {tmp_path}/fs/box has no I/O controller"
    else:
        (tmp_path / "proc/4711/cgroup").write_text(V1["proc/4711/cgroup"])
        assert "blkio" in tree.why_no_new_rates(PID)


def test_version_1_has_a_file_for_each_direction(tmp_path: Path) -> None:
    tree = plant(tmp_path, IO_V1)
    directory = directory_in(tree)
    assert tree.write_io_rates(directory, DEVICE, (1_500_000.4, math.inf))
    assert (directory / "blkio.throttle.read_bps_device").read_text().startswith("8:0 1500000")
    assert (directory / "blkio.throttle.write_bps_device").read_text() == "8:0 0"


def test_version_1_is_made_to_count_a_device_that_the_kernel_does_not_count_yet(tmp_path: Path) -> None:
    tree = plant(tmp_path, IO_V1)
    directory = directory_in(tree)
    rates = directory / "blkio.throttle.read_bps_device"
    tree.count_io(directory, DEVICE)
    assert rates.read_text() == "8:0 5000000\n", "it counts, and the rate stays"
    (directory / "blkio.throttle.io_service_bytes").write_text("Total 0\n")  # Linux 6.10 and newer
    rates.write_text("")
    tree.count_io(directory, DEVICE)
    assert rates.read_text() == "8:0 0"
    tree.count_io(tmp_path / "gone", DEVICE)


def test_version_2_has_one_file_and_the_other_limits_stay(tmp_path: Path) -> None:
    tree = plant(tmp_path, IO_V2)
    directory = directory_in(tree)
    (directory / "io.max").write_text("")
    assert tree.write_io_rates(directory, DEVICE, (1_500_000.4, math.inf))
    assert (directory / "io.max").read_text() == "8:0 rbps=1500000 wbps=max"


def test_the_kernel_takes_rates_for_a_real_device_shows_them_and_lets_them_go(tmp_path: Path) -> None:
    tree = CgroupTree()
    try:
        device = whole_device(tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    if reason := tree.why_no_rates():
        pytest.skip(reason)
    group = tree.create(f"sparkpace-test-rates-{os.getpid()}")
    if group is None or group.io is None:
        pytest.skip("no control group can be made here")
    try:
        assert tree.io_rates(group.io) == {}
        tree.count_io(group.io, device)
        assert tree.io_bytes(group.io, device) == (0, 0)
        assert tree.io_rates(group.io) == {}, "what begins to count holds nothing"
        assert tree.write_io_rates(group.io, device, (2_000_000, 1_000_000))
        assert tree.io_rates(group.io) == {device: (2_000_000, 1_000_000)}
        assert tree.write_io_rates(group.io, device, (math.inf, math.inf))
        assert tree.io_rates(group.io) in ({}, {device: (math.inf, math.inf)})
        assert not tree.write_io_rates(group.io, "4095:7", (1.0, 1.0)), "there is no such device"
    finally:
        assert tree.remove(group)
