"""The split of one worker's memory and the newcomers that may join: numbers by hand; and however applications differ, memory
is never promised twice, none falls below its floor, and their order does not matter."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from master_memory.split import HEADROOM, POLICIES, Need, admits, by_need, equal, level, share_mb, squeezed, victims


def need(key: str, fixed: int = 1000, floor: int | None = 64, **measured: int) -> Need:
    return Need(key, fixed, floor, **measured)


class TestEqual:
    def test_a_single_application_holds_all_off_heap_memory(self) -> None:
        assert equal(8000, [need("a")]) == {"a": 7000}

    def test_the_papers_formula(self) -> None:
        # 8000 - 2 * 1000 is for two
        assert equal(8000, [need("a"), need("b")]) == {"a": 3000, "b": 3000}
        # (8000 - 3 * 1000) / 3, what does not divide stays free
        assert equal(8000, [need("a"), need("b"), need("c")]) == {"a": 1666, "b": 1666, "c": 1666}

    def test_fixed_needs_may_differ(self) -> None:
        assert equal(8000, [need("a", 1000), need("b", 2000)]) == {"a": 2500, "b": 2500}

    def test_who_chose_his_own_size_keeps_it_and_gets_no_budget(self) -> None:
        assert equal(8000, [need("a", 1000), need("b", 3000, None)]) == {"a": 4000}

    def test_no_application_gets_less_than_the_floor(self) -> None:
        assert equal(2300, [need("a", floor=200), need("b", floor=64)]) == {"a": 200, "b": 100}
        assert equal(100, [need("a")]) == {"a": 64}


class TestByNeed:
    def test_unmeasured_it_is_the_equal_share(self) -> None:
        assert by_need(8000, [need("a"), need("b")]) == equal(8000, [need("a"), need("b")])

    def test_who_uses_little_gives_way(self) -> None:
        busy = need("a", budget_mb=3000, storage_mb=3000)
        idle = need("b", budget_mb=3000, storage_mb=400)
        # needs 3000 * 1.25 = 3750 and 400 * 1.25 = 500; no application needs the other 1750, which go half and half
        assert HEADROOM == 1.25
        assert by_need(8000, [busy, idle]) == {"a": 3750 + 875, "b": 500 + 875}

    def test_what_all_need_is_shared_evenly(self) -> None:
        greedy = [need(key, budget_mb=3000, storage_mb=9000) for key in "ab"]
        assert by_need(8000, greedy) == {"a": 3000, "b": 3000}

    def test_a_newcomer_counts_with_an_equal_share(self) -> None:
        first = need("a", budget_mb=7000, storage_mb=7000)
        assert by_need(8000, [first, need("b")]) == {"a": 3000, "b": 3000}

    def test_what_tasks_hold_is_not_asked_back(self) -> None:
        sorting = need("a", budget_mb=7000, execution_mb=5000)
        assert by_need(8000, [sorting, need("b")]) == {"a": 5000, "b": 1000}

    def test_small_moves_are_not_made(self) -> None:
        # a sixteenth of 6000 is 375: needs of 3100 and 2900 are no reason to move
        a, b = need("a", budget_mb=3000, storage_mb=2480), need("b", budget_mb=3000, storage_mb=2320)
        assert by_need(8000, [a, b]) == {"a": 3000, "b": 3000}

    def test_memory_that_became_free_is_handed_out_however_small_the_moves(self) -> None:
        # by itself again: 6400 of 7000, and a sixteenth of those is 437
        assert by_need(8000, [need("a", budget_mb=6400, storage_mb=100)]) == {"a": 7000}


class TestAdmission:
    def test_alone_an_application_only_has_to_fit(self) -> None:
        assert admits(1064, [], need("a"))
        assert not admits(1063, [], need("a"))
        assert admits(1000, [], need("a", floor=None))

    def test_it_waits_where_off_heap_would_fall_below_h(self) -> None:
        # (M - 2000) / 2 >= 1000 from M = 4000 on
        assert admits(4000, [need("a")], need("b"))
        assert not admits(3999, [need("a")], need("b"))

    def test_the_largest_h_decides(self) -> None:
        # half of M - 3000 must be 2000 or more
        assert admits(7000, [need("a", 1000)], need("b", 2000))
        assert not admits(6999, [need("a", 1000)], need("b", 2000))
        assert not admits(6999, [need("b", 2000)], need("a", 1000))

    def test_fixed_sizes_need_no_share_but_leave_one(self) -> None:
        fixed = need("f", 3000, None)
        assert admits(6000, [fixed], need("g", 3000, None))
        # 6000 - 1000 - 3000 = 2000 for the elastic one
        assert admits(6000, [need("a")], fixed)
        assert not admits(4999, [need("a")], fixed)

    def test_the_share_is_the_formulas(self) -> None:
        assert share_mb(8000, [need("a"), need("b")]) == 3000
        assert share_mb(8000, [need("f", 3000, None)]) == 5000
        assert share_mb(100, [need("a")]) == 0


def test_a_level_lies_between_least_and_most() -> None:
    assert level(10, {"a": 0, "b": 0, "c": 7}, {"a": 1, "b": 99, "c": 99}) == {"a": 1, "b": 2, "c": 7}
    assert level(10, {}, {}) == {}
    assert level(0, {"a": 3}, {"a": 1}) == {"a": 3}


# ---------------------------------------------------------------- preemption (document 003)


def of(key: str, priority: int, fixed_mb: int = 1000) -> Need:
    return Need(key, fixed_mb, 100, priority=priority)


def test_the_lowest_priority_gives_first_and_only_as_many_as_needed() -> None:
    # 4000 - 3000 = 1000 for three: 333 < 1000. Without a: (1000 - 100) / 2 = 450 < 1000. b is of c's priority and stays.
    assert squeezed(4000, [of("c", 50), of("a", 0), of("b", 50)]) == {"a"}
    # 9000 - 3000 = 6000 for three: 2000 each is enough for all
    assert squeezed(9000, [of("c", 50), of("a", 0), of("b", 50)]) == frozenset()
    # 5800 - 3000 = 2800: 933 < 1000; without a (2800 - 100) / 2 = 1350
    needs = [of("c", 100), of("a", 0), of("b", 50)]
    assert squeezed(5800, needs) == {"a"}
    assert equal(5800, needs) == {"a": 100, "b": 1350, "c": 1350}
    assert by_need(5800, needs)["a"] == 100


def test_a_newcomer_names_those_of_lower_priority_that_make_room() -> None:
    present = [of("a", 0), of("b", 50)]
    assert not admits(5800, present, of("c", 100))
    assert victims(5800, present, of("c", 100)) == ("a",)
    assert victims(5800, present, of("c", 50)) == ("a",)
    assert victims(5800, present, of("c", 0)) is None
    # an application of its own priority would have too little
    assert victims(4000, present, of("c", 50)) is None
    # even with all others at their floor: 3 * 1000 and 2 * 100 and its own floor do not fit
    assert victims(3299, present, of("c", 100)) is None
    # a was at its floor before: 1300 for two is less than 1000 each
    assert squeezed(3300, present) == {"a"}
    assert victims(3300, present, of("c", 100)) == ("b",)


def test_where_no_application_must_give_there_are_no_victims() -> None:
    assert victims(9000, [of("a", 0), of("b", 50)], of("c", 100)) == ()


# ---------------------------------------------------------------- however applications differ

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

    def having(budgets: dict[str, int]) -> list[Need]:
        return [replace(need, budget_mb=budgets.get(need.key, need.budget_mb)) for need in asked]

    second = by_need(memory, having(by_need(memory, asked)))
    assert by_need(memory, having(second)) == second


@given(st.integers(1, 60_000), needs(), st.integers(1, 5000), st.integers(1, 500))
def test_an_admitted_newcomer_leaves_each_at_least_its_h(memory: int, present: list[Need], fixed: int, floor: int) -> None:
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
