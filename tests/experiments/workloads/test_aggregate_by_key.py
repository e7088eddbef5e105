"""The workload's own check: what it expects is what an aggregation gives, and one wrong pair is noticed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce

import pytest

from experiments.workloads.aggregate_by_key import (
    NONE_YET,
    Aggregate,
    Key,
    add_value,
    as_text,
    check_part,
    combine,
    expected,
    factor_and_offset,
    is_whole,
)

KEYS, PAIRS = 10, 70


def aggregated(seed: int, values: range = range(PAIRS)) -> dict[int, Aggregate]:
    """Aggregate like the job, without Spark; in two halves, so that merging is part of it."""
    factor, offset = factor_and_offset(KEYS, seed)
    halves: list[dict[int, Aggregate]] = [{}, {}]
    for i in values:
        half = halves[i % 2]
        key = (factor * i + offset) % KEYS
        half[key] = add_value(half.get(key, NONE_YET), i)
    return {key: reduce(combine, (half[key] for half in halves if key in half), NONE_YET) for key in range(KEYS)}


def right(found: Iterable[tuple[Key, Aggregate]], seed: int = 1) -> bool:
    items, (factor, offset) = list(found), factor_and_offset(KEYS, seed)
    halves = (items[:4], items[4:])
    return is_whole([part for half in halves for part in check_part(half, PAIRS, KEYS, factor, offset)], PAIRS, KEYS)


@pytest.mark.parametrize("seed", range(8))
def test_the_answer_by_arithmetic_is_the_answer_by_aggregation(seed: int) -> None:
    factor, offset = factor_and_offset(KEYS, seed)
    assert math.gcd(factor, KEYS) == 1
    found = aggregated(seed)
    assert found == {key: expected(key, PAIRS, KEYS, factor, offset) for key in range(KEYS)}
    assert right(found.items(), seed)


@pytest.mark.parametrize("values", [range(PAIRS - 1), range(1, PAIRS), range(PAIRS + 1)])
def test_a_pair_too_few_or_too_many_is_noticed(values: range) -> None:
    assert not right(aggregated(1, values).items())


def test_a_key_that_is_missing_or_there_twice_is_noticed() -> None:
    items = list(aggregated(1).items())
    assert not right(items[1:])
    assert not right([*items, items[0]])


def test_a_key_is_checked_alike_as_text_and_as_a_number() -> None:
    found = aggregated(1)
    assert as_text(3) == "0000000003"
    assert right((as_text(k), a) for k, a in found.items())
    assert not right((as_text(KEYS - 1 - k), a) for k, a in found.items())


def test_values_under_each_others_keys_are_noticed_although_every_sum_is_right() -> None:
    found = aggregated(1)
    found[0], found[1] = found[1], found[0]
    assert not right(found.items())
