"""The cores that executors held: steps from an event log's changes, and their core-seconds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.history.eventlog import read_event_log
from stage_model.history.held import Held, cores_held, cores_over
from tests.fakes.log_cases import CASES

START_MS = 1_000_000


def test_core_seconds_are_the_cores_of_each_step_times_its_time() -> None:
    found = cores_held([(START_MS + 5_000, 2), (START_MS + 50_000, 8), (START_MS + 60_000, 0)], START_MS, 61.0)
    assert found == Held(((5.0, 2.0), (50.0, 8.0), (60.0, 0.0)), 61.0)
    assert (found.first_s, found.most_cores) == (5.0, 8.0)
    assert found.core_s == pytest.approx(2 * 45 + 8 * 10)


def test_of_changes_at_one_moment_the_last_counts() -> None:
    found = cores_held([(START_MS + 5_000, 2), (START_MS + 5_000, 4)], START_MS, 10.0)
    assert found.steps == ((5.0, 4.0),)


def test_changes_before_the_start_and_after_the_end_and_of_a_clock_set_back_give_no_negative_time() -> None:
    found = cores_held([(0, 2), (START_MS + 8_000, 4), (START_MS + 3_000, 6), (START_MS + 99_000, 0)], START_MS, 10.0)
    assert found.steps == ((0.0, 2.0), (8.0, 6.0), (10.0, 0.0))
    assert found.core_s == pytest.approx(2 * 8 + 6 * 2)


def test_without_an_executor_nothing_is_held() -> None:
    nothing = cores_held([], START_MS, 10.0)
    assert (nothing.core_s, nothing.most_cores, nothing.first_s) == (0.0, 0.0, 10.0)


def test_spans_of_several_executors_add_up_until_the_end() -> None:
    found = cores_over([(0.0, 10.0, 2.0), (5.0, 20.0, 1.0)], 15.0)
    assert found == Held(((0.0, 2.0), (5.0, 3.0), (10.0, 1.0), (15.0, 0.0)), 15.0)
    assert found.core_s == pytest.approx(2 * 5 + 3 * 5 + 1 * 5)


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50), st.floats(0, 8)), max_size=6))
def test_core_seconds_of_spans_are_the_sum_of_each(given_spans: list[tuple[float, float, float]]) -> None:
    found = cores_over([(since_s, since_s + lasts_s, cores) for since_s, lasts_s, cores in given_spans], 100.0)
    assert found.core_s == pytest.approx(sum(lasts_s * cores for _, lasts_s, cores in given_spans), abs=1e-6)


def test_a_quota_holds_less() -> None:
    assert Held(((5.0, 2.0), (50.0, 8.0)), 60.0).at_most(4.0) == Held(((5.0, 2.0), (50.0, 4.0)), 60.0)


@pytest.mark.parametrize(
    ("name", "core_s"),
    [
        ("plain", 4 * (51 - 5)),
        ("grown", 2 * (61 - 5) + 6 * (61 - 50)),
        ("lost an executor", 2 * (41 - 5) + 2 * (22 - 5)),
        ("tasks of two cores", 4 * (91 - 5)),
    ],
)
def test_executors_of_a_log_hold_their_cores_from_their_coming_to_their_going(name: str, core_s: float) -> None:
    log = read_event_log(CASES[name].lines(), "log")
    record = log.record()
    assert cores_held(log.cores_held, record.when_ms, record.duration_s).core_s == pytest.approx(core_s)
