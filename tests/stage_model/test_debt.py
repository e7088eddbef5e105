"""Debt of an executor, reckoned by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.debt import Debt

cores = st.floats(0.0, 4.0)
periods = st.lists(st.tuples(cores, st.floats(0.0, 1.0), st.booleans()), max_size=30)


def test_without_a_squeeze_nothing_is_owed() -> None:
    debt = Debt().after(0.5, 0.5, squeezed=False, dt_s=1.0).after(0.8, 0.8, squeezed=False, dt_s=1.0)
    assert (debt.core_s, debt.withheld_core_s) == (0.0, 0.0)


def test_what_is_withheld_counts_against_the_demand_when_the_squeeze_began() -> None:
    # 0.6 asked and 0.1 given for 10 s; falling behind it asks for 0.9 later, which it would not have without the squeeze
    debt = Debt().after(0.6, 0.1, squeezed=True, dt_s=4.0).after(0.9, 0.1, squeezed=True, dt_s=6.0)
    assert debt.core_s == pytest.approx(0.5 * 10)


def test_what_is_granted_beyond_that_demand_gives_it_back() -> None:
    debt = Debt().after(0.6, 0.1, squeezed=True, dt_s=10.0).after(0.8, 0.8, squeezed=False, dt_s=5.0)
    assert debt.core_s == pytest.approx(5.0 - 0.2 * 5)
    assert debt.withheld_core_s == pytest.approx(5.0)
    repaid = debt.after(0.8, 0.8, squeezed=False, dt_s=1000.0)
    assert repaid.core_s == 0.0
    # and the next squeeze is measured against what it asks for then
    assert repaid.after(0.3, 0.1, squeezed=True, dt_s=1.0).core_s == pytest.approx(0.2)


def test_a_stage_that_needs_less_neither_owes_nor_repays() -> None:
    owed = Debt().after(0.6, 0.1, squeezed=True, dt_s=10.0)
    assert owed.after(0.2, 0.2, squeezed=False, dt_s=10.0) == owed


@given(periods)
def test_debt_is_never_negative_and_never_more_than_was_withheld(steps: list[tuple[float, float, bool]]) -> None:
    debt = Debt()
    for demand, share, squeezed in steps:
        debt = debt.after(demand, demand * share if squeezed else demand, squeezed=squeezed, dt_s=1.0)
        assert 0.0 <= debt.core_s <= debt.withheld_core_s + 1e-9
