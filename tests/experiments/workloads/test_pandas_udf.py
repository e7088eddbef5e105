"""The UDF's answer for a number repeats with the period."""

from __future__ import annotations

from experiments.workloads.pandas_udf import MODULUS, expected, taken


def test_a_number_and_the_same_a_period_on_come_to_the_same() -> None:
    assert taken(5) == taken(5 + MODULUS)
    assert expected(3) == sum(taken(x) for x in range(3 * MODULUS))
