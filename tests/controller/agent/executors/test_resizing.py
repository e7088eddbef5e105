"""Memory through the whole agent on a machine in memory: orders, answers, limits, starts, restarts."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest

from controller.agent.executors.resizing import NAME
from controller.runtime.base import ExecutorKey, Observed
from controller.wire.worker import WorkerSync
from stage_model.errors import RuntimeFailed
from stage_model.plan import ApplicationPlan, StagePlan
from stage_model.progress import MemoryProgress
from tests.fakes.runtime import FakeRuntime
from tests.fakes.worker import CLUSTER, FakeWorker, report_of, spec

FIRST, SECOND = ExecutorKey("first", "1"), ExecutorKey("second", "1")
MB = 1 << 20
STAGE = StagePlan(stage=1, attempt=0, tasks=20)
"""Work waits, so an executor wants all its slots."""


def want(worker: FakeWorker, stopped: tuple[str, ...] = (), watched: tuple[str, ...] = (), **budgets: int) -> None:
    """Have the master want these applications with these budgets; each needs 1000 MiB besides."""
    worker.want(
        [spec(name, memory_mb=1000, off_heap_floor_mb=64, watched=name in watched) for name in budgets],
        [
            ApplicationPlan(application_id=name, name=name, priority=50 if name == "first" else 60, stages=(STAGE,))
            for name in budgets
        ],
        stopped=stopped,
        budgets_mb={f"{name}/1": mb for name, mb in budgets.items()},
    )


def answer(worker: FakeWorker, key: ExecutorKey, number: int, budget_mb: int, execution_mb: int = 0) -> None:
    progress = MemoryProgress(order=number, budget=budget_mb * MB, execution=execution_mb * MB, storage=5)
    worker.progress(key, memory=progress)


def limits(worker: FakeWorker) -> dict[str, int]:
    return {
        key.application_id: (seen.memory_limit_bytes or 0) // MB
        for key, seen in worker.runtime.observe().items()
        if seen.running
    }


def alone(worker: FakeWorker) -> None:
    """Give all memory to the first: 4096 - 1000."""
    want(worker, first=3096)
    worker.pass_time(2)
    worker.host.set_memory(FIRST, 900 * MB)
    answer(worker, FIRST, 1, 3096)
    worker.tick()


def notes(sync: WorkerSync) -> str:
    return "\n".join(sync.notes)


def test_an_executor_starts_with_its_budget_in_a_directory_it_may_read(worker: FakeWorker) -> None:
    alone(worker)
    assert limits(worker) == {"first": 4096}
    assert worker.order(FIRST) == (1, 3096)
    directory = worker.site.orders_dir(FIRST)
    assert directory.stat().st_mode & 0o777 == 0o755
    assert (directory / NAME).stat().st_mode & 0o777 == 0o644
    [(_, _, _, launch)] = [(*place, one.launch) for place, one in worker.host.executors.items()]
    assert next(bind for bind in launch.binds if bind.path == directory).writable is False


def test_the_first_shrinks_the_second_starts_and_the_first_grows_again(worker: FakeWorker) -> None:
    alone(worker)
    want(worker, first=1048, second=1048)
    found = report_of(worker.tick(), SECOND)
    assert (found.state, found.reason) == ("starting", "other executors on worker w1 are still giving up the memory it needs")
    assert worker.order(FIRST) == (2, 1048)
    assert limits(worker) == {"first": 4096}
    answer(worker, FIRST, 2, 2900)  # on its way
    worker.tick()
    assert limits(worker) == {"first": 3900}
    answer(worker, FIRST, 2, 1048)
    worker.pass_time(2)
    assert limits(worker) == {"first": 2048, "second": 2048}
    assert worker.order(SECOND) == (1, 1048)
    want(worker, stopped=("second/1",), first=3096)
    worker.tick()
    assert limits(worker) == {"first": 2048}  # its room was still taken when the period began
    worker.pass_time(2)
    assert limits(worker) == {"first": 4096}
    assert worker.order(FIRST) == (3, 3096)


def test_an_executor_that_waits_for_memory_holds_no_cores_and_a_shrinking_one_gets_a_core(worker: FakeWorker) -> None:
    alone(worker)
    want(worker, first=1048, second=1048)
    worker.pass_time(2)
    # all of the worker: the second, of higher priority, has no executor yet
    assert worker.quotas() == {FIRST: 2.0}
    answer(worker, FIRST, 2, 1900)
    worker.pass_time(2)
    # the second runs on what is free, and is served first; the first still shrinks and keeps a core
    assert worker.quotas() == {FIRST: 1.0, SECOND: 1.0}
    answer(worker, FIRST, 2, 1048)
    worker.tick()
    assert worker.quotas() == {FIRST: 0.1, SECOND: 1.9}


def test_a_watched_one_starts_with_as_much_again_as_its_other_memory_and_gets_no_order_afterwards(worker: FakeWorker) -> None:
    want(worker, watched=("first",), first=3096)
    worker.pass_time(2)
    worker.host.set_memory(FIRST, 900 * MB)
    answer(worker, FIRST, 1, 1000)
    assert (worker.order(FIRST), limits(worker)) == ((1, 1000), {"first": 2000})
    for budget_mb in (500, 3096):
        want(worker, watched=("first",), first=budget_mb, second=1048)
        worker.pass_time(3)
        assert worker.order(FIRST) == (1, 1000)
        # the second starts in what the first has left
        assert limits(worker) == {"first": 2000, "second": 2048}


def test_what_it_says_is_reported(worker: FakeWorker) -> None:
    alone(worker)
    answer(worker, FIRST, 1, 3096, execution_mb=17)
    found = report_of(worker.tick(), FIRST)
    assert (found.memory_limit_mb, found.off_heap_mb, found.off_heap_execution_mb, found.off_heap_storage_mb) == (
        4096,
        3096,
        17,
        1,
    )


def test_a_new_agent_goes_on_with_the_numbers_of_the_old_one(worker: FakeWorker) -> None:
    alone(worker)
    want(worker, first=1048)
    worker.tick()
    assert worker.order(FIRST) == (2, 1048)
    worker.restart()
    want(worker, first=500)
    worker.tick()
    assert worker.order(FIRST) == (3, 500)
    assert limits(worker) == {"first": 4096}
    answer(worker, FIRST, 3, 500)
    worker.tick()
    assert limits(worker) == {"first": 1500}


def test_without_the_master_the_last_split_stays(worker: FakeWorker) -> None:
    alone(worker)
    worker.restart()
    worker.pass_time(3)
    assert limits(worker) == {"first": 4096}
    assert worker.order(FIRST) == (1, 3096)


def test_a_limit_that_cannot_be_lowered_starts_no_executor_and_is_reported_once(worker: FakeWorker) -> None:
    alone(worker)
    worker.host.faults["set_memory_limit", FIRST] = RuntimeFailed("the engine is busy; try again")
    want(worker, first=1048, second=1048)
    worker.tick()
    answer(worker, FIRST, 2, 1048)
    report = worker.pass_time(3)
    assert limits(worker) == {"first": 4096}
    assert notes(report).count("the engine is busy") == 1
    worker.host.faults.clear()
    worker.pass_time(2)
    assert limits(worker) == {"first": 2048, "second": 2048}


def test_an_order_that_cannot_be_written_raises_no_budget(worker: FakeWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(worker)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    monkeypatch.setattr(Path, "replace", full)
    want(worker, first=1048)
    report = worker.tick()
    assert "No space left on device" in notes(report)
    assert worker.order(FIRST) == (1, 3096)


def test_an_executor_of_fixed_size_gets_no_orders_and_waits_for_its_room(worker: FakeWorker) -> None:
    alone(worker)
    both = [spec("first", memory_mb=1000, off_heap_floor_mb=64), spec("second", memory_mb=2000)]
    worker.want(both)
    worker.pass_time(2)
    assert limits(worker) == {"first": 4096}
    worker.want(both, budgets_mb={"first/1": 1096})
    worker.tick()
    answer(worker, FIRST, 2, 1096)
    worker.pass_time(2)
    assert limits(worker) == {"first": 2096, "second": 2000}
    assert not worker.site.orders_dir(SECOND).exists()


def test_what_is_over_leaves_no_orders_behind(worker: FakeWorker) -> None:
    alone(worker)
    worker.want(stopped=["first/1"], ended=["first"])
    worker.pass_time(4)
    assert worker.agent.known == {}
    assert not worker.site.orders_dir(FIRST).exists()


def test_a_shrink_that_takes_long_is_reported_once(worker: FakeWorker) -> None:
    alone(worker)
    want(worker, first=1048)
    worker.tick()
    answer(worker, FIRST, 2, 2000, execution_mb=1990)
    report = worker.pass_time(40)
    assert notes(report).count("has not come down to 1048 MiB of off-heap memory for 30 s; its tasks hold 1990 MiB") == 1


def test_where_nothing_limits_memory_budgets_move_all_the_same_and_it_is_said_once(worker: FakeWorker) -> None:
    worker.agent.runtime = worker.agent.quota_writer.runtime = worker.launcher.runtime = _NoLimits(worker.host, CLUSTER, "w1")
    alone(worker)
    want(worker, first=1048, second=1048)
    worker.tick()
    assert worker.order(FIRST) == (2, 1048)
    answer(worker, FIRST, 2, 1048)
    report = worker.pass_time(3)
    assert worker.order(SECOND) == (1, 1048)
    assert report_of(report, FIRST).memory_limit_mb == 2048
    assert notes(report).count("nothing here can limit its memory") == 2  # one each


class _NoLimits(FakeRuntime):
    def observe(self) -> dict[ExecutorKey, Observed]:
        return {key: dataclasses.replace(seen, memory_limit_bytes=None) for key, seen in super().observe().items()}

    def set_memory_limit(self, key: ExecutorKey, memory_bytes: int) -> bool:
        raise AssertionError("no limit may be set")
