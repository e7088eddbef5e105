"""Locks of a home: the holder of a lock is known, keeps others out, and lets go however it ends. Real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec
import pytest

from controller.home import Home
from controller.local.ending import stop
from controller.locks import Holder, agent_lock, child_lock, holder, master_lock, turn
from controller.machine.process import Process, find_process
from stage_model.errors import Unavailable
from tests.fakes.small_disk import SmallDisk

HOLD = """
import signal, sys
from pathlib import Path
from controller.home import Home
from controller.locks import child_lock, master_lock, turn
home = Home(Path(sys.argv[2]))
locks = {"master": lambda: master_lock(home, "https://there:1"), "older": lambda: master_lock(home, "http://there:1"),
         "child": lambda: child_lock(home, "w1", "docker"), "turn": lambda: turn(home)}
with locks[sys.argv[1]]():
    print("held", flush=True)
    signal.pause()
"""
Other = Callable[[str], subprocess.Popen[bytes]]


@pytest.fixture
def other(home: Home) -> Iterator[Other]:
    """Provide another process that holds the lock of a given name."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", HOLD, name, str(home.path)], stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_second_master_of_a_home_is_refused_and_the_sentence_names_the_first(home: Home, other: Other) -> None:
    first = other("master")
    with (
        pytest.raises(Unavailable, match=str(first.pid)) as refused,
        master_lock(home, "x"),
    ):
        pass
    assert refused.value.exit_code == 69
    assert holder(home.master_lock) == Holder(process=find_process(first.pid), note="https://there:1")
    assert home.master_lock.stat().st_mode & 0o777 == 0o600


def test_a_lock_ends_with_its_holder_however_that_ends(home: Home, other: Other) -> None:
    first = other("master")
    first.kill()
    first.wait()
    assert holder(home.master_lock) is None
    with master_lock(home, "https://here:2"):
        assert holder(home.master_lock) == Holder(process=find_process(os.getpid()), note="https://here:2")
    assert holder(home.master_lock) is None


def test_a_lock_is_held_also_where_its_holder_has_no_room_to_say_who_it_is(small_disk: SmallDisk) -> None:
    home = Home(small_disk.path / "home")
    home.create()
    small_disk.fill()
    with master_lock(home, "https://here"):
        assert holder(home.master_lock) == Holder(process=None)
        with pytest.raises(Unavailable, match="out of reach"), master_lock(home, "https://here"):
            pass
    assert holder(home.master_lock) is None


def test_a_holder_of_another_boot_or_namespace_is_out_of_reach_but_holds(home: Home, other: Other) -> None:
    other("master")
    elsewhere = Process(1, 1, "of another machine")
    home.master_lock.write_bytes(msgspec.json.encode(Holder(process=elsewhere, note="https://there:1")))
    assert holder(home.master_lock) == Holder(process=None, note="https://there:1")
    with pytest.raises(Unavailable, match="out of reach"), master_lock(home, "x"):
        pass


def test_a_new_agent_ends_the_child_that_outlived_the_last_one(home: Home, other: Other) -> None:
    orphan = other("child")
    with agent_lock(home, "w1"):
        assert orphan.wait(10) == -signal.SIGTERM
        with child_lock(home, "w1", "process"):
            assert holder(home.child_lock("w1")) == Holder(process=find_process(os.getpid()), note="process")


def test_a_worker_has_one_agent_and_other_workers_have_theirs(home: Home) -> None:
    with (
        agent_lock(home, "w1"),
        agent_lock(home, "w2"),
        pytest.raises(Unavailable, match="w1"),
        agent_lock(home, "w1"),
    ):
        pass


def test_up_and_down_take_turns(home: Home, other: Other) -> None:
    first = other("turn")
    with pytest.raises(Unavailable, match="`sparkpace down`"), turn(home):
        pass
    first.kill()
    first.wait()
    with turn(home):
        pass


def test_the_end_of_a_cluster_ends_a_master_that_cannot_be_called_and_says_so(home: Home, other: Other) -> None:
    older = other("older")
    stopped = stop(home, None)
    assert older.wait(60) == -signal.SIGTERM
    assert stopped is not None
    assert stopped.left == []
    [note] = stopped.notes
    assert "'http://there:1'" in note
