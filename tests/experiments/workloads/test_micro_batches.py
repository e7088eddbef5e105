"""A batch's sums by arithmetic equal the sums by counting."""

from __future__ import annotations

from collections import defaultdict

from experiments.workloads.micro_batches import KEYS, expected


def test_the_sums_of_a_batch_are_those_of_counting() -> None:
    size = 5 * KEYS
    sums: defaultdict[int, int] = defaultdict(int)
    for i in range(3 * size, 4 * size):
        sums[i % KEYS] += i
    assert expected(3, size) == sorted(sums.items())
