"""The long task's arithmetic: what it multiplies step by step is the power that the check expects."""

from __future__ import annotations

from experiments.workloads.few_long import FACTOR, MODULUS, burn


def test_the_steps_are_a_power() -> None:
    assert [burn(times) for times in (0, 1, 2, 1000)] == [1, FACTOR, FACTOR**2 % MODULUS, FACTOR**1000 % MODULUS]
