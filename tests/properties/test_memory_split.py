"""Memory of a worker, however applications differ: it is never promised twice, none falls below its floor, order is
nothing."""

from __future__ import annotations

import random

from hypothesis import example, given
from hypothesis import strategies as st

from master_memory.split import POLICIES, Need, admits, by_need, equal, level

sizes = st.integers(0, 20_000)


@st.composite
def needs(draw: st.DrawFn) -> list[Need]:
    count = draw(st.integers(0, 6))
    return [
        Need(
            f"app-{number}/1",
            draw(st.integers(1, 5000)),
            draw(st.none() | st.integers(1, 500)),
            draw(st.none() | sizes),
            draw(sizes),
            draw(sizes),
        )
        for number in range(count)
    ]


policies = st.sampled_from(sorted(POLICIES))


@given(policies, st.integers(0, 60_000), needs())
def test_fixed_needs_and_budgets_fit_the_worker_and_floors_are_kept(policy: str, memory: int, asked: list[Need]) -> None:
    budgets = POLICIES[policy](memory, asked)
    elastic = {need.key: need for need in asked if need.floor_mb is not None}
    assert budgets.keys() == elastic.keys()
    assert all(budgets[key] >= (need.floor_mb or 0) for key, need in elastic.items())
    if sum(need.least_mb for need in asked) <= memory:
        assert sum(need.fixed_mb for need in asked) + sum(budgets.values()) <= memory


@given(policies, st.integers(0, 60_000), needs(), st.randoms(use_true_random=False))
def test_the_order_of_the_applications_does_not_matter(
    policy: str, memory: int, asked: list[Need], shuffler: random.Random
) -> None:
    budgets = POLICIES[policy](memory, asked)
    shuffler.shuffle(asked)
    assert POLICIES[policy](memory, asked) == budgets


@given(st.integers(0, 60_000), needs())
def test_by_need_never_asks_back_what_tasks_hold_as_long_as_all_of_it_fits(memory: int, asked: list[Need]) -> None:
    elastic = [need for need in asked if need.floor_mb is not None]
    holds = {need.key: max(need.floor_mb or 0, need.execution_mb) for need in elastic}
    budgets = by_need(memory, asked)
    if sum(need.fixed_mb for need in asked) + sum(holds.values()) <= memory:
        assert all(budgets[key] >= held for key, held in holds.items())


@given(st.integers(0, 60_000), needs())
def test_by_need_settles(memory: int, asked: list[Need]) -> None:
    """An executor that has what it was given, and uses the same as before, is given the same again: no memory goes to and
    fro."""
    first = by_need(memory, asked)
    given_now = [
        Need(need.key, need.fixed_mb, need.floor_mb, first[need.key], need.execution_mb, need.storage_mb)
        if need.key in first
        else need
        for need in asked
    ]
    second = by_need(memory, given_now)
    then = [
        Need(need.key, need.fixed_mb, need.floor_mb, second[need.key], need.execution_mb, need.storage_mb)
        if need.key in second
        else need
        for need in asked
    ]
    assert by_need(memory, then) == second


@given(st.integers(1, 60_000), needs(), st.integers(1, 5000), st.integers(1, 500))
def test_whoever_is_admitted_beside_others_leaves_each_at_least_its_h(
    memory: int, present: list[Need], fixed: int, floor: int
) -> None:
    newcomer = Need("new/1", fixed, floor)
    if not admits(memory, present, newcomer):
        return
    after = [*present, newcomer]
    assert sum(need.least_mb for need in after) <= memory
    if present and all(need.floor_mb is None or need.floor_mb <= need.fixed_mb for need in after):
        budgets = equal(memory, after)
        assert all(budgets[need.key] >= need.fixed_mb for need in after if need.floor_mb is not None)


@given(st.integers(0, 9999), st.dictionaries(st.text(max_size=3), st.tuples(sizes, sizes), max_size=6))
@example(1020, {"at its least": (205, 206), "fixed": (609, 0), "between": (0, 206)})
def test_a_level_uses_all_that_may_be_used(available: int, bounds: dict[str, tuple[int, int]]) -> None:
    least = {key: low for key, (low, _) in bounds.items()}
    most = {key: max(low, high) for key, (low, high) in bounds.items()}
    shares = level(available, least, most)
    assert all(least[key] <= shares[key] <= most[key] for key in bounds)
    if sum(least.values()) <= available:
        left = available - sum(shares.values())
        assert left >= 0
        # what is left is not enough for one MiB more to each that a higher level would give it
        for height in {shares[key] for key in bounds if least[key] < shares[key] < most[key]}:
            assert left < sum(least[key] <= height < most[key] for key in bounds)
