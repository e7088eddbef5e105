"""The CPU of a whole application, which says something beyond its stages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.forecast.budget import USUAL, come_already_core_s, like, untold_core_s
from stage_model.forecast.virtual_time import Forecast

amounts = st.floats(0, 1e6)


def test_what_the_total_leaves_beyond_the_known_stages_is_to_come() -> None:
    # 100 in all, 40 of known stages, of which 2 may be chance; 30 are used, 20 belong to stages to come
    assert untold_core_s(100.0, 40.0, 30.0, 20.0) == pytest.approx(48.0)
    assert untold_core_s(100.0, 100.0, 40.0, 60.0) == 0.0


@given(amounts, st.floats(0, 1), amounts, amounts)
def test_the_total_less_what_was_used_is_a_lower_bound_of_the_work_left(
    whole: float, share: float, used: float, known: float
) -> None:
    untold = untold_core_s(whole, share * whole, used, known)
    assert untold >= 0
    assert known + untold >= (1 - USUAL * share) * whole - used - 1e-3


def test_unknown_work_runs_side_by_side_as_known_work_does() -> None:
    # 2 s of one task and 3 s of two are 8 core-seconds
    assert like(Forecast((2.0, 3.0), 6.0, 0.85), 8.0, 4.0) == Forecast((1.0, 1.5), 3.0, 0.85)
    # where nothing is known it may be one task's
    assert like(Forecast(()), 0.0, 4.0) == Forecast((4.0,))


def test_work_that_moved_between_earlier_runs_comes_once() -> None:
    # 22 in all, of which 14 are stages' and 0.7 may be chance; 21.4 are used, so 1.3 are left of the 3.3 that stages expect
    assert come_already_core_s(22.0, 14.0, 21.4, 3.3, moving_core_s=2.5) == pytest.approx(2.0)
    # what all earlier runs had in these stages is still to come
    assert come_already_core_s(22.0, 14.0, 30.0, 3.3, moving_core_s=2.5) == 2.5
    assert come_already_core_s(22.0, 14.0, 10.0, 3.3, moving_core_s=2.5) == 0.0


@given(amounts, amounts, amounts, amounts, st.floats(0, 1))
def test_the_total_takes_away_no_more_than_what_moves_and_leaves_what_it_has_left(
    whole: float, stages: float, used: float, known: float, share: float
) -> None:
    come = come_already_core_s(whole, stages, used, known, share * known)
    assert 0 <= come <= share * known
    assert known - come >= min(known, whole + USUAL * stages - used) - 1e-3
