"""Results of the simulated crowd of jobs, on a small one."""

from __future__ import annotations

import msgspec

from experiments.harness.recorded import Data, RowStep
from experiments.scenarios.scale import Point, Scale
from experiments.simulator.crowd import CrowdRow

SMALL = Scale(points=(Point(workers=8, jobs=2, most_s=60.0),), profiled_jobs=1)


def test_a_small_crowd_is_simulated_within_capacity_and_the_report_tells_where_time_goes() -> None:
    steps = {}
    for name in SMALL.steps():
        steps[name] = RowStep(step=name, session=1, took_s=1.0, rows=tuple(SMALL.simulate(name)))
    found = Data(rows=steps)
    names = [condition.name for condition in SMALL.conditions(found)]
    assert names == [
        "every step was run",
        "2 jobs on 8 workers are simulated in time",
        "grants never sum to more than a worker has",
    ]
    assert SMALL.conditions(found)[0].holds
    assert SMALL.conditions(found)[2].holds
    row = msgspec.convert(steps["2-jobs-on-8-workers-0"].rows[0], type=CrowdRow)
    assert (row.jobs, row.workers) == (2, 8)
    assert row.decisions > 100
    table = SMALL.tables(found)
    assert "| 8 | 2 | 0.7 | 1 |" in table
    assert "| experiments/simulator/engine.py |" in table


def test_too_slow_and_above_capacity_are_reported() -> None:
    row = CrowdRow(
        workers=8,
        jobs=2,
        load=0.7,
        wall_s=61.0,
        cpu_s=60.0,
        virtual_s=100.0,
        decisions=10,
        events=10,
        mean_error_pct=0.0,
        allocated_to_used=1.0,
        violated={"low": 0.0, "normal": 0.0, "high": 0.0},
        withheld_core_s=0.0,
        debt_core_s=0.0,
        most_over_capacity=0.1,
    )
    name = "2-jobs-on-8-workers-0"
    step = RowStep(step=name, session=1, took_s=61.0, rows=(msgspec.to_builtins(row),))
    assert not any(condition.holds for condition in SMALL.conditions(Data(rows={name: step})))
