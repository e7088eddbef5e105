"""The jobs of the side-by-side workload: the sum of a key's values by arithmetic, and what a check of a partition finds."""

from __future__ import annotations

from collections import defaultdict

from experiments.workloads.side_by_side import FACTOR, check_part, expected


def test_the_sum_of_a_keys_values_is_that_of_counting() -> None:
    keys, values = 12, 12 * 7
    sums: defaultdict[int, int] = defaultdict(int)
    for i in range(values):
        sums[FACTOR * i % keys] += i
    assert dict(sums) == {key: expected(key, values, keys) for key in range(keys)}


def test_a_partition_has_its_keys_counted_and_the_wrong_ones() -> None:
    right = [(f"{key:010d}", expected(key, 30, 3)) for key in (0, 2)]
    assert list(check_part(right, 30, 3)) == [(2, 0)]
    assert list(check_part([right[0], ("0000000001", 0)], 30, 3)) == [(2, 1)]
