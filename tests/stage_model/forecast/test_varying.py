"""Time of tasks on slots that come and go: by hand, and against the schedule on slots that stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.forecast.varying import lasting_s
from stage_model.forecast.virtual_time import Forecast, stages_busy

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
