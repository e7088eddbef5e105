"""Use of a disk by applications is measured, whatever they put there."""

from __future__ import annotations

import math
import os
import threading
from pathlib import Path

import pytest

from controller.agent.executors.local_use import BATCH, LEAST_BYTES, MOST_LEVELS, LocalUse, disk_of, kept_bytes
from controller.asks.local_limit import Disk, parse_local_limit

MIB = 1 << 20


def write(path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(os.urandom(size))


def test_files_count_with_their_blocks_wherever_they_lie(tmp_path: Path) -> None:
    write(tmp_path / "app/blockmgr/0a/shuffle", 3 * MIB)
    write(tmp_path / "logs/stdout", MIB)
    with (tmp_path / "app/hole").open("wb") as file:
        file.truncate(1 << 40)
    for number in range(100):
        (tmp_path / f"app/empty-{number}").touch()
    # three folders in it, and "hole"
    expected = 4 * MIB + 104 * LEAST_BYTES
    assert kept_bytes([tmp_path / "app", tmp_path / "logs"], math.inf) == pytest.approx(expected, abs=4 * LEAST_BYTES)


def test_links_lead_nowhere(tmp_path: Path) -> None:
    write(tmp_path / "other/big", 8 * MIB)
    (tmp_path / "app").mkdir()
    (tmp_path / "app/folder").symlink_to(tmp_path / "other")
    (tmp_path / "app/file").symlink_to(tmp_path / "other/big")
    (tmp_path / "app/round").symlink_to(tmp_path / "app")
    (tmp_path / "linked").symlink_to(tmp_path / "other")
    assert kept_bytes([tmp_path / "app"], math.inf) == 3 * LEAST_BYTES
    assert kept_bytes([tmp_path / "linked", tmp_path / "missing"], math.inf) == 0


def test_a_walk_ends_when_it_has_seen_enough_and_rests_on_the_way(tmp_path: Path) -> None:
    for number in range(4 * BATCH):
        (tmp_path / str(number)).touch()
    rests: list[int] = []
    assert kept_bytes([tmp_path], 2.5 * BATCH * LEAST_BYTES, lambda: rests.append(1)) == (2.5 * BATCH + 1) * LEAST_BYTES
    assert len(rests) == 2


def test_no_depth_of_folders_keeps_files_open_without_end(tmp_path: Path) -> None:
    (tmp_path / "/".join(["d"] * 3 * MOST_LEVELS)).mkdir(parents=True)
    before = set(Path("/proc/self/fd").iterdir())
    assert kept_bytes([tmp_path], math.inf) == MOST_LEVELS * LEAST_BYTES
    assert len(set(Path("/proc/self/fd").iterdir())) == len(before)


def test_an_application_that_keeps_too_much_is_named_and_its_neighbour_is_not(tmp_path: Path) -> None:
    write(tmp_path / "greedy/file", 3 * MIB)
    write(tmp_path / "modest/file", MIB)
    places = {name: [tmp_path / name] for name in ("greedy", "modest")}
    disk = Disk(100 * MIB, 10 * MIB)
    use = LocalUse(parse_local_limit("2m"), tmp_path)
    assert use.look(places, disk) == {
        "greedy": "its application keeps more than 2 MiB of files in the local directory of this host, which is all that "
        "--local-limit 2m allows"
    }
    assert LocalUse(parse_local_limit("none"), tmp_path).look(places, disk) == {}
    assert use.look(places, Disk(100 * MIB, 99 * MIB)) == {}


def test_the_thread_tells_each_finding_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.agent.executors.local_use.LOOK_S", 0.01)
    write(tmp_path / "app/file", 3 * MIB)
    use = LocalUse(parse_local_limit("1m"), tmp_path)
    stop, woken = threading.Event(), threading.Event()
    thread = threading.Thread(target=use.run, args=(lambda: {"app": [tmp_path / "app"]}, woken.set, stop, lambda: None))
    thread.start()
    try:
        assert woken.wait(60)
    finally:
        stop.set()
        thread.join()
    assert set(use.take()) == {"app"}
    assert use.take() == {}
    assert use.disk is not None
    assert use.disk.size == disk_of(tmp_path).size
    assert 0 < disk_of(tmp_path).free <= disk_of(tmp_path).size
