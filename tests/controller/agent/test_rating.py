"""The thread for rates, around a thing with a limit that is in memory: what is set when, and what is lifted."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from controller.agent.core.arbitrate import CoreRequest
from controller.agent.core.rates import CALM_S, Pair, Sharer
from controller.agent.rating import UNSEEN_LOOKS, Rating, Sharing, lift_rates, sharers_of
from controller.machine.devices import whole_device
from controller.runtime.base import ExecutorKey, Runtime, TrafficPlace
from controller.runtime.cgroup.tree import CgroupTree
from stage_model.errors import RuntimeFailed, Unavailable
from tests.controller.runtime import rigs
from tests.fakes.options import agent_options
from tests.fakes.plans import plan
from tests.fakes.runtime import FakeRuntime
from tests.fakes.worker import FakeWorker, spec

LOW, HIGH = ExecutorKey("low", "1"), ExecutorKey("high", "1")
LIMIT = 1000.0


@dataclass
class Memory:
    """A disk in memory. Executors use `used` bytes per second each, at most their rates."""

    used: dict[ExecutorKey, float]
    done: dict[ExecutorKey, float] = field(default_factory=dict)
    rates: dict[ExecutorKey, Pair] = field(default_factory=dict)
    writes: int = 0
    fault: RuntimeFailed | None = None

    def pass_second(self) -> None:
        for key, used in self.used.items():
            most = self.rates[key][0] if key in self.rates else math.inf
            self.done[key] = self.done.get(key, 0.0) + min(used, most)

    def counts(self, key: ExecutorKey, place: TrafficPlace) -> tuple[int, int] | None:
        return (round(self.done.get(key, 0.0)), 0) if key in self.used else None

    def set(self, key: ExecutorKey, place: TrafficPlace, rates: Pair) -> None:
        if self.fault is not None:
            raise self.fault
        self.rates[key] = rates
        self.writes += 1

    def lift(self, key: ExecutorKey, place: TrafficPlace | None) -> None:
        if self.fault is not None:
            raise self.fault
        self.rates.pop(key, None)


class Machine:
    """A disk, what shares it and the time."""

    def __init__(self, **used: float) -> None:
        self.disk = Memory({ExecutorKey(name, "1"): rate for name, rate in used.items()})
        self.notes: list[str] = []
        self.sharing = Sharing(self.disk, LIMIT, self.notes.append)
        self.now_s = 0.0
        self.pids = {LOW: 11, HIGH: 12}

    def pass_time(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1.0
            self.disk.pass_second()
            sharers = [Sharer(CoreRequest(key, 0, 0, 100 if key == HIGH else 0)) for key in self.pids]
            self.sharing.look(sharers, {key: TrafficPlace(pid, Path("/")) for key, pid in self.pids.items()}, self.now_s)

    def low_rate(self) -> float | None:
        return sum(self.disk.rates[LOW]) if LOW in self.disk.rates else None


def test_the_low_one_is_held_while_the_high_one_is_there_and_free_afterwards() -> None:
    machine = Machine(low=1100.0, high=0.0)
    machine.pass_time(10)
    assert machine.disk.rates == {}
    machine.disk.used[HIGH] = 400.0
    machine.pass_time(10)
    assert machine.low_rate() == pytest.approx(400.0, abs=30)
    assert "the disk is busy" in machine.notes[0]
    machine.disk.used[HIGH] = 0.0
    machine.pass_time(round(CALM_S) + 8)
    assert machine.disk.rates == {}
    assert machine.notes[1:] == ["the disk is no longer busy: rates are lifted"]


@pytest.mark.parametrize(("low", "high"), [(500.0, 450.0), (950.0, 50.0), (0.0, 950.0)])
def test_the_low_one_is_held_within_two_looks_of_the_arrival(low: float, high: float) -> None:
    machine = Machine(low=low, high=0.0)
    machine.pass_time(10)
    assert machine.disk.rates == {}
    machine.disk.used[HIGH] = high
    machine.pass_time(2)
    assert machine.low_rate() == pytest.approx(max(50.0, LIMIT - 1.5 * high), abs=10)


def test_a_use_around_the_threshold_begins_and_ends_nothing_again_and_again() -> None:
    machine = Machine(low=500.0, high=300.0)
    for second in range(60):
        machine.disk.used[HIGH] = (300.0, 450.0, 100.0)[second % 3]
        machine.pass_time(1)
    assert len(machine.notes) == 1, machine.notes


def test_bursts_that_take_turns_are_no_full_disk() -> None:
    """The means of two executors that take turns are no use at one time."""
    machine = Machine(low=600.0, high=0.0)
    for second in range(60):
        machine.disk.used = {LOW: 600.0 * (second % 2), HIGH: 600.0 * (1 - second % 2)}
        machine.pass_time(1)
    assert machine.notes == []


def test_a_rate_that_stays_is_written_once() -> None:
    machine = Machine(low=1100.0, high=400.0)
    machine.pass_time(20)
    before = machine.disk.writes
    machine.pass_time(20)
    assert machine.disk.writes == before


def test_the_rate_of_an_executor_that_has_ended_is_lifted() -> None:
    machine = Machine(low=1100.0, high=400.0)
    machine.pass_time(10)
    assert LOW in machine.disk.rates
    del machine.pids[LOW]
    machine.pass_time(1)
    assert machine.disk.rates == {}


def test_an_executor_that_comes_again_with_its_name_gets_its_rate_again() -> None:
    machine = Machine(low=1100.0, high=400.0)
    machine.pass_time(20)
    machine.disk.rates.clear()  # they were those of the process that has ended
    machine.pids[LOW] = 13
    machine.pass_time(5)
    assert LOW in machine.disk.rates


def test_what_fails_is_said_and_tried_again() -> None:
    machine = Machine(low=1100.0, high=400.0)
    machine.disk.fault = RuntimeFailed("no such device")
    machine.pass_time(10)
    assert "no such device; tried again" in machine.notes
    machine.disk.fault = None
    machine.pass_time(1)
    assert LOW in machine.disk.rates
    machine.disk.used[HIGH], machine.disk.fault = 0.0, RuntimeFailed("busy")
    machine.pass_time(20)
    assert LOW in machine.disk.rates
    machine.disk.fault = None
    machine.pass_time(1)
    assert machine.disk.rates == {}


def test_an_executor_that_is_not_counted_is_said_once_and_has_no_rate() -> None:
    machine = Machine(high=1000.0)
    machine.pass_time(3 * UNSEEN_LOOKS)
    assert [note for note in machine.notes if "low/1" in note] == [
        "what executor low/1 uses of the disk is not seen from here, so it gets no rates"
    ]


def test_the_loop_says_who_shares_with_rank_and_what_the_deadline_asks_for(worker: FakeWorker) -> None:
    worker.want(
        [spec("low"), spec("high"), spec("seen", watched=True)],
        [
            plan("low", left_s=None, priority=0),
            plan("high", left_s=100.0, priority=100, bytes_left=(2e8, 1e8)),
            plan("seen", left_s=None),
        ],
    )
    worker.pass_time(3)
    agent = worker.agent
    found = {one.request.key: one for one in sharers_of(agent.known, agent.plans, agent.state, worker.now_s)}
    assert {key.application_id: one.request.priority for key, one in found.items()} == {"low": 0, "high": 100, "seen": 50}
    assert (found[LOW].asked, found[LOW].watched) == (None, False)
    assert list(found[HIGH].asked or ()) == pytest.approx([2e8 / 97, 1e8 / 97])
    assert found[ExecutorKey("seen", "1")].watched


class Grouped(FakeRuntime):
    """A runtime whose executors are all in one real control group."""

    grouped: TrafficPlace

    def place(self, key: ExecutorKey) -> TrafficPlace | None:
        return self.grouped


@pytest.fixture
def left(tmp_path: Path) -> Iterator[tuple[Runtime, Path, str]]:
    """Provide a runtime whose executor has a rate that an earlier agent has left, its group and the device."""
    tree = CgroupTree()
    try:
        device = whole_device(tmp_path)
    except Unavailable as error:
        pytest.skip(str(error))
    group = None if tree.why_no_rates() else tree.create(f"sparkpace-test-left-{os.getpid()}")
    if group is None or group.io is None:
        pytest.skip("no control group with rates can be made here")
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    tree.add(group, process.pid)
    tree.write_io_rates(group.io, device, (1e6, 1e6))
    rig = rigs.FakeRig(tmp_path)
    runtime = Grouped(rig.host, rig.cluster, "w1")
    runtime.grouped = TrafficPlace(process.pid, group.io)
    runtime.start(rig.launch(rigs.IDLE, key=LOW))
    yield runtime, group.io, device
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert tree.remove(group)


def rates_in(directory: Path) -> set[Pair]:
    """Return the rates in a group that hold something back."""
    return set((CgroupTree().io_rates(directory) or {}).values()) - {(math.inf, math.inf)}


def test_a_rate_that_an_earlier_agent_left_is_lifted_at_first_sight_whatever_the_options(
    left: tuple[Runtime, Path, str], tmp_path: Path
) -> None:
    runtime, directory, _ = left
    assert rates_in(directory) == {(1e6, 1e6)}
    rating = Rating(agent_options(tmp_path), "cluster", runtime, print, lambda: 1.0)
    rating.post([LOW], [])  # no plan has come yet
    rating.look(lambda: None)
    assert rates_in(directory) == set()


def test_an_opener_and_a_clean_stop_lift_all_and_nothing_is_set_afterwards(
    left: tuple[Runtime, Path, str], tmp_path: Path
) -> None:
    runtime, directory, device = left
    assert lift_rates(agent_options(tmp_path), "cluster", runtime)
    assert rates_in(directory) == set()
    rating = Rating(agent_options(tmp_path), "cluster", runtime, print, lambda: 1.0)
    CgroupTree().write_io_rates(directory, device, (1e6, 1e6))
    assert rating.close()
    assert rates_in(directory) == set()
    CgroupTree().write_io_rates(directory, device, (1e6, 1e6))
    rating.look(lambda: None)
    assert rates_in(directory) == {(1e6, 1e6)}, "a closed one looks no more"
