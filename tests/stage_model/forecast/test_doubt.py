"""The certainty of the work of many stages."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.forecast.doubt import PROFILE_DOUBT, as_equal, doubt

works = st.lists(st.floats(0, 1e6), max_size=30)


def test_stages_count_by_their_share_of_the_work() -> None:
    assert as_equal([2.0] * 5) == pytest.approx(5)
    # the sum is 6, that of the squares 18
    assert as_equal([4.0, 1.0, 1.0]) == pytest.approx(2)
    assert as_equal([7.0, 0.0, 0.0]) == pytest.approx(1)
    assert as_equal([]) == as_equal([0.0]) == 0


def test_the_own_errors_of_many_stages_even_out_and_the_shared_one_shows() -> None:
    # nothing has ended: all of them may be off together
    assert doubt([1.0] * 100, 0) == PROFILE_DOUBT
    # own: 1/100 of the variance of one; shared: with 24 seen and one beforehand a 25th
    assert doubt([1.0] * 100, 24) == pytest.approx(PROFILE_DOUBT * math.sqrt(1 / 100 + 1 / 25))
    # of one stage nothing evens out
    assert doubt([5.0], 24) == PROFILE_DOUBT


@given(works, st.floats(0, 1e6))
def test_it_is_never_more_than_that_of_one_stage_and_falls_with_what_was_seen(some: list[float], shown: float) -> None:
    assert 0 < doubt(some, shown + 1) <= doubt(some, shown) <= PROFILE_DOUBT
