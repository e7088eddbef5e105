"""The baselines do to their jobs what YARN, BiG-C, standalone Spark and cpu-shares do."""

from __future__ import annotations

import pytest

from experiments.simulator.engine import Control, Engine
from experiments.simulator.jobs import SimJob, SimStage
from experiments.simulator.schedulers import FIFO, PREEMPTIVE, RESERVE, Queued, Shares
from experiments.simulator.state import App, SimSubmission, workers

TEN = 10
"""Workers of one core: shares are whole cores."""


def job(tasks: int, seconds: float) -> SimJob:
    return SimJob((SimStage((seconds,) * tasks),))


def ran(control: Control, *submissions: SimSubmission) -> list[App]:
    return Engine(workers(TEN, 1.0), submissions, control).run()


def test_fifo_gives_all_cores_in_order_of_arrival() -> None:
    # each takes 20 core-seconds: 2 s on ten cores; the second has to wait
    first, second = ran(Queued(FIFO), SimSubmission(job(20, 1.0)), SimSubmission(job(20, 1.0), at_s=0.5))
    assert first.end_s == pytest.approx(2.0)
    assert second.end_s == pytest.approx(4.0)


def test_fifo_starts_the_next_with_what_is_left() -> None:
    # 6 cores for the first; the second asks for 6 as well, has 4 at first and the other 2 when the first has ended
    first, second = ran(Queued(FIFO), SimSubmission(job(12, 1.0), cores=6), SimSubmission(job(16, 1.0), cores=6))
    assert first.end_s == pytest.approx(2.0)
    # 4 each second until 2, then 6: 8 + 6 + 2
    assert second.end_s == pytest.approx(4.0)


def test_reserved_cores_go_to_no_other_queue() -> None:
    # the long one has 6 cores, though no job is there for the other 4
    (alone,) = ran(Queued(RESERVE), SimSubmission(job(12, 1.0), kind="long", cores=10))
    assert alone.end_s == pytest.approx(2.0)


def test_killing_gives_the_short_one_its_cores_and_costs_the_long_one_its_work() -> None:
    # long: 6 cores for 60 tasks of 2. Short, at 1: 4 are free, 4 of the long one's are killed one second into their tasks
    long, short = ran(
        Queued(PREEMPTIVE, "kill"),
        SimSubmission(job(60, 2.0), kind="long", cores=6),
        SimSubmission(job(8, 1.0), at_s=1.0, kind="short", cores=8),
    )
    assert short.end_s == pytest.approx(2.0)
    assert long.lost_core_s == pytest.approx(4.0)
    assert long.used_core_s == pytest.approx(60 * 2.0 + 4.0)


def test_suspending_loses_nothing_and_gives_back_no_more_than_was_taken() -> None:
    long, short = ran(
        Queued(PREEMPTIVE, "suspend"),
        SimSubmission(job(60, 2.0), kind="long", cores=6),
        SimSubmission(job(8, 1.0), at_s=1.0, kind="short", cores=8),
    )
    assert short.end_s == pytest.approx(2.0)
    assert long.lost_core_s == 0
    # 4 of 6 executors stood (nearly) still for a second: 120 core-seconds on 6 cores take 20 s, all in tasks of 2 s
    assert long.end_s is not None
    assert 20.5 < long.end_s <= 22.0


def test_shares_are_by_weight_and_nothing_is_wasted() -> None:
    # both use every core: 3 to 1, until the heavy one ends; then the light one has all. A worker: 1 core, tasks of 3 and 1
    heavy, light = ran(
        Shares(lambda app: 3.0 if app.asked.kind == "heavy" else 1.0),
        SimSubmission(job(TEN, 3.0), kind="heavy"),
        SimSubmission(job(TEN, 2.0), kind="light"),
    )
    assert heavy.end_s == pytest.approx(4.0)
    assert light.end_s == pytest.approx(5.0)
