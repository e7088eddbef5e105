"""The fewest cores that are enough, and what they save of what was held."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.forecast.saving import fewest_cores, saving, slot_cores
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.held import Held
from stage_model.settings import CORE_QUANTUM
from tests.fakes.records import run

# two tasks of 10 core-seconds at once: T(c) = 1 + 10 * max(1, 2 / c)
TWO_TASKS = Forecast((0.0, 10.0, 0.0, 0.0), 1.0)


@pytest.mark.parametrize(
    ("within_s", "cores"), [(11.0, 2.0), (21.0, 1.0), (10.9, None), (0.0, None), (-5.0, None), (1e6, CORE_QUANTUM)]
)
def test_the_fewest_cores_are_whole_quanta_and_no_more_than_tasks_can_use(within_s: float, cores: float | None) -> None:
    assert fewest_cores(TWO_TASKS, within_s, 4.0) == cores


def test_no_more_cores_are_given_than_there_are() -> None:
    assert fewest_cores(TWO_TASKS, TWO_TASKS.time_s(1.53), 1.53) == 1.53


def test_an_application_without_work_takes_the_least_cores() -> None:
    assert fewest_cores(Forecast((0.0, 0.0), 5.0), 5.0, 2.0) == CORE_QUANTUM


def test_the_fewest_cores_are_held_from_the_first_executor_on() -> None:
    held = Held(((2.0, 4.0),), 11.0)
    found = saving(TWO_TASKS, 11.0, 4.0, held)
    # two cores for 9 s in place of four
    assert (found.fewest_cores, found.held_core_s) == (2.0, 36.0)
    assert found.end_s == pytest.approx(11.0)
    assert found.saved_core_s == pytest.approx(18.0)


def test_slots_of_two_cores_hold_both() -> None:
    found = saving(TWO_TASKS, 11.0, 4.0, Held(((2.0, 8.0),), 11.0), slot_cores(run("r", cores=8.0, slots=4)))
    assert found.saved_core_s == pytest.approx(72.0 - 36.0)
    assert slot_cores(run("r", cores=1.0, slots=4)) == 1.0


def test_nothing_is_saved_where_executors_came_and_went_or_all_cores_are_too_few() -> None:
    assert saving(TWO_TASKS, 11.0, 4.0, Held(((2.0, 2.0), (4.0, 0.0)), 11.0)).saved_core_s == 0.0
    assert saving(TWO_TASKS, 5.0, 4.0, Held(((2.0, 4.0),), 11.0)).saved_core_s == 0.0


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=8),
    st.floats(0, 50),
    st.floats(0, 500),
    st.lists(st.tuples(st.floats(0, 100), st.integers(0, 8)), max_size=4).map(sorted),
)
def test_core_hours_saved_are_never_negative_and_never_more_than_held(
    busy: list[float], fixed_s: float, within_s: float, steps: list[tuple[float, float]]
) -> None:
    found = saving(Forecast(tuple(busy), fixed_s), within_s, float(len(busy)), Held(tuple(steps), 100.0))
    assert 0 <= found.saved_core_s <= found.held_core_s
