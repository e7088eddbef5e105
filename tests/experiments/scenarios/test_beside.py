"""A job next to an important one, simulated: what is compared, goals that are met and missed, on made-up rows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from experiments.harness.recorded import Data, RowStep
from experiments.scenarios.beside import BesideAnother
from experiments.simulator.beside import STRETCH, BesideRow, beside

SCENARIO = BesideAnother(repetitions=1, seeds=2)
GOOD = BesideRow(
    seed=1, all_s=60.0, left_s=80.0, shares_s=150.0, ours_s=82.0, deadline_s=102.0, due_s=101.0, important_s=(200.0, 201.0)
)
LATE = msgspec.structs.replace(GOOD, ours_s=120.0, due_s=102.1)


def data(*rows: BesideRow) -> Data:
    made: tuple[dict[str, Any], ...] = tuple(msgspec.to_builtins(row) for row in rows)
    return Data(rows={"block-0": RowStep(step="block-0", session=1, took_s=1.0, rows=made)})


def test_goals_are_the_time_against_the_workers_left_and_the_share_that_is_late() -> None:
    good = SCENARIO.goals(data(GOOD, GOOD))
    assert [(goal.measured, goal.met, goal.n) for goal in good] == [(pytest.approx(82 / 80), True, 2), (0.0, True, 2)]
    bad = SCENARIO.goals(data(GOOD, LATE))
    assert [(goal.measured, goal.met) for goal in bad] == [(pytest.approx(202 / 160, abs=1e-4), False), (50.0, False)]
    assert SCENARIO.goals(Data()) == []


def test_the_table_has_a_row_of_each_pair_and_the_means() -> None:
    lines = SCENARIO.tables(data(GOOD, LATE)).splitlines()
    assert lines[-1].startswith("| mean | 60.0 | 80.0 | 150.0 | 101.0 |")
    assert len(lines) == 5


def test_a_pair_is_the_same_each_time_and_its_times_are_in_order() -> None:
    row = beside(7)
    assert row == beside(7)
    assert row.all_s < row.left_s < row.deadline_s == pytest.approx(STRETCH * row.all_s, abs=1e-3)
    # no job is faster than by itself on what the important one leaves, but for the floor on its worker
    assert row.ours_s > 0.95 * row.left_s
