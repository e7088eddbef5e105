"""Properties of every law of the table; a new one joins by its row."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stage_model.forecast.virtual_time import Forecast, stages_busy
from stage_model.laws import LAWS, parse_constants
from stage_model.laws.base import Decision, LawState, View
from stage_model.live import StageLive
from stage_model.plan import ApplicationPlan, StagePlan
from stage_model.settings import LAW_PREFIX, QuotaSettings

SLOTS = 4
"""Slots of this executor, out of eight."""


@st.composite
def stages(draw: st.DrawFn, number: int) -> StageLive:
    """Draw a stage somewhere on its way, with or without a deadline, a profile and records."""
    tasks = draw(st.integers(1, 40))
    done = draw(st.integers(0, tasks))
    running = draw(st.integers(0, min(2 * SLOTS, tasks - done)))
    length_s = draw(st.none() | st.floats(0, 100))
    plan = StagePlan(
        stage=number,
        attempt=0,
        tasks=tasks,
        work_core_s=draw(st.sampled_from([0.0, 3.0, 40.0, 900.0])),
        records=draw(st.none() | st.just(1000.0 * tasks)),
        task_cv=draw(st.floats(0, 2)),
        left_s=None if length_s is None else length_s - draw(st.floats(0, 200)),
        length_s=length_s,
        initial_cores=draw(st.none() | st.floats(0.05, 8)),
    )
    read = 1000.0 * done + 300.0 * running
    return StageLive(plan, running, done, read, 300.0 * running, draw(st.floats(0, 500)), min(running, SLOTS), 0.0)


@st.composite
def views(draw: st.DrawFn, law: str) -> View:
    """Draw an executor that has something to run, of an application with a deadline."""
    count = draw(st.integers(1, 3))
    under_way = [draw(stages(number)) for number in range(count)]
    own = draw(st.integers(1, SLOTS))
    left_s, deadline_s = draw(st.floats(-50, 600)), 600.0
    plan = ApplicationPlan(
        application_id="a",
        name="a",
        law=law,
        settings=parse_constants({}),
        deadline_s=deadline_s,
        left_s=left_s,
        elapsed_s=deadline_s - left_s,
        stages=tuple(stage.plan for stage in under_way),
        future_busy=stages_busy(((20, draw(st.floats(0, 300)), 0.3),), 2 * SLOTS),
        slots=2 * SLOTS,
        executors=2,
        cores=2.0 * SLOTS,
    )
    held = LawState(draw(st.none() | st.floats(0, SLOTS)))
    return View(plan, under_way, SLOTS, own, own + SLOTS, 1.0, left_s, deadline_s, 1.0, QuotaSettings(), held)


def twice(view: View) -> tuple[Decision, Decision]:
    """Decide twice; the second time the law goes on with what it kept."""
    law = LAWS[view.plan.law]
    first = law.decide(view)
    kept = LawState(first.demand, first.state.kept)
    return first, law.decide(structs.replace(view, state=kept))


@pytest.mark.parametrize("name", LAWS)
@given(st.data())
def test_a_demand_is_a_number_of_cores_that_the_executor_has_slots_for(name: str, data: st.DataObject) -> None:
    for decision in twice(data.draw(views(name))):
        assert 0 <= decision.demand <= SLOTS
        assert decision.planned
        assert decision.reason


@pytest.mark.parametrize("name", LAWS)
@given(st.data())
def test_the_same_view_gives_the_same_decision_and_is_not_changed(name: str, data: st.DataObject) -> None:
    view = data.draw(views(name))
    before = deepcopy(view)
    decisions = twice(view)
    assert twice(view) == decisions
    assert view == before


@pytest.mark.parametrize("name", LAWS)
def test_constants_are_named_after_the_law(name: str) -> None:
    assert f"{LAW_PREFIX}{name}." == LAWS[name].settings.PREFIX


@pytest.mark.parametrize("name", LAWS)
@given(st.floats(0, 5000), st.floats(1, 5000), st.floats(0.1, 100))
def test_a_plan_gives_no_more_than_there_is(name: str, work_core_s: float, deadline_s: float, most: float) -> None:
    forecast = Forecast(stages_busy(((40, work_core_s, 0.3),), 8), 1.0, 1.0)
    cores = LAWS[name].planned_cores(forecast, deadline_s, most, parse_constants({}))
    assert 0 <= cores <= math.ceil(most / 0.05) * 0.05 + 1e-9
