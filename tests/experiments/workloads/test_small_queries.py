"""The small queries' answers by arithmetic equal the answers by counting."""

from __future__ import annotations

from collections import defaultdict

from experiments.workloads.small_queries import expected


def test_the_sum_of_a_keys_values_is_that_of_counting() -> None:
    sums: defaultdict[int, int] = defaultdict(int)
    for i in range(12 * 7):
        sums[i % 12] += i * 4
    assert expected(3, 12 * 7, 12) == sorted(sums.items())
