"""CPU that an executor reports of itself counts as far as its quota allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.agent.core.estimates import KEPT_S, ClaimedCpu


def after(*looks: tuple[float, float | None, float]) -> ClaimedCpu:
    """Return the CPU use after looks: times, the CPU that the executor reported, quotas."""
    claimed = ClaimedCpu()
    for look in looks:
        claimed = claimed.after(*look)
    return claimed


def test_it_counts_from_the_first_word_on() -> None:
    assert after((0.0, None, 1.0), (1.0, 500.0, 1.0)).cpu_s == 0.0
    assert after((0.0, 500.0, 1.0), (1.0, 500.8, 1.0), (2.0, None, 1.0), (3.0, 502.5, 1.0)).cpu_s == pytest.approx(2.5)


def test_no_more_than_the_quota_allows_at_once_and_the_rest_later() -> None:
    begin = ((0.0, 0.0, 0.5), (2.0, 100.0, 0.5))
    assert after(*begin).cpu_s == pytest.approx(1.0)
    assert after(*begin, (4.0, 100.0, 0.5)).cpu_s == pytest.approx(2.0)
    # what was true all the time comes back: 3 s at 0.5, and 1.2 were reported
    assert after((0.0, 0.0, 0.5), (3.0, 1.2, 0.5)).cpu_s == pytest.approx(1.2)


def test_what_was_not_used_is_kept_for_a_few_seconds_only() -> None:
    assert after((0.0, 0.0, 1.0), (1000.0, 900.0, 1.0)).cpu_s == pytest.approx(KEPT_S)


def test_a_counter_that_starts_anew_takes_nothing_back() -> None:
    assert after((0.0, 50.0, 1.0), (2.0, 51.5, 1.0), (4.0, 0.2, 1.0), (6.0, 1.2, 1.0)).cpu_s == pytest.approx(2.5)


def test_of_a_quota_that_changed_between_the_looks_the_larger_one_counts() -> None:
    assert after((0.0, 0.0, 2.0), (1.0, 2.0, 0.1)).cpu_s == pytest.approx(2.0)


@given(st.lists(st.tuples(st.floats(0, 10), st.none() | st.floats(0, 1e6), st.floats(0, 8)), max_size=30))
def test_it_never_falls_and_never_passes_the_quota(looks: list[tuple[float, float | None, float]]) -> None:
    claimed, now_s, most, quota_before = ClaimedCpu(), 0.0, 0.0, 0.0
    for wait_s, said_s, quota in looks:
        now_s += wait_s
        before, claimed = claimed, claimed.after(now_s, said_s, quota)
        assert claimed.cpu_s >= before.cpu_s
        most += max(quota, quota_before) * wait_s if before.at_s is not None else 0.0
        assert claimed.cpu_s <= most + 1e-6
        quota_before = quota
