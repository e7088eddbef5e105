"""Readings of this machine, by options and runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.agent.core.relief import MIB, Machine
from controller.agent.machine_room import MachineRoom
from controller.asks.local_limit import Disk
from controller.machine import proc
from tests.fakes.options import agent_options

DISK = Disk(100 * MIB, 20 * MIB)


def look(home: Path, disk: Disk | None = DISK, **changed: str) -> Machine:
    return MachineRoom(agent_options(home, **changed), lambda: disk).look()


def test_memory_and_disk_are_measured_against_the_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "PROC", tmp_path)
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/memory").write_text(
        "some avg10=91.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=12.50 avg60=0.00 avg300=0.00 total=1\n"
    )
    found = look(tmp_path, least_free_memory="100m", least_free_disk="30%")
    assert found.memory is not None
    assert (found.memory.least, found.memory.waiting) == (100 * MIB, 0.125)
    assert found.memory.free > 0
    assert found.disk is not None
    assert found.disk.free == 20 * MIB
    assert found.disk.least == pytest.approx(30 * MIB)


def test_without_the_kernels_count_of_waiting_free_memory_is_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "PROC", tmp_path)
    found = look(tmp_path)
    assert found.memory is not None
    assert found.memory.waiting == 0.0


def test_what_no_one_asks_for_and_what_is_not_known_is_never_short(tmp_path: Path) -> None:
    assert look(tmp_path, least_free_memory="none", least_free_disk="none") == Machine()
    assert look(tmp_path, None).disk is None


def test_of_executors_of_others_no_disk_is_read_and_of_pods_nothing(tmp_path: Path) -> None:
    adopts = look(tmp_path, runtime="adopt")
    assert (adopts.memory is None, adopts.disk) == (False, None)
    assert look(tmp_path, runtime="kubernetes") == Machine()
