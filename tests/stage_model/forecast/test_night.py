"""A night of several applications: each job's fewest cores, given its own start, and the totals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.errors import BadInput
from stage_model.forecast.night import LATEST_S, first_start_s, night
from stage_model.history.held import Held
from stage_model.history.profile import Profile, profile
from tests.fakes.records import run, stage
from tests.fakes.refusals import refused

START_S = 1_800_000_000


def job(name: str, after_s: float = 0.0, cores: float = 2.0) -> tuple[Profile, Held]:
    """Make a run of 8.5 s on two slots, of which ten core-seconds are work; its executors come after 1 s."""
    record = run(name, round(1000 * (START_S + after_s)), stage("x", task_cv=0.0), cpu_source="executor")
    return profile(name, [record]), Held(((1.0, cores),), 8.5)


def test_without_a_deadline_each_job_has_until_the_last_one_ended() -> None:
    found = night([job("late", 30.0), job("early")], None)
    assert [one.name for one in found.jobs] == ["early", "late"]
    assert found.deadline_s == START_S + 38.5
    early, late = found.jobs
    # the late one has no second to spare; ten core-seconds of the early one take 35 s on two sevenths of a core
    assert late.saving.fewest_cores == 2.0
    assert late.saving.within_s == pytest.approx(8.5)
    assert early.saving.fewest_cores == pytest.approx(0.3)
    assert early.new_end_s is not None
    assert early.new_end_s <= found.deadline_s + 1e-6
    assert found.feasible
    assert found.held_core_s == pytest.approx(2 * 2.0 * 7.5)


def test_a_job_that_began_too_late_is_named_and_needs_what_it_held() -> None:
    found = night([job("early"), job("late", 30.0)], START_S + 20.0)
    late = found.jobs[1]
    assert (late.saving.fewest_cores, late.new_end_s, late.saving.saved_core_s) == (None, None, 0.0)
    assert not found.feasible


def test_the_fewest_cores_of_tasks_with_two_are_those_that_executors_hold() -> None:
    record = run("two", 1000 * START_S, stage("x", task_cv=0.0), cpu_source="executor", cores=4.0)
    (only,) = night([(profile("two", [record]), Held(((1.0, 4.0),), 8.5))], None).jobs
    assert only.saving.fewest_cores is not None
    assert only.fewest_held == pytest.approx(2 * only.saving.fewest_cores)


def test_a_run_that_is_there_twice_counts_once() -> None:
    assert night([job("a"), job("b", 5.0), job("a")], None) == night([job("a"), job("b", 5.0)], None)


def test_a_time_of_no_calendar_is_refused() -> None:
    assert first_start_s([job("a", 7.0), job("b", 5.0)]) == START_S + 5.0
    with refused(BadInput, "'late'"):
        first_start_s([job("a"), job("late", float(LATEST_S))])


@given(st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 4)), min_size=1, max_size=5), st.none() | st.floats(-100, 2000))
def test_a_night_never_needs_more_than_it_held_and_every_job_with_cores_ends_in_time(
    jobs: list[tuple[float, float]], deadline_s: float | None
) -> None:
    runs = [job(f"job{number}", after_s, cores) for number, (after_s, cores) in enumerate(jobs)]
    found = night(runs, None if deadline_s is None else START_S + deadline_s)
    assert 0 <= found.needed_core_s <= found.held_core_s
    assert len(found.jobs) == len(runs)
    assert deadline_s is not None or found.feasible
    for one in found.jobs:
        # its own run may have ended a little sooner than the forecast for its cores
        assert one.new_end_s is None or one.new_end_s <= max(found.deadline_s, one.end_s) + 0.1
