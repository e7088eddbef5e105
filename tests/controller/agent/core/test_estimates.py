"""Estimates from look to look: CPU that an executor claims counts as far as its quota allows; other load is seen soon, is at
most half of the machine, and is without our own use."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.agent.core.estimates import KEPT_S, MOST_SHARE, SMOOTHED_S, ClaimedCpu, OtherLoad


def counted(*looks: tuple[float, float | None, float]) -> ClaimedCpu:
    """Return the CPU use after looks: times, the CPU that the executor reported, quotas."""
    claimed = ClaimedCpu()
    for look in looks:
        claimed = claimed.after(*look)
    return claimed


def test_it_counts_from_the_first_word_on() -> None:
    assert counted((0.0, None, 1.0), (1.0, 500.0, 1.0)).cpu_s == 0.0
    assert counted((0.0, 500.0, 1.0), (1.0, 500.8, 1.0), (2.0, None, 1.0), (3.0, 502.5, 1.0)).cpu_s == pytest.approx(2.5)


def test_no_more_than_the_quota_allows_at_once_and_the_rest_later() -> None:
    begin = ((0.0, 0.0, 0.5), (2.0, 100.0, 0.5))
    assert counted(*begin).cpu_s == pytest.approx(1.0)
    assert counted(*begin, (4.0, 100.0, 0.5)).cpu_s == pytest.approx(2.0)
    # what was true all the time comes back: 3 s at 0.5, and 1.2 were reported
    assert counted((0.0, 0.0, 0.5), (3.0, 1.2, 0.5)).cpu_s == pytest.approx(1.2)


def test_what_was_not_used_is_kept_for_a_few_seconds_only() -> None:
    assert counted((0.0, 0.0, 1.0), (1000.0, 900.0, 1.0)).cpu_s == pytest.approx(KEPT_S)


def test_a_counter_that_starts_again_takes_nothing_back() -> None:
    assert counted((0.0, 50.0, 1.0), (2.0, 51.5, 1.0), (4.0, 0.2, 1.0), (6.0, 1.2, 1.0)).cpu_s == pytest.approx(2.5)


def test_of_a_quota_that_changed_between_the_looks_the_larger_one_counts() -> None:
    assert counted((0.0, 0.0, 2.0), (1.0, 2.0, 0.1)).cpu_s == pytest.approx(2.0)


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


def load_after(seconds: int, other_cores: float, own_cores: float, begin: OtherLoad | None = None) -> OtherLoad:
    """Look once a second at a machine on which other programs and executors use that many cores."""
    load = begin or OtherLoad().after(0.0, 500.0, 7.0)
    at_s, busy_s, own_s = load.at_s or 0.0, load.busy_s, load.own_s
    for second in range(1, seconds + 1):
        own = own_s + own_cores * second
        load = load.after(at_s + second, busy_s + (other_cores + own_cores) * second, own)
    return load


def test_the_first_look_says_nothing() -> None:
    assert OtherLoad().after(3.0, 1000.0, 20.0).cores == 0.0


def test_what_others_use_is_believed_by_and_by() -> None:
    assert load_after(int(SMOOTHED_S), 0.8, 1.0).cores == pytest.approx(0.8 * (1 - math.exp(-1)))
    assert load_after(200, 0.8, 1.0).cores == pytest.approx(0.8)
    assert load_after(200, 0.0, 1.0, load_after(200, 0.8, 1.0)).cores == pytest.approx(0.0, abs=1e-6)


def test_ours_is_not_other_load_also_when_one_goes() -> None:
    busy = load_after(100, 0.0, 2.0)
    assert busy.cores == pytest.approx(0.0)
    gone = busy.after((busy.at_s or 0.0) + 1, busy.busy_s + 0.5, busy.own_s - 150.0)
    assert gone.cores <= 0.5


def test_at_most_half_of_the_machine_is_theirs() -> None:
    assert load_after(200, 7.0, 0.5).available(4.0) == pytest.approx(4.0 * (1 - MOST_SHARE))
    assert load_after(200, 1.0, 0.5).available(4.0) == pytest.approx(3.0)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 100), st.floats(0, 1000)), max_size=30))
@example([(0.0, 0.0, 0.0), (5e-324, 1.0, 0.0)])
def test_whatever_is_seen_it_leaves_half_and_no_more_than_all(looks: list[tuple[float, float, float]]) -> None:
    load, now_s, busy_s = OtherLoad(), 0.0, 0.0
    for elapsed_s, used_s, own_s in looks:
        now_s, busy_s = now_s + elapsed_s, busy_s + used_s
        load = load.after(now_s, busy_s, own_s)
        assert 2.0 - 1e-9 <= load.available(4.0) <= 4.0
