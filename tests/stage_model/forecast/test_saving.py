"""The fewest cores that are enough, and what they save of what was held, also in a run that was only watched."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.errors import BadInput
from stage_model.forecast.curve import whole
from stage_model.forecast.estimate import estimate
from stage_model.forecast.saving import fewest_cores, saving, slot_cores, watched_saving
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.held import Held
from stage_model.history.profile import Profile, profile
from stage_model.settings import CORE_QUANTUM
from tests.fakes.records import run, stage

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


ALL = Held(((0.0, 2.0),), 20.0)
"""Both cores for 20 s."""


def known(*works: float) -> Profile:
    return profile("k", [run(f"r{i}", i, stage("x", work_core_s=w, task_cv=0.0)) for i, w in enumerate(works)])


def test_with_half_the_cores_for_the_deadline_the_rest_is_saved() -> None:
    forecast = whole(estimate(known(10.0)), 2)
    found = watched_saving(known(10.0), "r0", ALL, forecast.time_s(1.0) * 1.0001)
    assert found.saved_core_s == pytest.approx(40.0 - forecast.time_s(1.0))
    assert found.least_deadline_s == pytest.approx(forecast.time_s(2.0))


def test_without_a_deadline_the_end_counts_and_a_deadline_too_early_saves_nothing() -> None:
    forecast = whole(estimate(known(10.0)), 2)
    assert watched_saving(known(10.0), "r0", ALL, None).saved_core_s == saving(forecast, 20.0, 2.0, ALL).saved_core_s > 0
    assert watched_saving(known(10.0), "r0", ALL, 1.0).saved_core_s == 0.0


def test_one_run_gives_no_interval_and_runs_that_came_later_do_not_count() -> None:
    first = watched_saving(known(10.0, 14.0), "r0", ALL, None)
    assert (first.runs, first.least_core_s, first.most_core_s) == (1, None, None)
    assert first == watched_saving(known(10.0), "r0", ALL, None)
    second = watched_saving(known(10.0, 14.0), "r1", ALL, None)
    assert second.runs == 2
    assert second.most_core_s == first.saved_core_s, "the run with less work saves the most"


def test_a_run_that_the_profile_no_longer_has_is_refused() -> None:
    with pytest.raises(BadInput, match="'gone'"):
        watched_saving(known(10.0), "gone", ALL, None)


@given(
    st.lists(st.floats(0.1, 1e3), min_size=2, max_size=4),
    st.none() | st.floats(0, 500),
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 8)), max_size=4).map(sorted),
)
def test_the_saving_is_within_its_interval_and_never_more_than_held(
    works: list[float], deadline_s: float | None, steps: list[tuple[float, float]]
) -> None:
    held = Held(tuple(steps), 100.0)
    found = watched_saving(known(*works), f"r{len(works) - 1}", held, deadline_s)
    assert found.least_core_s is not None
    assert found.most_core_s is not None
    assert 0 <= found.least_core_s <= found.saved_core_s <= found.most_core_s <= held.core_s
