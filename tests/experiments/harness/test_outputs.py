"""Outputs of two runs are the same but for the last digits of numbers; any other difference is reported in a sentence."""

from __future__ import annotations

import pytest

from experiments.harness.outputs import difference

TABLE = "+---+-------+\n|  k|  value|\n+---+-------+\n|  1|0.12345|\n+---+-------+\n"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("error 0.123456789", "error 0.123456788"),
        ("[-1.0,2e-3]", "[-1.0000000001,0.002]"),
        (TABLE, TABLE.replace("0.12345", "0.123450001").replace("-------", "-----------")),
        ("a\n\nb\n", "a\nb"),
    ],
)
def test_last_digits_and_widths_do_not_count(one: str, other: str) -> None:
    assert difference(one, other) is None


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("error 0.123", "error 0.124", "line 1: 'error 0.123', then 'error 0.124'"),
        ("a\nb", "a\nc", "line 2: 'b', then 'c'"),
        ("a\nb", "a", "2 lines, then 1"),
        ("1 2", "1 -2", "line 1: '1 2', then '1 -2'"),
        ("1,2", "1", "line 1: '1,2', then '1'"),
        ("nan", "0.0", "line 1: 'nan', then '0.0'"),
    ],
)
def test_a_difference_is_found(one: str, other: str, said: str) -> None:
    assert difference(one, other) == said


def test_ignored_lines_and_order_count_only_where_it_is_not_said_otherwise() -> None:
    one, other = "Time: 10:01\nb: 2\na: 1\n", "Time: 10:02\na: 1\nb: 2\n"
    assert difference(one, other) is not None
    assert difference(one, other, ignored=["^Time: "]) is not None
    assert difference(one, other, any_order=True) is not None
    assert difference(one, other, ignored=["^Time: "], any_order=True) is None
