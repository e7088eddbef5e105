"""The simulators of placement: what they count adds up, and the same seed gives the same run."""

from __future__ import annotations

import pytest

from experiments.simulator import spillover, waiting
from experiments.simulator.spillover import Node, TaskKind
from experiments.simulator.waiting import SCHEDULERS, Setup
from placement.policies import POLICIES

NODES = (Node(cores=4, memory_mb=8000), Node(cores=2, memory_mb=4000))
KINDS = (TaskKind(cores=1, memory_mb=500, work_core_s=10),)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_run_is_the_same_again_and_does_no_more_than_the_workers_can(policy: str) -> None:
    first, again = (spillover.simulate_spillover(NODES, KINDS, policy, 1.2, 7, 200.0) for _ in range(2))
    assert first == again
    assert 0 < first.throughput <= 1
    assert first.slowdown >= 1


def test_a_task_by_itself_takes_its_own_time() -> None:
    row = spillover.simulate_spillover((Node(cores=4, memory_mb=8000),), KINDS, "random", 0.25, 3, 500.0)
    assert row.slowdown == pytest.approx(1.0)
    assert row.waited == 0.0


def test_what_does_not_fit_waits_and_gets_its_turn() -> None:
    wide = (TaskKind(cores=2, memory_mb=500, work_core_s=10),)
    row = spillover.simulate_spillover((Node(cores=2, memory_mb=8000),), wide, "smooth-wrr", 2.0, 3, 500.0)
    # of two tasks one runs at a time: each waits as long as the other takes, and the worker never rests
    assert row.waited > 0
    assert row.slowdown > 1.5
    assert row.tasks > 50


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_all_maps_are_done_once(scheduler: str) -> None:
    first, again = (waiting.simulate_waiting(Setup(jobs=2), scheduler, (2, 4), 5) for _ in range(2))
    assert first == again
    assert [row.maps for row in first] == [2, 4]
    for row in first:
        assert 0 <= row.local <= 1
        # twelve maps on twenty free slots: their own time, moving a block, the wait and two heartbeats
        assert 15 < row.mean_s < 2 * 20 + 5.12 + 4.5 + 2 * 3


def test_the_order_of_jobs_is_drawn_and_the_same_under_each_scheduler() -> None:
    setup, small_first = Setup(machines=1, slots=1, copies=1, task_cv=0.0), set()
    for seed in range(20):
        fifo, rfd = (waiting.simulate_waiting(setup, scheduler, (1, 2), seed) for scheduler in ("fifo", "rfd-intended"))
        # every block is on the one machine
        assert [row.mean_s for row in fifo] == [row.mean_s for row in rfd]
        small, large = fifo
        small_first.add(small.mean_s < large.mean_s)
    assert small_first == {True, False}


def test_with_a_copy_of_every_block_on_every_machine_all_maps_are_local() -> None:
    for scheduler in SCHEDULERS:
        [row] = waiting.simulate_waiting(Setup(copies=10), scheduler, (16,), 5)
        assert row.local == 1.0


def test_a_forecast_is_judged_by_the_requests_that_came() -> None:
    # one slot, three maps of 20 s: it asks at 0, 21 and 42 s, when the beats after the maps' ends are. Every 6 s, the first
    # beat after TT, the forecast is 5.12 * 1 * 1 / 20 = 0.26: wrong at 0, 18 and 42 s, right at 6, 12, 24, 30 and 36 s.
    setup = Setup(machines=1, slots=1, copies=1, task_cv=0.0)
    [row] = waiting.simulate_waiting(setup, "fifo", (3,), 5)
    assert (row.forecasts, row.right, row.near, row.waits_right) == (8, 5, 8, 5)


def test_fair_waits_for_a_local_map_and_fifo_does_not() -> None:
    [fifo], [fair] = (waiting.simulate_waiting(Setup(copies=1), scheduler, (4,), 11) for scheduler in ("fifo", "fair"))
    assert fair.local > fifo.local
