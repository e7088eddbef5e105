"""Group-by's own check: what it expects is what a grouping gives, and one wrong pair is noticed."""

from __future__ import annotations

from collections import Counter

import pytest

from experiments.workloads.group_by import check_part, expected, factor_and_offset, is_whole, partition_of, stragglers

KEYS, PAIRS = 10, 70
Groups = dict[str, list[int]]


def grouped(seed: int) -> Groups:
    """Group like the job, without Spark; the order within a group is not defined."""
    factor, offset = factor_and_offset(KEYS, seed)
    groups: Groups = {}
    for i in reversed(range(PAIRS)):
        groups.setdefault(f"{(factor * i + offset) % KEYS:010d}", []).append(i)
    return groups


def right(groups: Groups, seed: int = 1) -> bool:
    items, (factor, offset) = list(groups.items()), factor_and_offset(KEYS, seed)
    halves = (items[:4], items[4:])
    return is_whole([part for half in halves for part in check_part(half, PAIRS, KEYS, factor, offset)], PAIRS, KEYS)


@pytest.mark.parametrize("seed", range(8))
def test_the_groups_by_arithmetic_are_the_groups_by_grouping(seed: int) -> None:
    factor, offset = factor_and_offset(KEYS, seed)
    groups = grouped(seed)
    assert {int(key): sorted(group) for key, group in groups.items()} == {
        key: list(expected(key, PAIRS, KEYS, factor, offset)) for key in range(KEYS)
    }
    assert right(groups, seed)


def test_a_value_too_few_too_many_or_in_another_group_is_noticed() -> None:
    groups = grouped(1)
    one, other = groups["0000000000"], groups["0000000001"]
    value = one.pop()
    assert not right(groups)
    other.append(value)
    assert not right(groups)
    other.pop()
    one += [value, value]
    assert not right(groups)


def test_a_group_that_is_missing_is_noticed() -> None:
    groups = grouped(1)
    del groups["0000000003"]
    assert not right(groups)


def test_with_skew_one_partition_has_the_keys_of_several_and_the_others_their_own() -> None:
    even, skewed = (Counter(partition_of(f"{key:010d}", 6, skew) for key in range(600)) for skew in (1, 4))
    assert even == dict.fromkeys(range(6), 100)
    assert skewed == {0: 400, 4: 100, 5: 100}


def test_as_many_tasks_straggle_as_asked_for_and_the_seed_says_which() -> None:
    drawn = [stragglers(24, 3, seed) for seed in range(8)]
    assert {len(tasks) for tasks in drawn} == {3}
    assert len(set(drawn)) > 1
    assert drawn[0] == stragglers(24, 3, 0) < set(range(24))
