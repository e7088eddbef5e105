"""Timings on a clock that the test moves."""

from __future__ import annotations

import pytest

from controller.agent.timings import PeriodTimings
from tests.fakes.refusals import assert_names


class Clock:
    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


def period(timings: PeriodTimings, clock: Clock, **phase_s: float) -> None:
    timings.begin()
    for phase, took_s in phase_s.items():
        clock.now_s += took_s
        timings.ended(phase)
    timings.end(1.0)


def test_each_phase_has_its_own_time() -> None:
    clock = Clock()
    timings = PeriodTimings(clock)
    period(timings, clock, look=0.5, decide=0.25)
    assert timings.took_s == {"look": 0.5, "decide": 0.25}
    period(timings, clock, look=0.125, decide=0.0)
    assert timings.took_s == {"look": 0.125, "decide": 0.0}


def test_a_period_that_takes_too_long_is_logged_with_its_phases_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    timings = PeriodTimings(clock)
    period(timings, clock, look=0.75, decide=0.25)
    assert caplog.messages == []
    period(timings, clock, look=1.5, decide=0.25)
    period(timings, clock, look=1.5, decide=0.25)
    [warning] = caplog.messages
    assert_names(warning, "1.75 s", "look 1.50 s", "decide 0.25 s")
    clock.now_s += 60
    period(timings, clock, look=2.0)
    assert ["2.00 s" in message for message in caplog.messages] == [False, True]
