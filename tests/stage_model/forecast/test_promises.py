"""Admission with promises already made: small cases worked by hand, and properties that always hold."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage_model.forecast.promises import (
    Claim,
    Promised,
    constant_room,
    cores_to_keep,
    end_s,
    fits,
    least_deadline_s,
    without,
)
from stage_model.forecast.virtual_time import Forecast


def work(core_s: float, slots: int = 2, fixed_s: float = 0.0) -> Forecast:
    """Make perfectly parallel work on `slots` slots."""
    return Forecast((*[0.0] * (slots - 1), core_s / slots), fixed_s)


def claim(core_s: float, left_s: float, priority: int = 50) -> Claim:
    return Claim(work(core_s), left_s, priority)


def on(*claims: Claim, cores: float = 2.0) -> Promised:
    return Promised(claims, cores)


class TestEnd:
    def test_on_constant_cores_it_is_the_forecasts(self) -> None:
        mixed = Forecast((2.0, 5.0), fixed_s=3.0, speed_limit=0.8, limited=((0.3, 4.0), (1.5, 2.0)))
        for cores in (0.3, 0.8, 1.1, 1.6, 4.0):
            assert end_s(mixed, constant_room(cores)) == pytest.approx(mixed.time_s(cores))
            assert end_s(mixed, constant_room(9.0), cores) == pytest.approx(mixed.time_s(cores))

    def test_cores_that_come_later_are_used_then(self) -> None:
        # 10 core-seconds: 0.5 cores for 4 s do 2, the other 8 take 4 s on 2 cores
        assert end_s(work(10), ((4.0, 0.5), (math.inf, 2.0))) == pytest.approx(8.0)

    def test_it_waits_while_nothing_is_free(self) -> None:
        assert end_s(work(10), ((4.0, 0.0), (math.inf, 2.0))) == pytest.approx(9.0)
        assert end_s(work(10), constant_room(0.0)) == math.inf
        assert end_s(Forecast((0.0, 0.0), fixed_s=2.0), constant_room(0.0)) == 2.0


def test_the_least_cores_end_at_the_deadline() -> None:
    assert cores_to_keep(claim(10, 10), constant_room(2.0)) == pytest.approx(1.0)
    assert cores_to_keep(claim(10, 4.9), constant_room(2.0)) is None


def test_what_is_taken_is_free_again_afterwards() -> None:
    assert without(constant_room(2.0), 0.5, 10.0) == ((10.0, 1.5), (math.inf, 2.0))
    assert without(((5.0, 1.0), (math.inf, 2.0)), 1.5, 8.0) == ((5.0, 0.0), (8.0, 0.5), (math.inf, 2.0))


class TestFits:
    def test_alone_it_needs_what_there_is(self) -> None:
        assert fits(claim(20, 10), on())
        assert not fits(claim(20, 9.9), on())

    def test_next_to_a_promise_only_the_rest_is_free(self) -> None:
        promised = on(claim(100, 100))  # one of two cores for 100 s
        assert fits(claim(40, 100), promised)
        # it is due first, and the promise can be kept on both cores afterwards: 30 s * 2 + 70 s * 2 >= 60 + 100
        assert fits(claim(60, 60), promised)
        assert not fits(claim(120, 100), promised)

    def test_a_promise_of_the_same_priority_is_not_broken(self) -> None:
        # it could end in time itself, but the 100 core-seconds due after it could not
        assert not fits(claim(120, 60), on(claim(100, 100)))

    def test_a_lower_priority_does_not_count(self) -> None:
        assert fits(claim(120, 60, priority=100), on(claim(100, 100)))
        assert not fits(claim(120, 60, priority=0), on(claim(100, 100)))

    def test_a_promise_that_is_broken_anyway_is_no_reason(self) -> None:
        hopeless = claim(1000, 10)
        assert fits(claim(20, 10), on(hopeless))
        # of a higher priority it takes everything until it ends, after 500 s
        assert not fits(claim(20, 400), on(replace(hopeless, priority=100)))
        assert fits(claim(20, 511), on(replace(hopeless, priority=100)))

    def test_cores_that_come_for_one_promise_are_only_its_own(self) -> None:
        def waiting(core_s: float) -> Promised:
            return on(Claim(work(core_s, slots=3), 10.0, 50, own_cores=1.0))

        # 2.5 cores for 10 s: its own and 1.5 of the two
        assert fits(claim(4.9, 10), waiting(25))
        assert not fits(claim(5.1, 10), waiting(25))
        assert fits(claim(20, 10), waiting(5))
        assert not fits(claim(20.1, 10), waiting(5))


def test_the_least_deadline_is_feasible_and_a_little_less_is_not() -> None:
    promised = on(claim(100, 100), claim(30, 20))
    least_s = least_deadline_s(claim(60, 1), promised)
    assert fits(claim(60, least_s * 1.001), promised)
    assert not fits(claim(60, least_s * 0.99), promised)
    # 30 and 100 core-seconds are promised by 100 s, so 60 more are done at (30 + 60 + 100) / 2 = 95 s at the latest
    assert 45.0 <= least_s <= 95.0


def test_without_cores_there_is_no_deadline() -> None:
    assert least_deadline_s(claim(60, 10), on(cores=0.0)) == math.inf


claims = st.builds(claim, st.floats(1.0, 200.0), st.floats(1.0, 300.0), st.sampled_from([0, 50, 100]))


@settings(max_examples=60, deadline=None)
@given(claims, st.lists(claims, max_size=4))
def test_what_is_offered_fits(new: Claim, promised: list[Claim]) -> None:
    least_s = least_deadline_s(new, on(*promised))
    if math.isfinite(least_s):
        assert fits(replace(new, left_s=least_s * 1.001), on(*promised))


@settings(max_examples=60, deadline=None)
@given(claims, st.lists(claims, max_size=4))
def test_lower_priorities_change_nothing(new: Claim, promised: list[Claim]) -> None:
    assert fits(new, on(*promised)) == fits(new, on(*promised).to_rank(new.priority))
