"""Figs. 5 to 7: arrivals that a seed repeats and a load sets, orders of every scheduler, conditions on made-up streams."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from experiments.harness.recorded import Data, JobRecord, StepRecord
from experiments.scenarios import make_scenario
from experiments.scenarios.preemption import Preemption, PreemptionLimits
from stage_model.errors import BadInput
from tests.fakes.recorded import job_record, samples_of, step_record

CAPACITY = {"w1": 0.8, "w2": 0.8}
SCENARIO = Preemption(
    short={"abk": ("abk.py",), "sbk": ("sbk.py",)},
    long={"rank": ("rank.py",)},
    schedulers=("fifo", "kill", "sparkpace"),
    window_s=300,
    load=0.6,
    against={"kill": PreemptionLimits(short_p95=1.0, long_mean=0.65), "fifo": PreemptionLimits(long_mean=1.05)},
    most_outside=0.4,
)


def stream(scheduler: str, short_s: list[float], long_s: list[float], given_up: int = 0, **fields: Any) -> StepRecord:
    """Make data of jobs that waited 2 s to be submitted and had their first task 10 s after that."""
    ends = [(f"abk-{n}", end_s) for n, end_s in enumerate(short_s)]
    ends += [(f"rank-{n}", 10 + time_s) for n, time_s in enumerate(long_s)]
    jobs = [job_record(job, f"{scheduler}-{job}", end_s=end_s, **fields) for job, end_s in ends]
    jobs = [msgspec.structs.replace(job, arrived_epoch_s=998.0) for job in jobs]
    return record(f"{scheduler}-0", *jobs, given_up={f"abk-{90 + n}": 100.0 for n in range(given_up)})


def record(step: str, *jobs: JobRecord, given_up: dict[str, float] | None = None) -> StepRecord:
    plain = step_record(step, *jobs)
    return msgspec.structs.replace(plain, outside_core_s=35.0, capacity=CAPACITY, given_up=given_up or {})


def story(*streams: StepRecord) -> Data:
    alone = [
        record(step, job_record("abk", f"{step}-a", end_s=40), job_record("sbk", f"{step}-s", end_s=56)) for step in BASES
    ]
    steps = [*alone, *streams]
    samples = {job.app_id: samples_of([(10, 40, 0.1)]) for step in steps for job in step.jobs}
    return Data({step.step: step for step in steps}, samples)


BASES = ("base", "learn")
GOOD = (stream("fifo", [90, 99], [100]), stream("kill", [50, 80], [170]), stream("sparkpace", [60, 70], [100]))


def failing(data: Data) -> list[str]:
    return [condition.name for condition in SCENARIO.conditions(data) if not condition.holds]


def test_arrivals_repeat_and_ask_for_the_load() -> None:
    data = story()
    arrivals = SCENARIO.arrivals(0, data)
    assert arrivals == SCENARIO.arrivals(0, data)
    assert arrivals != SCENARIO.arrivals(1, data)
    times = [time_s for _, time_s in arrivals]
    assert times == sorted(times)
    # a job by itself takes 48 s on one of four workers: at 60% one comes every 48 / (4 * 0.6) = 20 s
    assert SCENARIO.every_s(data) == pytest.approx(20)
    # 300 s have 15 of them, of both kinds, and so have the next 300; there is no pattern within
    assert [sum(start_s <= time_s < start_s + 300 for time_s in times) for start_s in (0, 300)] == [15, 15]
    assert len(times) == 30
    assert sorted(Counter(kind for kind, time_s in arrivals if time_s < 300).values()) == [7, 8]
    gaps = [after - before for before, after in pairwise(times)]
    # of a Poisson stream gaps differ by as much as they are long
    assert statistics.stdev(gaps) == pytest.approx(20, rel=0.5)
    heavier = msgspec.structs.replace(SCENARIO, load=0.8)
    assert heavier.every_s(data) == pytest.approx(15)


def test_every_scheduler_meets_the_same_arrivals() -> None:
    data = story()
    plays = {name: SCENARIO.play(f"{name}-0", data) for name in (*SCENARIO.schedulers, "suspend")}
    assert len({tuple((o.job, o.words, o.delay_s) for o in play.shorts) for play in plays.values()}) == 1
    stock, ours, suspended = (plays[name].shorts[0] for name in ("kill", "sparkpace", "suspend"))
    assert (stock.deadline_s, stock.options) == (None, ())
    assert ours.deadline_s == {"abk": 40, "sbk": 56}[ours.job.partition("-")[0]]
    assert (ours.priority, ours.options) == ("high", ("--num-executors", "1"))
    # BiG-C: constantly its size, 0.4 core of one worker
    assert suspended.options[-1] == "spark.pace.law.constant.cores=0.4"
    assert suspended.priority == "high"
    [long] = plays["sparkpace"].longs
    assert (long.job, long.priority, long.deadline_s, long.options) == ("rank", "low", None, ("--num-executors", "4"))
    [long] = plays["suspend"].longs
    assert long.options[-1] == "spark.pace.law.constant.cores=0.8"


def test_where_jobs_share_workers_stock_jobs_have_as_many_executors_as_sparkpaces() -> None:
    wide = msgspec.structs.replace(SCENARIO, short_executors=2)
    assert wide.play("shares-0", story()).executors == {"short": 2, "long": 4}
    assert wide.play("kill-0", story()).executors == {"short": 1, "long": 2}


def test_the_kinds_run_by_themselves_first() -> None:
    assert SCENARIO.steps() == ["base", "learn", "fifo-0", "kill-0", "sparkpace-0"]
    base, learn = (SCENARIO.play(step, Data()) for step in BASES)
    assert (base.scheduler, learn.scheduler) == ("fifo", "sparkpace")
    assert [(o.job, o.delay_s, o.deadline_s) for o in base.shorts] == [("abk", 0.0, None), ("sbk", 15.0, None)]
    assert base.longs == learn.longs == ()
    # all of them count, however long they take
    assert all(order.delay_s < base.window_s for order in base.shorts)


def test_fixed_times_take_the_kinds_in_turn() -> None:
    fixed = msgspec.structs.replace(SCENARIO, load=None, arrivals_s=(5.0, 6.0, 7.0))
    assert fixed.arrivals(0, Data()) == [("abk", 5.0), ("sbk", 6.0), ("abk", 7.0)]


def test_what_is_asked_holds_on_a_good_story() -> None:
    assert failing(story(*GOOD)) == []


def test_each_goal_fails_on_its_own() -> None:
    fifo, kill, ours = GOOD
    assert failing(story(fifo, kill)) == ["every step was run"]
    # p95 of two is the larger: 81 + 2 s waited, of 82
    late = stream("sparkpace", [60, 81], [100])
    assert failing(story(fifo, kill, late)) == ["real: short jobs' p95 / kill's"]
    # 0.65 of 170 s are 110.5, 1.05 of 100 s are 105
    assert failing(story(fifo, kill, stream("sparkpace", [60], [106]))) == ["real: long jobs' mean time / fifo's"]
    assert failing(story(fifo, kill, stream("sparkpace", [60], [111]))) == [
        "real: long jobs' mean time / kill's",
        "real: long jobs' mean time / fifo's",
    ]
    lost = stream("sparkpace", [60], [100], executors_lost=1)
    assert failing(story(fifo, kill, lost)) == ["real: executors lost"]
    busy = msgspec.structs.replace(ours, outside_core_s=41.0)
    assert failing(story(fifo, kill, busy)) == ["drivers and services use at most 0.4 cores"]


def test_jobs_that_were_given_up_count_as_never_ended() -> None:
    fifo, _, ours = GOOD
    starved = stream("kill", [50], [170], given_up=1)
    assert failing(story(fifo, starved, ours)) == []
    assert "| kill | 1 | 2 | not in this run | 52.0 | not in this run | 12.0 | not in this run | 1 |" in SCENARIO.tables(
        story(fifo, starved, ours)
    )
    mine = stream("sparkpace", [50], [100], given_up=1)
    # neither side's p95 is known: that is no success
    assert failing(story(fifo, starved, mine)) == ["real: short jobs' p95 / kill's"]
    unfinished = msgspec.structs.replace(ours, given_up={"rank-1": 900.0})
    assert failing(story(fifo, starved, unfinished)) == [
        "real: long jobs' mean time / kill's",
        "real: long jobs' mean time / fifo's",
    ]
    times = SCENARIO.distributions(story(starved))["short-jobs"]
    assert times == {"kill": [52.0, math.inf]}


def test_tables_say_their_n_and_stand_without_any_run() -> None:
    tables = SCENARIO.tables(story(*GOOD))
    # 62 and 72 s since arrival, first tasks 12 s after it; the long job took 100 s, 112 s with its waiting
    assert (
        "| sparkpace | 1 | 2 | 67.0 | 62.0 | 72.0 | 12.0 | 12.0 | 0 | 1 | 100.0 | 100.0 | 100.0 | 112.0 | 0 | 0 | 0.0 |"
        in tables
    )
    assert "| sbk | 1 | 56.0 | 56.0 | 0.35 |" in tables
    assert "one comes every 20.0 s" in tables
    assert "sparkpace" not in SCENARIO.tables(Data())
    assert SCENARIO.distributions(Data()) == {}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"schedulers": ["magic"]}, "scheduler 'magic' is unknown; there are: fifo, reserve"),
        ({"arrivals_s": [1.0]}, "give either load or arrivals_s"),
        ({"load": None}, "give either load or arrivals_s"),
    ],
)
def test_wrong_settings_are_one_sentence(change: dict[str, Any], sentence: str) -> None:
    settings = {**msgspec.to_builtins(SCENARIO), **change}
    settings.pop("seed")
    with pytest.raises(BadInput, match=sentence):
        make_scenario("preemption", settings, 1, Path("settings.json"))
