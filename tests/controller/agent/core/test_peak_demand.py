"""Cores that an executor needs for the rest of a run: the most that was planned lately."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.agent.core.estimates import LATELY_S, PeakDemand
from stage_model.laws.base import Decision, LawState


def planned(cores: float) -> Decision:
    return Decision(cores, LawState(), "by its law", planned=True)


def after(*asked: tuple[float, Decision | None]) -> float | None:
    peak = PeakDemand()
    for now_s, decision in asked:
        peak = peak.after(now_s, decision)
    return peak.cores


def test_nothing_is_known_before_a_law_has_planned() -> None:
    assert after((0.0, None), (1.0, Decision(4.0, LawState(), "no profile"))) is None


def test_the_most_of_the_last_half_minute_counts() -> None:
    assert after((0.0, planned(0.5)), (1.0, planned(0.8)), (2.0, planned(0.3))) == 0.8
    assert after((0.0, planned(0.8)), (10.0, planned(0.5)), (1.0 + LATELY_S, planned(0.3))) == 0.5


def test_between_stages_it_needs_what_it_needed() -> None:
    idle = Decision(0.0, LawState(), "no runnable task")
    assert after((0.0, planned(0.8)), (500.0, idle)) == 0.8


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 8)), min_size=1, max_size=40))
def test_it_is_the_most_of_those_that_are_not_old(steps: list[tuple[float, float]]) -> None:
    peak, now_s, asked = PeakDemand(), 0.0, []
    for wait_s, cores in steps:
        now_s += wait_s
        asked.append((now_s, cores))
        peak = peak.after(now_s, planned(cores))
    assert peak.cores == pytest.approx(max(cores for at_s, cores in asked if now_s - at_s <= LATELY_S))
