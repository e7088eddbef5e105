"""Waits on real Spark next to their forecasts: what came is counted by hand on made-up runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from experiments.harness.experiment import read_spec
from experiments.harness.recorded import Data, JobRecord, StepRecord, Taught
from experiments.scenarios import make_scenario
from experiments.scenarios.contend import Contend, ContendingWorkload, compared_waits
from placement.data_wait import DataWait
from tests.fakes.recorded import job_record, step_record

SCENARIO = Contend(
    kinds={
        "long": ContendingWorkload(words=("scan.py", "hosted://long"), count=2),
        "short": ContendingWorkload(words=("scan.py", "hosted://short"), count=2),
    },
    with_data=("w4", "w5"),
    arrivals_s=60,
    waits=1,
    repetitions=1,
    options=("--num-executors", "1"),
)


def job(name: str, worker: str, submitted_s: float, end_s: float, *waits: DataWait) -> JobRecord:
    return job_record(
        name,
        f"{name}-{worker}-{end_s:g}",
        end_s=end_s,
        submitted_epoch_s=submitted_s,
        workers={"1": worker},
        data_waits=msgspec.to_builtins(waits),
    )


def with_forecast(*waits: DataWait) -> StepRecord:
    """Return a step in which the second long job waits from 1025 s on. Then a long job is at the data until 1050 s and a
    short job until 1040 s; another short job is elsewhere until 1042 s."""
    return step_record(
        "forecast-0",
        job("long-0", "w4", 1000, 50),
        job("short-0", "w5", 1010, 30),
        job("long-1", "w5", 1020, 60, *waits),
        job("short-1", "w2", 1022, 20),
    )


WITHOUT = step_record(
    "none-0",
    job("long-0", "w4", 2000, 50),
    job("short-0", "w5", 2010, 30),
    job("long-1", "w3", 2020, 100),
    job("short-1", "w2", 2022, 20),
)
TASKS = {"long": 12, "short": 4}


def story(*waits: DataWait) -> Data:
    bases = [step_record(f"base-{kind}-0", job_record(kind, f"b-{kind}", end_s=40)) for kind in SCENARIO.kinds]
    steps = [*bases, with_forecast(*waits), WITHOUT]
    outputs = {}
    for each in [one for step in steps[2:] for one in step.jobs]:
        near = "NODE_LOCAL" if each.workers["1"] in SCENARIO.with_data else "ANY"
        outputs[each.app_id] = "a line\n" + json.dumps({"near": {near: TASKS[each.job.partition("-")[0]]}, "ok": True}) + "\n"
    return Data({step.step: step for step in steps}, outputs=outputs)


def wait(expected: float, move_s: float, from_s: float = 5.0) -> DataWait:
    return DataWait(from_s=from_s, expected=expected, move_s=move_s, waited_s=15.5, local=True)


@pytest.mark.parametrize(
    ("from_s", "move_s", "came"),
    [
        (5.0, 14.0, 0),  # from 1025 to 1039 s
        (5.0, 15.0, 1),  # at 1040 s the short job ends
        (5.0, 25.0, 2),  # at 1050 s the long job ends, too; at 1042 s no worker with data was left
        (20.0, 10.0, 1),  # the worker that was left at 1040 s was free when the wait began
        (5.0, 60.0, 2),  # its own end at 1080 s does not count
    ],
)
def test_workers_that_others_leave_within_the_forecasts_time_are_counted(from_s: float, move_s: float, came: int) -> None:
    [one] = compared_waits(with_forecast(wait(1.5, move_s, from_s)), SCENARIO.with_data)
    assert (one.job.job, one.came) == ("long-1", came)


def conditions(*waits: DataWait) -> dict[str, tuple[bool, str]]:
    return {found.name: (found.holds, found.detail) for found in SCENARIO.conditions(story(*waits))}


def test_the_forecast_is_judged_by_what_came_and_the_times_by_those_without_waiting() -> None:
    found = conditions(wait(1.5, 20.0))
    assert found["jobs wait for a worker with their input"] == (True, "n=1, wanted 1")
    assert found["a worker with the input comes in time in 63% of the waits"] == (True, "100%, n=1")
    # two standard deviations of a count with a mean of 1.5
    name = "as many workers come as were expected, within two standard deviations of chance"
    assert found[name] == (True, "1 came, 1.50 were expected, allowed difference 2.45, n=1")
    # (50 + 30 + 60 + 20) / 4 = 40 s instead of 50 s; 28 of 32 tasks instead of 16
    assert found["jobs take less time than without waiting"] == (True, "-20.0% (sd 0.0), n=1")
    assert found["more tasks are local than without waiting"] == (True, "+37.5 points (sd 0.0), n=1")


def test_forecasts_that_nothing_comes_of_are_refuted() -> None:
    # of two waits, neither sees a worker come; 5 were expected of them
    found = conditions(wait(2.0, 10.0), wait(3.0, 10.0))
    assert not found["a worker with the input comes in time in 63% of the waits"][0]
    name = "as many workers come as were expected, within two standard deviations of chance"
    assert found[name] == (False, "0 came, 5.00 were expected, allowed difference 4.47, n=2")


def test_without_a_wait_nothing_is_shown() -> None:
    found = conditions()
    assert found["jobs wait for a worker with their input"] == (False, "n=0, wanted 1")
    assert "a worker with the input comes in time in 63% of the waits" not in found


def test_each_wait_stands_next_to_the_same_job_without_waiting() -> None:
    tables = SCENARIO.tables(story(wait(1.5, 20.0)))
    assert "| forecast-0 | long-1 | 1 | 1.50 | 20 | 1 | 15.5 | yes | 60.0 | 100.0 |" in tables
    assert "| **all** |  | 1 | 1.50 |  | 1 |  | 1 of 1 |  |  |" in tables
    assert "| forecast | long | 2 | 40.0 | 55.0 | 5.0 | 50.0 | 60.0 | 100 |" in tables
    assert "| none | long | 2 | 40.0 | 75.0 | 25.0 | 50.0 | 100.0 | 50 |" in tables
    assert "forecast-0" not in SCENARIO.tables(Data())


def test_both_ways_have_the_same_arrivals_and_forecasts_from_the_base_runs_only() -> None:
    assert SCENARIO.steps() == ["base-long-0", "base-short-0", "forecast-0", "none-0"]
    [base] = SCENARIO.orders("base-short-0", Data())
    assert base.options == ("--num-executors", "1", "--conf", "spark.pace.placement.input=hosted://short")
    forecast, none = (SCENARIO.orders(step, story()) for step in ("forecast-0", "none-0"))
    assert [(order.job, order.delay_s) for order in forecast] == [(order.job, order.delay_s) for order in none]
    assert {order.profile for order in forecast if order.job.startswith("long")} == {Taught(("b-long",))}
    waits = [{order.options[-1] for order in orders} for orders in (forecast, none)]
    assert waits == [{"spark.pace.locality.wait=forecast"}, {"spark.pace.locality.wait=none"}]


def test_repetitions_begin_with_each_way_in_turn_and_a_worker_of_the_spec_has_the_data() -> None:
    _, spec = read_spec("contend")
    scenario: Any = make_scenario("contend", spec.settings, 1, Path("x"))
    assert scenario.steps()[2:6] == ["forecast-0", "none-0", "none-1", "forecast-1"]
    described = [word.split() for word in spec.cluster.up if word.startswith("cores=")]
    hosts = {words[3].removeprefix("id="): words[2].removeprefix("host=") for words in described}
    for workload in scenario.kinds.values():
        assert workload.words[-1].endswith("-" + "_".join(hosts[worker] for worker in scenario.with_data))
