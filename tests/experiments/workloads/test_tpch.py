"""TPC-H's check: answers are the same in both engines or they are not."""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from experiments.workloads import tpch
from experiments.workloads.tpch import TABLES, same

ROWS: tpch.Rows = [("R", Decimal("10.50"), 0.049986, 7, date(1995, 3, 1)), ("N", None, 0.05, 8, date(1995, 3, 2))]


def test_numbers_are_the_same_whatever_their_type_up_to_a_mean_s_rounding() -> None:
    assert same(ROWS, [("R", 10.5, 0.04998599, 7.0, date(1995, 3, 1)), ("N", None, 0.05, 8, date(1995, 3, 2))])


@pytest.mark.parametrize(
    "other",
    [
        [*ROWS, ROWS[0]],
        ROWS[:1],
        ROWS[::-1],
        [(*ROWS[0], 1), ROWS[1]],
        [("R", Decimal("10.51"), *ROWS[0][2:]), ROWS[1]],
        [ROWS[0], ("N", 0, *ROWS[1][2:])],
        [ROWS[0], (*ROWS[1][:4], date(1995, 3, 3))],
    ],
)
def test_any_other_row_value_or_order_is_not_the_same(other: tpch.Rows) -> None:
    assert not same(ROWS, other)


def test_a_folder_without_tables_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for table in TABLES[:3]:
        (tmp_path / f"{table}.parquet").touch()
    monkeypatch.setattr(sys, "argv", ["tpch.py", str(tmp_path)])
    with_one = f"`python -m experiments.workloads.inputs {tmp_path.parent}/tpch-1` makes one"
    assert tpch.main() == f"tpch: {tmp_path} has no orders.parquet; {with_one}"
