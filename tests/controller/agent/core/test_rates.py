"""Rates on a busy disk or network, in parts of the limit: who gets which, when they begin and when they end."""

from __future__ import annotations

import math

import pytest

from controller.agent.core.arbitrate import CoreRequest
from controller.agent.core.rates import (
    CALM_S,
    FLOOR,
    Busy,
    Meter,
    Pair,
    Sharer,
    ThingUse,
    asked_rates,
    joint_rates,
    separate_rates,
)
from controller.runtime.base import ExecutorKey
from tests.fakes.plans import plan

LOW, HIGH = ExecutorKey("low", "1"), ExecutorKey("high", "1")


def use(
    application: str,
    used: Pair,
    priority: int = 0,
    asked: Pair | None = None,
    left_s: float | None = None,
    watched: bool = False,
) -> ThingUse:
    request = CoreRequest(ExecutorKey(application, "1"), demand=0.0, floor=0.0, priority=priority, left_s=left_s)
    return ThingUse(Sharer(request, watched=watched), used, asked)


def disk(*uses: ThingUse, busy: Busy | None = None, now_s: float = 10.0) -> dict[ExecutorKey, float]:
    """Return the rate of each executor that gets one, both directions together."""
    rates, _ = joint_rates(uses, busy or Busy(), now_s, 1.0)
    return {key: round(sum(pair), 9) for key, pair in rates.items()}


def test_the_lower_one_gets_what_the_higher_one_leaves_when_the_disk_is_busy() -> None:
    assert disk(use("low", (0.7, 0.0)), use("high", (0.3, 0.0), 100)) == {LOW: 0.55}
    assert disk(use("low", (0.5, 0.0)), use("high", (0.3, 0.0), 100)) == {}, "there is enough for both"


def test_reading_and_writing_count_together_and_a_rate_is_divided_alike() -> None:
    rates, _ = joint_rates([use("low", (0.6, 0.2)), use("high", (0.1, 0.1), 100)], Busy(), 10.0, 1.0)
    assert list(rates[LOW]) == pytest.approx([0.75 * 0.7, 0.25 * 0.7])
    rates, _ = joint_rates([use("low", (0.8, 0.0)), use("high", (0.0, 0.2), 100)], Busy(), 10.0, 1.0)
    assert rates[LOW][1] == pytest.approx(0.05 * 0.7), "it may begin to write"


def test_no_one_is_held_for_executors_that_want_nothing_or_are_of_the_same_priority() -> None:
    assert disk(use("low", (1.2, 0.0)), use("high", (0.0, 0.0), 100)) == {}
    assert disk(use("low", (0.6, 0.0), 50), use("high", (0.6, 0.0), 50)) == {}


def test_a_higher_one_that_takes_everything_leaves_the_floor() -> None:
    assert disk(use("low", (0.1, 0.0)), use("high", (0.9, 0.0), 100)) == {LOW: FLOOR}


def test_priorities_in_between_come_before_lower_ones() -> None:
    three = use("low", (0.4, 0.0)), use("mid", (0.2, 0.0), 50), use("high", (0.4, 0.0), 100)
    assert disk(*three) == {ExecutorKey("mid", "1"): 0.3, LOW: 0.1}


def test_a_deadline_asks_for_what_is_left_of_it_but_not_for_much_more_than_is_used() -> None:
    assert disk(use("low", (0.9, 0.0)), use("high", (0.2, 0.0), 100, asked=(0.3, 0.1), left_s=60)) == {LOW: 0.6}
    for used, rate in ((0.0, 0.9), (0.2, 0.4), (0.5, FLOOR)):
        past = use("high", (used, 0.0), 100, asked=(math.inf, math.inf), left_s=-1)
        assert disk(use("low", (0.9, 0.0)), past) == {LOW: rate}


def test_what_no_one_wants_is_not_left_idle() -> None:
    waiting = use("low", (0.9, 0.0), asked=(0.1, 0.0), left_s=600)
    assert disk(waiting, use("high", (0.2, 0.0), 100)) == {LOW: 0.7}


def test_a_watched_executor_gets_no_rate_and_what_it_uses_is_gone() -> None:
    assert disk(use("low", (0.9, 0.0), watched=True), use("high", (0.2, 0.0), 100)) == {}
    uses = use("seen", (0.5, 0.0), watched=True), use("low", (0.2, 0.0)), use("high", (0.2, 0.0), 100)
    assert disk(*uses) == {LOW: 0.2}


def test_rates_stay_through_a_pause_and_end_after_it() -> None:
    both = [use("low", (0.7, 0.0)), use("high", (0.3, 0.0), 100)]
    rates, busy = joint_rates(both, Busy(), 10.0, 1.0)
    assert rates
    paused = [use("low", (0.55, 0.0)), use("high", (0.0, 0.0), 100)]
    rates, busy = joint_rates(paused, busy, 10.0 + CALM_S / 2, 1.0)
    assert sum(rates[LOW]) == pytest.approx(1.0)
    rates, busy = joint_rates(paused, busy, 10.0 + CALM_S, 1.0)
    assert (rates, busy.busy_s) == ({}, None)


def test_in_a_pause_the_priority_in_between_keeps_its_rate_and_no_one_is_without() -> None:
    busy = Busy(1.0, 9.0)
    idle = [use("low", (0.5, 0.0)), use("mid", (0.0, 0.0), 50), use("high", (0.0, 0.0), 100)]
    rates, _ = joint_rates(idle, busy, 10.0, 1.0)
    assert set(rates) == {LOW, ExecutorKey("mid", "1")}


def test_the_rates_in_force_do_not_end_the_business_that_they_are_for() -> None:
    """Whatever part the higher one uses steadily, the lower one uses all of its rate, and that never looks like calm."""
    for part in range(1, 100):
        high, low, busy = part / 100, 1.0, Busy()
        for look in range(20):
            rates, busy = joint_rates([use("low", (low, 0.0)), use("high", (high, 0.0), 100)], busy, float(look), 1.0)
            if look:
                assert rates, part
            low = sum(rates[LOW]) if rates else 1.0
        assert low == pytest.approx(max(FLOOR, 1 - 1.5 * high), abs=0.03)


def test_each_direction_of_a_network_has_the_limit_and_an_idle_one_has_all_of_it() -> None:
    uses = [use("low", (0.9, 0.1)), use("high", (0.2, 0.1), 100)]
    rates, busy = separate_rates(uses, (Busy(), Busy()), 10.0, 1.0)
    assert list(rates) == [LOW]
    assert list(rates[LOW]) == pytest.approx([0.7, 1.0])
    assert [one.busy_s for one in busy] == [10.0, None]


def test_a_deadline_asks_by_bytes_left_and_time_left() -> None:
    asking = plan(left_s=50.0, executors=2, bytes_left=(1e9, 2e8))
    assert asked_rates(asking) == (1e7, 2e6)
    assert asked_rates(plan(left_s=0.0, bytes_left=(1e9, 0.0))) == (math.inf, math.inf)
    assert asked_rates(plan(left_s=None, bytes_left=(1e9, 0.0))) is None
    assert asked_rates(plan(left_s=50.0)) is None


def test_a_meter_counts_rates_and_begins_again_with_another_process() -> None:
    meter = Meter(7, (0.0, 0.0), 10.0)
    for second in range(1, 12):
        meter = meter.after(7, (100.0 * second, 10.0 * second), 10.0 + second)
    assert list(meter.rates) == pytest.approx([100, 10], rel=0.01)
    assert meter.after(8, (50.0, 0.0), 22.0).rates == (0.0, 0.0)
    assert meter.after(7, (0.0, 0.0), 22.0).rates[0] >= 0, "a counter that goes back counts as nothing"
