"""Predicted times come from the logs of the runs on all cores, and are shown with real times."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from experiments.harness.experiment import asked, read_spec
from experiments.harness.recorded import Data, StepRecord
from experiments.scenarios import make_scenario
from experiments.scenarios.whatif import WhatIf
from stage_model.history.profile import RunRecord
from tests.fakes.recorded import job_record, step_record
from tests.fakes.records import run, stage

CORES = 1.6
SCENARIO = WhatIf(applications={"sort": ("sort.py",)}, cores=(0.5, 1.0), logs=1, repetitions=1)
LOGGED = run("log", 0, stage("s", work_core_s=20.0, run_s=20.0, task_cv=0.0, duration_s=10.0))
"""A run on all of 1.6 cores: 2 s start-up, 10 s of a stage, in which two Python tasks ran all the time, half a second
tail."""


def step(name: str, cores: float = CORES) -> StepRecord:
    return structs.replace(step_record(name, job_record("sort", name, end_s=20.0)), capacity={"w1": cores})


def lasted(seconds: float) -> RunRecord:
    return structs.replace(LOGGED, duration_s=seconds)


def data(*, half_s: float, one_s: float) -> Data:
    steps = [step(name) for name in ("log-sort-0", "sort-on-0.5-0", "sort-on-1-0")]
    logs = {"log-sort-0": LOGGED, "sort-on-0.5-0": lasted(half_s), "sort-on-1-0": lasted(one_s)}
    return Data(steps={one.step: one for one in steps}, logs=logs)


def test_runs_with_fewer_cores_leave_logs_as_those_on_all_do() -> None:
    assert SCENARIO.steps() == ["log-sort-0", "sort-on-0.5-0", "sort-on-1-0"]
    [first], [half] = (SCENARIO.orders(name, Data()) for name in SCENARIO.steps()[:2])
    assert first.deadline_s is None
    assert "spark.eventLog.enabled=true" in first.options
    assert half.options == (*first.options, "--law", "constant", "--conf", "spark.pace.law.constant.cores=0.500")


def test_the_work_of_the_log_is_stretched_over_fewer_cores() -> None:
    # 16 core-seconds and 2.5 s besides: 34.5 s on half a core, 18.5 s on one
    [goal] = SCENARIO.goals(data(half_s=34.5, one_s=18.5))
    assert goal.measured == pytest.approx(0.0, abs=0.01)
    assert (goal.n, goal.met) == (2, True)
    [goal] = SCENARIO.goals(data(half_s=34.5 * 1.1, one_s=18.5 * 0.94))
    assert goal.measured == pytest.approx(8.0, abs=0.01)
    assert not goal.met


def test_what_has_no_log_is_not_judged() -> None:
    assert SCENARIO.goals(Data()) == []
    found = data(half_s=34.5, one_s=18.5)
    there = Data(steps=found.steps, logs={"log-sort-0": LOGGED, "sort-on-1-0": lasted(18.5)})
    assert [goal.n for goal in SCENARIO.goals(there)] == [1]
    assert "| sort | 1 | 1 |" in SCENARIO.tables(there)
    assert "| sort | 0.5 |" not in SCENARIO.tables(there)


def test_on_stock_spark_a_smaller_size_has_a_smaller_worker_with_as_many_slots() -> None:
    name, spec = read_spec("sizes")
    what = asked(name, spec, quick=True, seed=1)
    scenario = make_scenario(what.scenario, what.settings, 1, Path(name))
    assert isinstance(scenario, WhatIf)
    [two], [one] = (scenario.orders(step, Data()) for step in ("log-sort_by_key-0", "sort_by_key-on-0.8-0"))
    assert [(order.stock, order.stock_cores, order.stock_slots, order.deadline_s) for order in (two, one)] == [
        (True, None, 2, None),
        (True, 0.8, 2, None),
    ]
    # Its two slots worked for 16 core-seconds, so 0.8 cores take 20 s, next to the 2.5 s that are no stage's.
    steps = [step("log-sort_by_key-0"), step("sort_by_key-on-0.8-0")]
    logs = {"log-sort_by_key-0": LOGGED, "sort_by_key-on-0.8-0": lasted(22.5 * 1.2)}
    mean, most = scenario.goals(Data(steps={one.step: one for one in steps}, logs=logs))
    assert mean.measured == pytest.approx(20.0, abs=0.1)
    assert most.measured == pytest.approx(20.0, abs=0.1)
    assert not most.met


def test_on_stock_spark_a_size_of_fewer_workers_has_fewer_slots() -> None:
    scenario = structs.replace(SCENARIO, stock=True, cores=(1.0,))
    # Its two slots ran for 10 s, so one slot takes 20 s, next to the 2.5 s that are no stage's.
    two = {"w1": 1.0, "w2": 1.0}
    steps = [structs.replace(step(name), capacity=two) for name in ("log-sort-0", "sort-on-1-0")]
    logs = {"log-sort-0": LOGGED, "sort-on-1-0": lasted(22.5 * 1.2)}
    [goal] = scenario.goals(Data(steps={one.step: one for one in steps}, logs=logs))
    assert goal.measured == pytest.approx(20.0, abs=0.1)
