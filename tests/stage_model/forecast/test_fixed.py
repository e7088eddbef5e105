"""Time of a stage by the model, whatever a profile claims, also on slots that come and go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.forecast.fixed import fixed_times, lasting_s, modelled_s, with_cores
from stage_model.forecast.virtual_time import Forecast, stages_busy
from stage_model.history.profile import StageRecord
from tests.fakes.records import run, stage


@pytest.mark.parametrize("cores", [0.0, 5e-324, 1e-300])
def test_a_run_without_cores_explains_nothing(cores: float) -> None:
    """The least float there is, halved, is nothing: a division by it ended a plan."""
    assert modelled_s((4, 10.0, 0.0), cores=cores, most_cores=cores, slots=2) == 0.0


def test_even_tasks_share_the_cores() -> None:
    assert modelled_s((4, 10.0, 0.0), cores=2.0, most_cores=2.0, slots=2) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("tasks", "cores", "work_core_s"),
    [
        (20, 1.5, 30.0),  # two run all the time, each with 3/4 of a core
        (1, 1.5, 40.0),  # it has a core for itself
        (3, 1.0, 24.0),  # each needs t of work: two run for 2t, then one for t, so 2 * 2t + t = 40
        (20, 2.0, 40.0),
    ],
)
def test_of_run_times_that_a_quota_stretched_a_part_was_work(tasks: int, cores: float, work_core_s: float) -> None:
    python = stage("p", tasks=tasks, run_s=40.0, work_core_s=40.0, task_cv=0.0)
    threads = stage("t", tasks=tasks, run_s=40.0, work_core_s=10.0, task_cv=0.0)
    held = with_cores(run("r", 1, python, threads), cores)
    assert held.cores == cores
    assert [one.work_core_s for one in held.stages] == [pytest.approx(work_core_s), 10.0]


def even(
    name: str, start_s: float, duration_s: float, tasks: int, work_core_s: float, cores_s: float | None = None
) -> StageRecord:
    """Make a stage of tasks that are all alike."""
    more = {"work_core_s": work_core_s, "cores_s": cores_s, "task_cv": 0.0}
    return stage(name, start_s=start_s, duration_s=duration_s, tasks=tasks, **more)


def test_a_stage_that_waited_for_the_slots_of_another_waited_for_cores() -> None:
    large, small, after = even("large", 0.0, 5.0, 4, 8.0), even("small", 0.0, 5.5, 1, 1.0), even("after", 6.0, 3.0, 4, 4.0)
    # large: 5 - 8 / 2; small: not 5.5 - 1 but 5.5 - (8 + 1) / 2, as both together; after: 3 - 4 / 2
    assert fixed_times(run("r", 1, large, small, after)) == pytest.approx({"large": 1.0, "small": 1.0, "after": 1.0})


def test_the_start_of_executors_is_no_time_of_the_first_stages() -> None:
    """There was no executor for 7 of the first stage's 12 s. Then it had 2 cores for 5 s, of which 4 s were work."""
    first, after = even("first", 2.0, 12.0, 4, 8.0, 10.0), even("after", 14.0, 3.0, 4, 4.0)
    found = fixed_times(run("r", 1, first, after, startup_s=2.0, launch_s=7.0))
    assert found == pytest.approx({"first": 1.0, "after": 1.0})
    # not known: 12 s with 10 / 12 core are 9.6 s of work
    assert fixed_times(run("r", 1, first, after, startup_s=2.0))["first"] == pytest.approx(2.4)


def test_of_stages_side_by_side_the_mean_quota_of_both_tells_what_they_did() -> None:
    large, small = even("large", 0.0, 10.0, 4, 6.0, cores_s=8.0), even("small", 0.0, 10.0, 4, 2.0, cores_s=2.0)
    # large had 0.8 cores, small 0.2, both together one, and 10 s, of which 6 / 0.8 and 2 / 0.2 and (6 + 2) / 1 were work
    assert fixed_times(run("r", 1, large, small)) == pytest.approx({"large": 0.0, "small": 0.0})
    small = even("small", 0.0, 10.0, 4, 1.0, cores_s=2.0)
    assert fixed_times(run("r", 1, large, small)) == pytest.approx({"large": 2.5, "small": 2.5})


spans = st.tuples(
    st.floats(0, 10), st.floats(0, 10), st.integers(0, 30), st.floats(0, 30), st.one_of(st.none(), st.floats(0, 30))
)


@given(st.lists(spans, max_size=5), st.floats(0, 4), st.integers(0, 4))
def test_fixed_time_is_a_part_of_the_duration(
    drawn: list[tuple[float, float, int, float, float | None]], cores: float, slots: int
) -> None:
    stages = [
        stage(f"s{number}", start_s=start_s, duration_s=duration_s, tasks=tasks, work_core_s=work, cores_s=cores_s)
        for number, (start_s, duration_s, tasks, work, cores_s) in enumerate(sorted(drawn, key=lambda one: one[0]))
    ]
    found = fixed_times(run("r", 1, *stages, cores=cores, slots=slots))
    assert all(0 <= found[one.signature] <= one.duration_s for one in stages)


TEN = (16, 160.0, 0.0)
"""16 tasks of ten core-seconds."""


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ([(0.0, 2)], 80.0),
        ([(0.0, 2), (50.0, 8)], 50.0),  # from 10 s on: 8 tasks on two slots, then the others at once
        ([(0.0, 2), (35.0, 8)], 45.0),  # six begin at 35 s, two at 40 s, and the last two at 45 s
        ([(0.0, 8), (12.0, 4)], 30.0),  # eight run on until 20 s; then four begin at once
        ([(0.0, 0), (30.0, 8)], 20.0),  # without a slot nothing is explained
        ([(0.0, 8), (20.0, 0), (70.0, 8)], 20.0),
        ([(0.0, 8), (20.0, 0)], 10.0),  # no slot ever comes
    ],
)
def test_tasks_take_the_slots_that_are_there(steps: list[tuple[float, int]], seconds: float) -> None:
    assert lasting_s([TEN], 10.0, steps, 1.0) == pytest.approx(seconds)


def test_slow_slots_take_longer() -> None:
    assert lasting_s([TEN], 10.0, [(0.0, 8)], 0.5) == pytest.approx(40.0)


stages = st.lists(st.tuples(st.integers(0, 40), st.floats(0, 100), st.sampled_from((0.0, 0.3))), min_size=1, max_size=3)


@given(stages, st.integers(1, 6), st.sampled_from((0.5, 1.0)), st.lists(st.floats(0, 100), max_size=3))
def test_steps_of_as_many_slots_are_no_steps(
    sized: list[tuple[int, float, float]], slots: int, speed: float, changes: list[float]
) -> None:
    steps = [(0.0, slots), *((second, slots) for second in sorted(changes))]
    expected = Forecast(stages_busy(tuple(sized), slots), 0.0, speed).least_time_s()
    assert lasting_s(sized, 20.0, steps, speed) == pytest.approx(expected)


@given(st.integers(1, 5000), st.lists(st.tuples(st.floats(0, 300), st.integers(0, 6)), min_size=1, max_size=5))
def test_no_work_is_done_faster_than_all_slots_do_it(tasks: int, drawn: list[tuple[float, int]]) -> None:
    steps = [*sorted(drawn), (301.0, 6)]
    assert lasting_s([(tasks, float(tasks), 0.0)], 0.0, steps, 1.0) >= tasks / 6 - 1e-6
