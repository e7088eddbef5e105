"""The core-seconds that pacing would have saved in a watched run, and the interval of single runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.errors import BadInput
from stage_model.forecast.curve import whole
from stage_model.forecast.estimate import estimate
from stage_model.forecast.saving import saving
from stage_model.forecast.watched import watched_saving
from stage_model.history.held import Held
from stage_model.history.profile import Profile, profile
from tests.fakes.records import run, stage

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


def test_a_run_that_the_profile_has_no_more_is_refused() -> None:
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
