"""Waits between tries grow to their bound, however often something fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.machine.back_off import BackOff

back_offs = st.builds(BackOff, first_s=st.floats(0.001, 10.0), most_s=st.floats(0.001, 100.0))


@given(back_offs, st.integers(1, 10**9))
def test_waits_double_up_to_their_bound(back_off: BackOff, failures: int) -> None:
    before_s, after_s = back_off.wait_s(failures), back_off.wait_s(failures + 1)
    assert 0 < before_s <= back_off.most_s
    assert after_s == pytest.approx(min(back_off.most_s, 2 * before_s))


@given(back_offs)
def test_the_first_wait_is_the_shortest(back_off: BackOff) -> None:
    assert back_off.wait_s(1) == min(back_off.first_s, back_off.most_s)


@given(back_offs)
def test_what_fails_for_days_is_tried_at_the_longest_wait(back_off: BackOff) -> None:
    assert back_off.wait_s(10**6) == back_off.most_s
