"""Other use of a machine's CPU: seen soon, never more than half, and without our own use."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller.agent.core.estimates import MOST_SHARE, SMOOTHED_S, OtherLoad


def after(seconds: int, other_cores: float, own_cores: float, begin: OtherLoad | None = None) -> OtherLoad:
    """Look once a second at a machine on which other programs and ours use that many cores."""
    load = begin or OtherLoad().after(0.0, 500.0, 7.0)
    at_s, busy_s, own_s = load.at_s or 0.0, load.busy_s, load.own_s
    for second in range(1, seconds + 1):
        own = own_s + own_cores * second
        load = load.after(at_s + second, busy_s + (other_cores + own_cores) * second, own)
    return load


def test_the_first_look_says_nothing() -> None:
    assert OtherLoad().after(3.0, 1000.0, 20.0).cores == 0.0


def test_what_others_use_is_believed_by_and_by() -> None:
    assert after(int(SMOOTHED_S), 0.8, 1.0).cores == pytest.approx(0.8 * (1 - math.exp(-1)))
    assert after(200, 0.8, 1.0).cores == pytest.approx(0.8)
    assert after(200, 0.0, 1.0, after(200, 0.8, 1.0)).cores == pytest.approx(0.0, abs=1e-6)


def test_ours_is_not_other_load_also_when_one_goes() -> None:
    busy = after(100, 0.0, 2.0)
    assert busy.cores == pytest.approx(0.0)
    gone = busy.after((busy.at_s or 0.0) + 1, busy.busy_s + 0.5, busy.own_s - 150.0)
    assert gone.cores <= 0.5


def test_at_most_half_of_the_machine_is_theirs() -> None:
    assert after(200, 7.0, 0.5).available(4.0) == pytest.approx(4.0 * (1 - MOST_SHARE))
    assert after(200, 1.0, 0.5).available(4.0) == pytest.approx(3.0)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 100), st.floats(0, 1000)), max_size=30))
@example([(0.0, 0.0, 0.0), (5e-324, 1.0, 0.0)])
def test_whatever_is_seen_it_leaves_half_and_no_more_than_all(looks: list[tuple[float, float, float]]) -> None:
    load, now_s, busy_s = OtherLoad(), 0.0, 0.0
    for elapsed_s, used_s, own_s in looks:
        now_s, busy_s = now_s + elapsed_s, busy_s + used_s
        load = load.after(now_s, busy_s, own_s)
        assert 2.0 - 1e-9 <= load.available(4.0) <= 4.0
