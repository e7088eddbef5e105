"""Limits and orders of one period: growing raises the limit first, shrinking waits for the answer, starts wait for room."""

from __future__ import annotations

from dataclasses import replace

from controller.runtime.base import ExecutorKey
from master_memory.resize import MARGIN_MB, Answer, Begin, BudgetOrder, Container, GiveOrder, Moves, SetLimit, moves

A, B, C = (ExecutorKey(name, "1") for name in "abc")
SETTLED = Container(
    key=A,
    fixed_mb=1000,
    floor_mb=64,
    wanted_mb=7000,
    running=True,
    limit_mb=8000,
    used_mb=900,
    order=BudgetOrder(3, 7000),
    answer=Answer(3, 7000, 0, 0),
)
NEWCOMER = Container(key=B, fixed_mb=1000, floor_mb=64, wanted_mb=3000)
NOTHING = Moves((), ())


def test_a_container_as_wanted_stays_as_it_is() -> None:
    assert moves([SETTLED], 8000) == NOTHING


def test_a_shrink_is_ordered_and_the_limit_stays_until_it_is_answered() -> None:
    smaller = replace(SETTLED, wanted_mb=3000)
    assert moves([smaller], 8000) == Moves((GiveOrder(A, BudgetOrder(4, 3000)),), ())
    ordered = replace(smaller, order=BudgetOrder(4, 3000))
    assert moves([ordered], 8000) == NOTHING
    # the answer is to the order before: that the budget is 3000 now may be old news
    assert moves([replace(ordered, answer=Answer(3, 3000))], 8000) == NOTHING
    assert moves([replace(ordered, answer=Answer(4, 3000))], 8000) == Moves((SetLimit(A, 4000),), ())


def test_the_limit_follows_a_shrink_that_takes_long_in_steps() -> None:
    ordered = replace(SETTLED, wanted_mb=3000, order=BudgetOrder(4, 3000))
    assert moves([replace(ordered, answer=Answer(4, 6990))], 8000) == NOTHING
    assert moves([replace(ordered, answer=Answer(4, 5000))], 8000) == Moves((SetLimit(A, 6000),), ())


def test_the_limit_never_goes_below_what_is_in_use() -> None:
    ordered = replace(SETTLED, wanted_mb=3000, order=BudgetOrder(4, 3000), answer=Answer(4, 3000), used_mb=5000)
    assert moves([ordered], 8000) == Moves((SetLimit(A, 5000 + MARGIN_MB),), ())


def test_growth_raises_the_limit_before_the_order() -> None:
    small = replace(SETTLED, limit_mb=4000, order=BudgetOrder(3, 3000), answer=Answer(3, 3000))
    assert moves([small], 8000) == Moves((), (SetLimit(A, 8000), GiveOrder(A, BudgetOrder(4, 7000))))


def test_growth_goes_as_far_as_the_others_let_it() -> None:
    small = replace(SETTLED, limit_mb=4000, order=BudgetOrder(3, 3000), answer=Answer(3, 3000))
    leaving = replace(SETTLED, key=B, wanted_mb=None, limit_mb=3000, order=BudgetOrder(1, 2000), answer=Answer(1, 2000))
    assert moves([small, leaving], 8000) == Moves((), (SetLimit(A, 5000), GiveOrder(A, BudgetOrder(4, 4000))))
    # a few MiB are no reason to write
    assert moves([small, replace(leaving, limit_mb=3990, order=BudgetOrder(1, 2990))], 8000) == NOTHING


def test_a_shrink_that_is_not_answered_is_taken_back_without_touching_the_limit() -> None:
    ordered = replace(SETTLED, order=BudgetOrder(4, 3000), answer=Answer(3, 7000))
    assert moves([ordered], 8000) == Moves((), (GiveOrder(A, BudgetOrder(5, 7000)),))


def test_a_newcomer_starts_with_what_is_free_once_its_least_container_fits() -> None:
    shrinking = replace(SETTLED, wanted_mb=3000, order=BudgetOrder(4, 3000), answer=Answer(4, 6990))
    assert moves([shrinking, NEWCOMER], 8000) == NOTHING
    further = replace(shrinking, answer=Answer(4, 5500))
    # 8000 - 6500 = 1500 are free: 1000 fixed and 500 for the start
    assert moves([further, NEWCOMER], 8000) == Moves(
        (SetLimit(A, 6500),), (GiveOrder(B, BudgetOrder(1, 500)), Begin(B, 1500))
    )
    done = replace(shrinking, answer=Answer(4, 3000))
    assert moves([done, NEWCOMER], 8000).take == (GiveOrder(B, BudgetOrder(1, 3000)), Begin(B, 4000))


def test_an_executor_that_waits_for_room_is_not_overtaken() -> None:
    small = replace(NEWCOMER, key=C, fixed_mb=100, floor_mb=None, wanted_mb=None)
    growing = replace(SETTLED, order=BudgetOrder(3, 6000), answer=Answer(3, 6000), limit_mb=7000)
    assert moves([growing, replace(NEWCOMER, fixed_mb=2000), small], 8000) == NOTHING
    assert moves([growing, small, replace(NEWCOMER, fixed_mb=2000)], 8000).take == (Begin(C, 100),)


def test_what_is_being_started_holds_its_room() -> None:
    begun = replace(NEWCOMER, begun_mb=4000, order=BudgetOrder(1, 3000))
    assert moves([begun], 8000) == NOTHING
    assert moves([begun, replace(NEWCOMER, key=C)], 5000) == NOTHING


def test_numbers_go_on_from_whatever_was_seen() -> None:
    again = replace(NEWCOMER, order=BudgetOrder(7, 500), answer=Answer(9, 500))
    assert moves([again], 8000).take[0] == GiveOrder(B, BudgetOrder(10, 3000))
    lost = replace(SETTLED, order=None)
    assert moves([lost], 8000) == Moves((GiveOrder(A, BudgetOrder(4, 7000)),), ())
    assert moves([replace(lost, limit_mb=5000)], 8000).release == (GiveOrder(A, BudgetOrder(4, 4000)),)


def test_an_executor_of_fixed_size_is_only_counted() -> None:
    fixed = replace(SETTLED, floor_mb=None, wanted_mb=None, order=None, answer=None, limit_mb=3000, fixed_mb=3000)
    assert moves([fixed], 8000) == NOTHING
    assert moves([fixed, NEWCOMER], 6000).take == (GiveOrder(B, BudgetOrder(1, 2000)), Begin(B, 3000))


def test_a_wish_below_the_floor_is_the_floor() -> None:
    least = replace(SETTLED, wanted_mb=10)
    assert moves([least], 8000).release == (GiveOrder(A, BudgetOrder(4, 64)),)
    assert moves([replace(least, order=BudgetOrder(4, 64), answer=Answer(4, 64), limit_mb=1064)], 8000) == NOTHING


def test_without_enforced_limits_the_ordered_and_the_given_up_memory_counts() -> None:
    free = replace(SETTLED, limit_mb=None, wanted_mb=3000, order=BudgetOrder(4, 3000))
    assert moves([replace(free, answer=Answer(4, 7000)), NEWCOMER], 8000) == NOTHING
    assert moves([replace(free, answer=Answer(4, 3000)), NEWCOMER], 8000).take == (
        GiveOrder(B, BudgetOrder(1, 3000)),
        Begin(B, 4000),
    )
    grown = replace(free, wanted_mb=7000, answer=Answer(4, 3000))
    assert moves([grown], 8000).take == (GiveOrder(A, BudgetOrder(5, 7000)),)
    twins = [grown, replace(grown, key=C)]
    # each holds 4000 of 9000: the first takes the other 1000
    assert moves(twins, 9000).take == (GiveOrder(A, BudgetOrder(5, 4000)),)


def test_a_limit_that_was_lowered_from_outside_is_raised_again() -> None:
    assert moves([replace(SETTLED, limit_mb=6000)], 8000).take == (SetLimit(A, 8000),)


def test_it_shrinks_as_long_as_it_has_more_than_its_order() -> None:
    assert not SETTLED.shrinks
    assert replace(SETTLED, order=BudgetOrder(4, 3000)).shrinks
    assert not replace(SETTLED, order=BudgetOrder(4, 3000), answer=Answer(4, 3000)).shrinks
