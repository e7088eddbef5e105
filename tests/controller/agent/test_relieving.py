"""A machine under pressure through the whole agent: what is written, said, ended and given back. Then its readings."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from controller.agent.core.relief import CALM_S, EVICT_S, MIB, STEP_S, Machine, Room
from controller.agent.relieving import MachineRoom
from controller.asks.local_limit import Disk
from controller.machine import proc
from controller.runtime.base import ExecutorKey
from stage_model.progress import MemoryProgress, StageProgress
from tests.fakes.options import agent_options
from tests.fakes.plans import plan
from tests.fakes.worker import FakeWorker, report_of, spec

LOW, HIGH = ExecutorKey("low", "1"), ExecutorKey("high", "1")
SHORT = Machine(memory=Room(180 * MIB, 300 * MIB))
ENOUGH = Machine(memory=Room(900 * MIB, 300 * MIB))
FULL = Machine(disk=Room(10 * MIB, 300 * MIB))
BUDGET_MB, FLOOR_MB = 1000, 64
DISK = Disk(100 * MIB, 20 * MIB)


def want(worker: FakeWorker, *, low: str = "1", evict: bool = False, watched: bool = False, priority: int = 0) -> None:
    """Have the master want a job that takes what is free, with its executor `low` (empty: none), and one of high priority
    that its law gives half a core."""
    specs = [*([spec("low", low, watched=watched)] if low else []), spec("high")]
    high = plan("high", 10_000.0, 5_000.0, deadline_s=20_000.0, priority=100, evict=evict)
    worker.want(
        [structs.replace(one, memory_mb=512, off_heap_floor_mb=FLOOR_MB) for one in specs],
        [*([plan("low", left_s=None, priority=priority)] if low else []), high],
        stopped=[] if low == "1" else [LOW.text],
        budgets_mb={f"low/{low}": BUDGET_MB, "high/1": BUDGET_MB},
    )


def say(worker: FakeWorker, key: ExecutorKey, order: int, budget_mb: int) -> None:
    """Write the progress of an executor with two tasks that has seen that order."""
    two_tasks = StageProgress(stage=1, attempt=0, running=2, done=0)
    worker.progress(key, two_tasks, memory=MemoryProgress(order=order, budget=budget_mb * MIB))


def memory(worker: FakeWorker, key: ExecutorKey) -> tuple[int, int]:
    """Return the ordered budget and the limit of memory, in MiB."""
    return worker.order(key)[1], (worker.runtime.observe()[key].memory_limit_bytes or 0) // MIB


def begin(worker: FakeWorker, *, evict: bool = False, watched: bool = False, priority: int = 0) -> None:
    want(worker, evict=evict, watched=watched, priority=priority)
    worker.tick()
    for key in (LOW, HIGH):
        worker.host.set_memory(key, 300 * MIB)
        say(worker, key, 1, BUDGET_MB)
    worker.tick()


def test_the_low_one_gives_memory_then_cores_and_has_both_again_afterwards_and_the_high_one_is_not_touched(
    worker: FakeWorker,
) -> None:
    begin(worker)
    before = worker.quotas()
    assert before[LOW] > 1.0
    worker.room = SHORT
    report = worker.tick()
    assert any("under pressure: this machine has 180 MiB of free memory" in note for note in report.notes)
    assert memory(worker, LOW)[0] == FLOOR_MB
    say(worker, LOW, 2, FLOOR_MB)
    worker.pass_time(STEP_S - 1)
    assert worker.quotas()[LOW] > 1.0
    report = worker.pass_time(2)
    assert memory(worker, LOW) == (FLOOR_MB, 512 + FLOOR_MB)
    assert worker.quotas()[LOW] == pytest.approx(0.1)
    assert report.relief_steps == 2
    mine = [sample for sample in report.samples if sample.application_id == "low"]
    [reason] = [one.reason for sample in mine for one in sample.ordered if one.cores == pytest.approx(0.1)]
    assert reason.endswith("; squeezed: this machine has 180 MiB of free memory")
    assert mine[-1].pressed

    worker.pass_time(100)
    assert worker.quotas()[LOW] == pytest.approx(0.1), "it is squeezed as long as the pressure lasts"
    assert worker.quotas()[HIGH] >= before[HIGH] - 0.1
    assert memory(worker, HIGH) == (BUDGET_MB, 512 + BUDGET_MB)
    worker.room = ENOUGH
    worker.pass_time(CALM_S + 1)
    assert worker.quotas()[LOW] > 1.0
    report = worker.pass_time(2 * CALM_S + 1)
    assert memory(worker, LOW) == (BUDGET_MB, 512 + BUDGET_MB)
    assert report.relief_steps == 0
    assert any("no longer under pressure" in note for note in report.notes)
    assert not any(
        "free memory" in one.reason for sample in report.samples if sample.application_id == "high" for one in sample.ordered
    )
    assert worker.running() == {LOW, HIGH}


def test_with_evict_the_low_one_ends_and_comes_back_when_there_is_room(worker: FakeWorker) -> None:
    begin(worker, evict=True)
    worker.room = SHORT
    report = worker.pass_time(STEP_S + EVICT_S + 3)
    assert worker.running() == {HIGH}
    ended = report_of(report, LOW)
    assert (ended.state, ended.made_room) == ("exited", True)
    assert "--evict" in ended.reason
    assert "180 MiB of free memory" in ended.reason
    assert len([note for note in report.notes if "executor 1 of low is ended" in note]) == 1

    # the master puts no other there before the first one is forgotten
    want(worker, low="", evict=True)
    worker.pass_time(5)
    assert LOW not in worker.agent.known
    again = ExecutorKey("low", "2")
    want(worker, low="2", evict=True)
    report = worker.pass_time(20)
    assert worker.running() == {HIGH}
    waits = report_of(report, again)
    assert (waits.state, "waits for room on worker w1" in waits.reason) == ("starting", True)
    worker.room = ENOUGH
    worker.pass_time(CALM_S + 2)
    assert worker.running() == {HIGH, again}


def test_a_watched_one_is_not_touched(worker: FakeWorker) -> None:
    begin(worker, watched=True, evict=True)
    before = worker.quotas()[LOW], memory(worker, LOW)
    worker.room = SHORT
    report = worker.pass_time(4 * EVICT_S)
    assert (worker.quotas()[LOW], memory(worker, LOW)) == before
    assert report.relief_steps == 0


def test_a_full_disk_takes_cores_and_no_memory(worker: FakeWorker) -> None:
    begin(worker, evict=True)
    worker.room = FULL
    worker.pass_time(4 * EVICT_S)
    assert worker.quotas()[LOW] == pytest.approx(0.1)
    assert memory(worker, LOW)[0] == BUDGET_MB
    assert worker.running() == {LOW, HIGH}


def test_of_one_priority_no_one_gives_and_the_pressure_is_said_all_the_same(worker: FakeWorker) -> None:
    begin(worker, priority=100)
    before = worker.quotas()
    worker.room = SHORT
    report = worker.pass_time(20)
    assert worker.quotas()[LOW] == pytest.approx(before[LOW], abs=0.11)
    assert (report.relief_steps, memory(worker, LOW)[0]) == (0, BUDGET_MB)
    assert len([note for note in report.notes if "under pressure" in note]) == 1


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
