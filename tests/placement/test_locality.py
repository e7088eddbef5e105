"""Document 002's forecast."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.data_wait import WORTH, DataOutlook, expected_requests


def test_the_forecast_is_the_documents() -> None:
    # TT = 5.12 s (64 MB at 100 Mbit/s), S = 2 slots, t = 20 s, K = 6 of 10 machines:
    # H * TT * P_j * P_h = (10 / 3) * 5.12 * (6 / 10) * (3 * 2 / 20) = 3.072
    outlook = DataOutlook(move_s=5.12, slots=2, task_s=20, machines=6)
    assert expected_requests(outlook) == pytest.approx((10 / 3) * 5.12 * (6 / 10) * (3 * 2 / 20))
    assert expected_requests(outlook) >= WORTH > expected_requests(DataOutlook(move_s=5.12, slots=2, task_s=20, machines=1))


def test_what_is_shared_goes_to_the_jobs_ahead() -> None:
    outlook = DataOutlook(move_s=10, slots=1, task_s=10, machines=4, shared=3, ahead=True)
    # E_j * (1 - Pr_j) = 4 * (1 - 3/4)
    assert expected_requests(outlook) == pytest.approx(1)
    assert expected_requests(replace(outlook, shared=0)) == pytest.approx(4)


def test_tasks_that_take_no_time_ask_all_the_time() -> None:
    assert expected_requests(DataOutlook(move_s=1, slots=1, task_s=0, machines=1)) == math.inf
    assert expected_requests(DataOutlook(move_s=1, slots=1, task_s=0, machines=0)) == 0


@given(st.floats(0, 100), st.integers(1, 16), st.floats(0.1, 100), st.integers(0, 50), st.integers(0, 50))
def test_more_machines_with_data_are_never_less_worth_waiting_for(
    move_s: float, slots: int, task_s: float, machines: int, shared: int
) -> None:
    for ahead in (False, True):
        fewer = DataOutlook(move_s, slots, task_s, machines + shared, shared, ahead)
        more = DataOutlook(move_s, slots, task_s, machines + shared + 1, shared, ahead)
        assert expected_requests(more) >= expected_requests(fewer) >= 0
