"""The long task's arithmetic: what it multiplies step by step is the power that the check expects."""

from __future__ import annotations

from experiments.workloads.few_long import FACTOR, MODULUS, MOST, burn, with_tail


def test_the_steps_are_a_power() -> None:
    assert [burn(times) for times in (0, 1, 2, 1000)] == [1, FACTOR, FACTOR**2 % MODULUS, FACTOR**1000 % MODULUS]


def test_the_lengths_of_a_tail_are_quantiles() -> None:
    # of two tasks the quarter and three quarters: (3/4)^(-2/3) and (1/4)^(-2/3)
    assert with_tail(2, 1000) == [1211, 2520]
    assert max(with_tail(1000, 1000)) == 1000 * MOST
