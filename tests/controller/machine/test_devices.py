"""The whole device of a folder, on planted trees of /sys: a disk, a partition, and a file system without a device."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.machine import devices
from controller.machine.devices import whole_device
from stage_model.errors import Unavailable


@pytest.fixture
def number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Provide the number of the device of the test's folder, of which nothing is known yet."""
    (tmp_path / "block").mkdir()
    monkeypatch.setattr(devices, "BLOCK_DEVICES", tmp_path / "block")
    found = tmp_path.stat().st_dev
    return f"{os.major(found)}:{os.minor(found)}"


def test_a_disk_is_its_own_device_and_a_folder_that_comes_later_is_on_that_of_its_parent(tmp_path: Path, number: str) -> None:
    (tmp_path / "sda").mkdir()
    (tmp_path / "sda/dev").write_text("8:0\n")
    (tmp_path / "block" / number).symlink_to(tmp_path / "sda")
    assert whole_device(tmp_path) == "8:0"
    assert whole_device(tmp_path / "not" / "yet") == "8:0"


def test_a_partition_has_the_device_of_its_disk(tmp_path: Path, number: str) -> None:
    (tmp_path / "sda/sda1").mkdir(parents=True)
    (tmp_path / "sda/dev").write_text("8:0\n")
    (tmp_path / "sda/sda1/dev").write_text("8:1\n")
    (tmp_path / "sda/sda1/partition").write_text("1\n")
    (tmp_path / "block" / number).symlink_to(tmp_path / "sda/sda1")
    assert whole_device(tmp_path) == "8:0"


def test_a_file_system_without_a_device_is_said(tmp_path: Path, number: str) -> None:
    with pytest.raises(Unavailable, match=f"{tmp_path} is on a file system"):
        whole_device(tmp_path)
