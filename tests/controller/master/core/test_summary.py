"""Core-seconds of a run from its samples, integrated by hand."""

from __future__ import annotations

import pytest

from controller.master.core.summary import Use, error_pct, use_between
from controller.wire.worker import Sample
from tests.fakes import views


def sample(time_s: float, grant: float, cpu_core_s: float, executor: str = "1", usage: float | None = 0.1) -> Sample:
    return views.sample(time_s, executor, grant=grant, quota=grant, cpu_core_s=cpu_core_s, usage=usage)


ROWS = [sample(0.0, 1.0, 3.0), sample(2.0, 0.5, 4.6), sample(6.0, 0.5, 6.2)]
"""1 core for 2 s, then 0.5 for 4 s; 0.8 used in the first 2 s, 0.4 in the next 4, after 3 core-seconds from before."""


@pytest.mark.parametrize("rows", [ROWS, ROWS[::-1]], ids=["in order", "in any other"])
def test_a_grant_holds_until_the_next_sample_and_cpu_grew_evenly(rows: list[Sample]) -> None:
    got = use_between(rows, 0.0, 6.0)
    assert (got.allocated_core_s, got.used_core_s, got.peak_cores) == pytest.approx((1 * 2 + 0.5 * 4, 0.8 * 2 + 0.4 * 4, 1.0))


def test_what_lies_outside_does_not_count_and_without_two_samples_nothing_does() -> None:
    got = use_between(ROWS, 1.0, 4.0)
    assert (got.allocated_core_s, got.used_core_s) == pytest.approx((1 * 1 + 0.5 * 2, 0.8 * 1 + 0.4 * 2))
    for rows, start_s in ((ROWS, 7.0), ([], 0.0), (ROWS[:1], 0.0)):
        assert use_between(rows, start_s, 9.0) == Use(0.0, 0.0, 0.0)


def test_executors_add_up_and_the_peak_is_of_one_moment() -> None:
    # the second executor follows the first: never both at a time
    after = [sample(6.0, 1.5, 0.0, "2"), sample(8.0, 1.5, 2.0, "2")]
    got = use_between([*ROWS, *after], 0.0, 8.0)
    assert got.allocated_core_s == pytest.approx(4.0 + 3.0)
    assert got.peak_cores == pytest.approx(1.5)
    second = [sample(1.0, 1.5, 0.0, "2"), sample(8.0, 1.5, 2.0, "2")]
    assert use_between([*ROWS, *second], 0.0, 8.0).peak_cores == pytest.approx(2.5)


def test_until_the_first_sample_of_another_agent_an_executor_held_at_least_what_it_used() -> None:
    """The quota is lifted between two agents, and no sample shows it."""
    used_more = sample(8.0, 0.5, 6.2 + 3.0, usage=None)
    assert use_between([*ROWS, used_more], 6.0, 8.0).allocated_core_s == pytest.approx(3.0)
    used_less = sample(8.0, 0.5, 6.2 + 0.4, usage=None)
    assert use_between([*ROWS, used_less], 6.0, 8.0).allocated_core_s == pytest.approx(0.5 * 2)
    jitter = sample(8.0, 0.5, 6.2 + 1.1)
    assert use_between([*ROWS, jitter], 6.0, 8.0).allocated_core_s == pytest.approx(0.5 * 2)


def test_a_counter_that_was_lost_takes_nothing_away() -> None:
    gone = sample(7.0, 0.0, 0.0)
    assert use_between([*ROWS, gone], 0.0, 7.0).used_core_s == use_between(ROWS, 0.0, 6.0).used_core_s


def test_the_error_is_negative_when_early() -> None:
    assert error_pct(90.0, 100.0) == pytest.approx(-10.0)
    assert error_pct(101.0, 100.0) == pytest.approx(1.0)
    assert error_pct(50.0, None) is None
