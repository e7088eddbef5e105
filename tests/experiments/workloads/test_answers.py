"""Answers of workloads by arithmetic are those of counting; parts of their checks by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from experiments.workloads import als, big_shuffle, few_long, micro_batches, pandas_udf, side_by_side, small_queries


def summed(values: range, keys: int, *, key_factor: int = 1, factor: int = 1) -> dict[int, int]:
    """Sum the values, each times `factor`, by key."""
    sums: Counter[int] = Counter()
    for value in values:
        sums[key_factor * value % keys] += factor * value
    return dict(sums)


def test_the_sums_of_keys_are_those_of_counting() -> None:
    keys, size = micro_batches.KEYS, 5 * micro_batches.KEYS
    assert micro_batches.expected(3, size) == sorted(summed(range(3 * size, 4 * size), keys).items())
    assert small_queries.expected(3, 84, 12) == sorted(summed(range(84), 12, factor=4).items())
    by_key = {key: side_by_side.expected(key, 84, 12) for key in range(12)}
    assert by_key == summed(range(84), 12, key_factor=side_by_side.FACTOR)


def test_a_partition_has_its_keys_counted_and_the_wrong_ones() -> None:
    right = [(f"{key:010d}", side_by_side.expected(key, 30, 3)) for key in (0, 2)]
    assert list(side_by_side.check_part(right, 30, 3)) == [(2, 0)]
    assert list(side_by_side.check_part([right[0], ("0000000001", 0)], 30, 3)) == [(2, 1)]


def test_one_rating_in_several_of_a_user_is_hidden() -> None:
    assert list(als.given(0, 2 * als.GIVEN)) == [item for item in range(2 * als.GIVEN) if item not in (0, als.GIVEN)]
    assert 1 not in als.given(als.GIVEN - 1, als.GIVEN)


def test_the_error_is_0_for_the_same_factors_and_1_for_the_mean() -> None:
    users, items = als.factors(3, 1), als.factors(4, 2)
    assert als.relative_error(users, items, users, items) == 0
    # ratings 1 and 3: their mean has an error of one standard deviation
    one, other, mean = ((rating,) + (0.0,) * (als.RANK - 1) for rating in (1.0, 3.0, 2.0))
    assert als.relative_error([one, other], [one], [mean, mean], [one]) == pytest.approx(1)


def test_digits_are_those_of_the_numbers() -> None:
    for keys in (1, 15, 16, 17, 5000):
        assert big_shuffle.hex_digits(keys) == sum(len(f"{key:x}") for key in range(keys))


def test_every_key_is_there_once_in_each_table() -> None:
    rows = 300
    tables = [{f * i % rows: f"{f * i % rows:X}" * big_shuffle.WIDTH for i in range(rows)} for f in big_shuffle.FACTORS]
    assert all(len(table) == rows for table in tables)
    payloads = sum(len(payload) for table in tables for payload in table.values())
    assert big_shuffle.expected(rows) == (rows, sum(range(rows)), payloads)


def test_the_steps_of_a_long_task_are_a_power() -> None:
    factor, modulus = few_long.FACTOR, few_long.MODULUS
    assert [few_long.burn(times) for times in (0, 1, 2, 1000)] == [1, factor, factor**2 % modulus, factor**1000 % modulus]


def test_the_lengths_of_a_tail_are_quantiles() -> None:
    # of two tasks the quarter and three quarters: (3/4)^(-2/3) and (1/4)^(-2/3)
    assert few_long.with_tail(2, 1000) == [1211, 2520]
    assert max(few_long.with_tail(1000, 1000)) == 1000 * few_long.MOST


def test_a_number_and_the_same_a_period_on_come_to_the_same() -> None:
    assert pandas_udf.taken(5) == pandas_udf.taken(5 + pandas_udf.MODULUS)
    assert pandas_udf.expected(3) == sum(pandas_udf.taken(x) for x in range(3 * pandas_udf.MODULUS))
