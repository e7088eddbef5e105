"""The paper's PI law. Expected numbers are computed by hand from the formulas in docs/design.md, next to each assert."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.deadlines import set_point
from stage_model.laws.paper import PaperLimits, PaperSettings, PaperState, control_step

SETTINGS = PaperSettings()
WIDE = PaperLimits(core_min=0.1, core_max=16, tasks_left=100)
unit = st.floats(min_value=0, max_value=1)


def test_on_the_line_the_law_keeps_what_it_has() -> None:
    # e = 0: cs = csi = 2.4, csi' = 2.4 - 0
    assert control_step(PaperState(2.4), 0.3, 0.3, WIDE, 1, SETTINGS) == (2.4, PaperState(2.4))


def test_behind_the_line_it_asks_for_more_and_integrates() -> None:
    # e = 0.02: K*e = 1; integral = 50 * 1/12 * 0.02 = 0.08333; cs = 1 + 2 + 0.08333 = 3.08333 -> 62 quanta = 3.1
    # csi' = 3.1 - 1 = 2.1
    cores, state = control_step(PaperState(2.0), 0.32, 0.30, WIDE, 1, SETTINGS)
    assert cores == pytest.approx(3.1)
    assert state.csi == pytest.approx(2.1)
    fine = PaperLimits(core_min=0.1, core_max=16, tasks_left=100, quantum=1e-6)
    assert control_step(PaperState(2.0), 0.32, 0.30, fine, 1, SETTINGS)[0] == pytest.approx(37 / 12, abs=1e-5)


def test_saturation_is_fed_back_so_nothing_winds_up() -> None:
    # e = 0.5: K*e = 25, far above coreMax 4: cs = 4, csi' = 4 - 25 = -21, however long it lasts.
    limits = PaperLimits(core_min=0.1, core_max=4, tasks_left=100)
    state = PaperState(2.0)
    for _ in range(100):
        cores, state = control_step(state, 0.6, 0.1, limits, 1, SETTINGS)
        assert cores == 4
    assert state.csi == pytest.approx(-21)
    # Back on the line the error term is gone: cs = -21 < least, so 0.1; no long tail of past errors.
    cores, state = control_step(state, 0.6, 0.6, limits, 1, SETTINGS)
    assert cores == pytest.approx(0.1)
    assert state.csi == pytest.approx(0.1)


def test_tasks_left_cap_the_cores() -> None:
    limits = PaperLimits(core_min=0.1, core_max=8, tasks_left=3)
    assert control_step(PaperState(6), 0.9, 0.5, limits, 1, SETTINGS)[0] == 3
    assert control_step(PaperState(6), 0.9, 0.5, PaperLimits(0.1, 8, 0), 1, SETTINGS)[0] == 0


def test_after_the_set_point_has_reached_1_everything_is_asked_for() -> None:
    state = PaperState(1.0)
    cores, after = control_step(state, 1.0, 0.95, PaperLimits(0.1, 8, 5), 1, SETTINGS)
    assert (cores, after) == (5, state)
    # Also when it is nearly there: the paper has no exception.
    assert control_step(state, 1.0, 1.0, PaperLimits(0.1, 8, 5), 1, SETTINGS)[0] == 5


def test_a_ceiling_that_is_no_multiple_of_the_quantum_still_holds() -> None:
    assert control_step(PaperState(9), 0.5, 0.5, PaperLimits(0.1, 1.03, 9), 1, SETTINGS)[0] == 1.03


def test_the_set_point_rises_linearly_to_1() -> None:
    assert [set_point(t, 20) for t in (-1, 0, 5, 20, 30)] == [0, 0, 0.25, 1, 1]
    assert set_point(0, 0) == 1


limits = st.builds(
    PaperLimits,
    core_min=st.floats(0.01, 0.5),
    core_max=st.floats(0.5, 32),
    tasks_left=st.integers(0, 200).map(float),
)
states = st.builds(PaperState, csi=st.floats(-100, 100))
settings = st.builds(PaperSettings, k=st.floats(0.1, 100), ti_s=st.floats(0.5, 60))
periods = st.floats(0.1, 5)


@given(states, unit, unit, limits, periods, settings)
def test_cores_stay_within_their_bounds(
    state: PaperState, planned: float, progress: float, bounds: PaperLimits, dt_s: float, constants: PaperSettings
) -> None:
    cores, after = control_step(state, planned, progress, bounds, dt_s, constants)
    # rounding up to whole quanta takes 0.1 + 2e-17 for 0.1
    assert min(bounds.core_min, bounds.ceiling) - 1e-9 <= cores <= bounds.ceiling
    assert math.isfinite(after.csi)


@given(states, unit, unit, unit, limits, periods, settings)
def test_less_progress_never_means_fewer_cores(
    state: PaperState,
    planned: float,
    one: float,
    other: float,
    bounds: PaperLimits,
    dt_s: float,
    constants: PaperSettings,
) -> None:
    behind, _ = control_step(state, planned, min(one, other), bounds, dt_s, constants)
    ahead, _ = control_step(state, planned, max(one, other), bounds, dt_s, constants)
    assert behind >= ahead - 1e-9


@given(states, unit, unit, unit, limits, periods, settings)
def test_a_steeper_plan_never_means_fewer_cores(
    state: PaperState,
    progress: float,
    one: float,
    other: float,
    bounds: PaperLimits,
    dt_s: float,
    constants: PaperSettings,
) -> None:
    flat, _ = control_step(state, min(one, other), progress, bounds, dt_s, constants)
    steep, _ = control_step(state, max(one, other), progress, bounds, dt_s, constants)
    assert steep >= flat - 1e-9
