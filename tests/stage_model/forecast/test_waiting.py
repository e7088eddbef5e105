"""Waiting, which a quota hides, distinguished from latency, which adds, and both in a forecast."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stage_model.forecast.curve import to_come, whole
from stage_model.forecast.estimate import StageEstimate, estimate
from stage_model.forecast.fixed import modelled_s
from stage_model.forecast.virtual_time import Forecast, WorkLeft, schedule, side_by_side, weighed, with_waiting
from stage_model.forecast.waiting import Shown, split
from stage_model.history.profile import RunRecord, StageRecord, profile
from tests.fakes.records import run, stage

# ---------------------------------------------------------------- which it was


@pytest.mark.parametrize(("waited_s", "waiting_s"), [(0.0, 0.0), (4.0, 4.0), (9.0, 6.0)])
def test_tasks_that_ran_and_neither_computed_nor_were_held_back_waited(waited_s: float, waiting_s: float) -> None:
    # kept from 0.5 of the 10.5 core-seconds that it could have used
    assert split([Shown(6.0, 1.6, 10.0, 0.5, waited_s)]) == (6.0, waiting_s)


def test_fixed_time_that_is_there_although_a_quota_held_the_stage_back_is_latency() -> None:
    # half of what it could have used
    assert split([Shown(6.0, 0.5, 10.0, 10.0)]) == (6.0, 0.0)


def test_where_throttled_time_is_not_known_fixed_time_is_taken_to_add() -> None:
    assert split([Shown(6.0, 1.6, 10.0, None, 5.0)]) == (6.0, 0.0)
    assert split([Shown(6.0, 1.6, 10.0, None), Shown(4.0, 1.5, 10.0, None), Shown(5.0, 1.6, 10.0, None)]) == (5.0, 0.0)


@pytest.mark.parametrize("throttled", [(0.5, 8.0, 11.0), (None, None, None)])
def test_what_disappears_with_fewer_cores_was_waiting(throttled: tuple[float | None, ...]) -> None:
    full, half, third = throttled
    runs = [Shown(25.0, 1.6, 10.0, full), Shown(6.0, 0.8, 10.0, half), Shown(2.0, 0.5, 10.0, third)]
    # with throttled time the last two were held back alike, by 8 / 18 and 11 / 21: (6 + 2) / 2 is left in them
    assert split(runs) == ((25.0, 21.0) if full is not None else (25.0, 23.0))


def test_a_busy_run_is_outweighed_by_others_with_as_many_cores() -> None:
    runs = [Shown(fixed_s, 1.6, 10.0, 0.0, fixed_s) for fixed_s in (3.0, 50.0, 4.0)]
    assert split(runs) == (4.0, 4.0)


def test_few_cores_are_no_sign_of_a_quota_where_throttled_time_is_known() -> None:
    # the second had few cores, because other stages ran alongside it, and used them little
    runs = [Shown(6.0, 1.6, 10.0, 0.0, 5.0), Shown(6.0, 0.5, 10.0, 0.0, 5.0)]
    assert split(runs) == (6.0, 5.0)


shown = st.builds(Shown, st.floats(0, 50), st.floats(0, 4), st.floats(0, 50), st.none() | st.floats(0, 50), st.floats(0, 50))


@given(st.lists(shown, min_size=1, max_size=6))
def test_waiting_is_a_part_of_the_fixed_time_and_that_one_that_was_seen(runs: list[Shown]) -> None:
    fixed_s, waiting_s = split(runs)
    assert 0 <= waiting_s <= fixed_s
    assert min(one.fixed_s for one in runs) <= fixed_s <= max(one.fixed_s for one in runs)


# ---------------------------------------------------------------- from records to a forecast


def even(throttled_s: float | None) -> RunRecord:
    """Make a stage of four tasks, 10 core-seconds, on two slots and two cores that are never free: 5 s of 8 are work, 3 s are
    not."""
    one = stage(
        "s",
        tasks=4,
        work_core_s=10.0,
        run_s=16.0 + (throttled_s or 0.0),
        task_cv=0.0,
        duration_s=8.0,
        cores_s=16.0,
        throttled_s=throttled_s,
    )
    return run("r", 1, one)


def test_throttled_time_of_a_record_tells_what_its_estimate_waits() -> None:
    [waiting], [unknown], [held] = (estimate(profile("k", [even(t)])).stages for t in (0.0, None, 10.0))
    assert (waiting.fixed_s, waiting.waiting_s) == pytest.approx((3.0, 3.0))
    assert (unknown.fixed_s, unknown.waiting_s) == pytest.approx((3.0, 0.0))
    assert (held.fixed_s, held.waiting_s) == pytest.approx((3.0, 0.0))


def test_waiting_is_hidden_under_a_quota_and_latency_adds() -> None:
    waiting, latency = (whole(estimate(profile("k", [even(t)])), 2) for t in (0.0, None))
    ends = 2.0 + 0.5  # start-up and tail
    # at full speed both take what was recorded
    assert waiting.time_s(2.0) == latency.time_s(2.0) == pytest.approx(ends + 8.0)
    # a task computes for 5 of 8 s, so two use 1.25 cores: with one core or less, the waiting is not seen
    assert waiting.time_s(1.0) == pytest.approx(ends + 10.0)
    assert latency.time_s(1.0) == pytest.approx(ends + 10.0 + 3.0)
    assert waiting.time_s(0.5) == pytest.approx(ends + 20.0)
    # and the cores for an end in between are exact
    assert waiting.least_cores(ends + 16.0) == pytest.approx(10.0 / 16.0)
    assert latency.least_cores(ends + 16.0) == pytest.approx(10.0 / 13.0)


def test_the_only_task_of_a_stage_has_its_own_speed_limit() -> None:
    # it computes for 5 of 8 s, so it uses at most 0.625 of a core: with half a core, the waiting is not seen
    one = stage("s", tasks=1, work_core_s=5.0, run_s=8.0, task_cv=0.0, duration_s=8.0, cores_s=16.0, throttled_s=0.0)
    forecast = whole(estimate(profile("k", [run("r", 1, one)])), 2)
    assert forecast.time_s(1.0) == forecast.time_s(0.7) == pytest.approx(2.5 + 8.0)
    assert forecast.time_s(0.625) == pytest.approx(2.5 + 8.0, rel=0.011)
    assert forecast.time_s(0.5) == pytest.approx(2.5 + 10.0)
    assert forecast.least_cores(2.5 + 10.0) == pytest.approx(0.5)
    assert forecast.least_cores(2.5 + 7.99) is None


def test_a_state_between_two_steps_keeps_its_time_and_its_work_and_never_counts_more_tasks_than_run() -> None:
    found = with_waiting((0.0, 0.0, 6.0), 1.0, 0.01, 0.5)
    assert found.busy == ()
    assert [tasks for tasks, _ in found.limited] == [2.0 ** (25 / 16), 3.0]
    assert sum(v for _, v in found.limited) == pytest.approx(6.0 + 0.005)
    assert found.work_core_s() == pytest.approx(18.0)
    assert (found.fixed_s, found.speed_limit) == (1.0, 0.5)


def test_work_that_waits_follows_on_other_work_and_is_a_part_or_a_multiple_of_itself() -> None:
    first, second = with_waiting((4.0,), 1.0, 4.0, 1.0), with_waiting((0.0, 3.0), 2.0, 6.0, 1.0)
    assert first.limited == ((0.5, 8.0),)
    assert Forecast((2.0,), 3.0).then(first) == first.then(Forecast((2.0,), 3.0)) == Forecast((2.0,), 4.0, 1.0, first.limited)
    assert first.then(first) == Forecast((), 2.0, 1.0, ((0.5, 16.0),))
    assert first.times(0.25) == Forecast((), 1.0, 1.0, ((0.5, 2.0),))
    for cores in (0.1, 0.6, 3.0):
        assert first.then(second).time_s(cores) == pytest.approx(first.time_s(cores) + second.time_s(cores))


def test_stages_side_by_side_wait_together() -> None:
    assert side_by_side([(3.0, 1.0), (5.0, 4.0), (0.0, 0.0)]) == (2.0, 3.0)  # never more than the longest fixed time
    assert side_by_side([]) == (0.0, 0.0)


def test_stages_side_by_side_have_speed_limits_of_their_own() -> None:
    # on one slot, a task that waits for 9 of 10 s comes before a task that computes for 10 s: half a core slows the second
    states = weighed([WorkLeft([], [1.0], 0.0, 9.0, 9.0), WorkLeft([], [10.0], 0.0, 0.0)], 1)
    assert states == [(1, 1.0, 9.0), (1, 10.0, 0.0)]
    forecast = with_waiting((11.0,), 0.0, 9.0, 1.0, states)
    assert forecast.time_s(1.0) == pytest.approx(10.0 + 10.0)
    assert forecast.time_s(0.5) == pytest.approx(10.0 + 20.0)
    # if both waited alike, each would compute for 11 of 20 s
    assert with_waiting((11.0,), 0.0, 9.0, 1.0).time_s(0.5) == pytest.approx(22.0)
    # the same from the estimates of two stages that overlapped
    overlapped = forecast_of([(1, 1.0, 0.0, 9.0, 9.0, 0.0), (1, 10.0, 0.0, 0.0, 0.0, 1.0)], 1, 1.0)
    assert [overlapped.time_s(cores) for cores in (1.0, 0.5)] == pytest.approx([20.0, 30.0])


def test_tasks_that_run_at_once_wait_together() -> None:
    # two slots: a task of 1 that waits 1 s for each core-second, next to a task of 4 that does not, then the latter by itself
    states = weighed([WorkLeft([1.0], [], 0.0, 1.0, 1.0), WorkLeft([4.0], [], 0.0, 0.0)], 2)
    assert states == [(2, 1.0, 0.5), (1, 3.0, 0.0)]


def test_a_stage_of_many_tasks_is_one_state_as_long_as_its_tasks_follow_each_other() -> None:
    states = weighed([WorkLeft([], [1.0] * 4, 0.0, 4.0, 4.0), WorkLeft([], [1.0] * 4, 0.0, 0.0)], 2)
    assert states == [(2, 2.0, 4.0), (2, 2.0, 0.0)]


works = st.lists(st.just(0.0) | st.floats(0.01, 9), max_size=12)
left = st.builds(WorkLeft, works, works, st.just(0.0) | st.floats(0.01, 50), st.just(9.0), st.floats(0, 9))


@given(st.lists(left, min_size=1, max_size=4), st.integers(1, 6))
def test_the_weighed_states_are_those_of_the_schedule(stages: list[WorkLeft], slots: int) -> None:
    running, waiting = [w for one in stages for w in one.running], [w for one in stages for w in one.waiting]
    steady_core_s = sum(one.steady_core_s for one in stages)
    states = weighed(stages, slots)
    for tasks, lasting in enumerate(schedule(running, waiting, slots, steady_core_s), 1):
        assert sum(v for k, v, _ in states if k == tasks) == pytest.approx(lasting, abs=1e-6)
    assert all(v >= 0 and weight >= 0 for _, v, weight in states)


@given(left, st.integers(1, 6), st.floats(0.05, 8))
@example(WorkLeft([], [], 5.0, 9.0, 3.0), 2, 0.5)  # only the steady flow is left
def test_a_stage_by_itself_waits_evenly(one: WorkLeft, slots: int, cores: float) -> None:
    busy = schedule(one.running, one.waiting, slots, one.steady_core_s)
    by_states = with_waiting(busy, 0.0, one.waiting_s, 0.85, weighed([one], slots))
    assert by_states.time_s(cores) == pytest.approx(with_waiting(busy, 0.0, one.waiting_s, 0.85).time_s(cores), rel=1e-6)


def test_finished_stages_are_compared_with_what_they_should_have_waited() -> None:
    # two tasks at a time that compute for half of the time use one core: with one core they take what they do with two
    assert modelled_s((4, 10.0, 0.0), 2.0, 2.0, 2, waiting_s=5.0) == pytest.approx(10.0)
    assert modelled_s((4, 10.0, 0.0), 1.0, 2.0, 2, waiting_s=5.0) == pytest.approx(10.0)
    assert modelled_s((4, 10.0, 0.0), 0.5, 2.0, 2, waiting_s=5.0) == pytest.approx(20.0)


@pytest.mark.parametrize("work_core_s", [5e-324, 1e-300])
def test_a_stage_that_only_waits_adds_what_it_waits(work_core_s: float) -> None:
    """The least float there is, divided by what a profile may claim, is nothing."""
    found = with_waiting((work_core_s,), 0.0, 20.0, 0.85)
    assert found.fixed_s == pytest.approx(20.0)
    assert found.limited == ((1.0, work_core_s),)
    assert modelled_s((1, work_core_s, 0.0), 1.0, 1.0, 1, waiting_s=20.0) == pytest.approx(20.0)


estimates = st.lists(
    st.builds(
        lambda tasks, work, cv, fixed_s, share, start_s: (tasks, work, cv, fixed_s, share * fixed_s, start_s),
        st.integers(0, 40),
        st.just(0.0) | st.floats(0.01, 50),
        *(st.floats(0, most) for most in (1, 20, 1, 20)),
    ),
    min_size=1,
    max_size=5,
)


def forecast_of(
    drawn: list[tuple[int, float, float, float, float, float]], slots: int, limit: float, *, waits: bool = True
) -> Forecast:
    stages = tuple(
        StageEstimate(
            index=index, signature=f"s{index}", name="", job=0, tasks=tasks, records=None, work_core_s=work, task_cv=cv,
            fixed_s=fixed_s, waiting_s=waiting_s if waits else 0.0, gap_s=0.0, duration_s=fixed_s + 1, start_s=start_s,
        )
        for index, (tasks, work, cv, fixed_s, waiting_s, start_s) in enumerate(sorted(drawn, key=lambda one: one[-1]))
    )  # fmt: skip
    return to_come(stages, slots, 1.0, limit)


@given(estimates, st.integers(1, 6), st.sampled_from([0.3, 0.85, 1.0]), st.floats(0.05, 8))
def test_waiting_takes_nothing_at_full_speed_no_work_and_never_more_than_latency_would(
    drawn: list[tuple[int, float, float, float, float, float]], slots: int, limit: float, cores: float
) -> None:
    waiting, latency = (forecast_of(drawn, slots, limit, waits=waits) for waits in (True, False))
    assert waiting.least_time_s() == pytest.approx(latency.least_time_s())
    assert waiting.work_core_s() == pytest.approx(latency.work_core_s())
    assert waiting.work_core_s() / cores <= waiting.time_s(cores) * (1 + 1e-9) + 1e-9
    assert waiting.time_s(cores) <= latency.time_s(cores) * (1 + 1e-9) + 1e-9


@given(estimates, st.integers(1, 6), st.sampled_from([0.3, 0.85, 1.0]), st.floats(0.05, 8), st.floats(0.05, 8))
def test_with_waiting_time_falls_in_cores_and_the_least_cores_are_those_that_bisection_finds(
    drawn: list[tuple[int, float, float, float, float, float]], slots: int, limit: float, a: float, b: float
) -> None:
    forecast = forecast_of(drawn, slots, limit)
    few, many = min(a, b), max(a, b)
    middle = forecast.time_s((few + many) / 2)
    assert forecast.time_s(many) <= middle + 1e-9 <= (forecast.time_s(few) + forecast.time_s(many)) / 2 + 1e-6
    left_s = forecast.time_s(few)
    least = forecast.least_cores(left_s)
    if not forecast.states:
        assert least == 0.0
    elif left_s > forecast.least_time_s() * (1 + 1e-9) + 1e-9:
        low, high = 1e-6, few
        for _ in range(80):
            half = (low + high) / 2
            low, high = (low, half) if forecast.time_s(half) <= left_s else (half, high)
        assert least == pytest.approx(high, rel=1e-6)


# ---------------------------------------------------------------- a real application

FULL = (
    (1, 2.443, 0.0, 3.008, 2.69, 2.007),
    (4, 0.4, 0.13, 0.266, 0.566, 0.335),
    (8, 0.871, 0.25, 0.713, 1.285, 0.836),
    (11, 0.378, 0.17, 0.508, 0.624, 0.73),
    (15, 0.793, 0.25, 0.697, 1.386, 1.031),
    (18, 0.695, 0.08, 0.598, 1.3, 0.954),
    (22, 0.713, 0.17, 0.883, 1.1, 1.382),
    (25, 0.756, 0.06, 0.759, 1.613, 1.235),
    (29, 1.03, 0.17, 1.105, 1.611, 1.772),
    (32, 0.644, 0.09, 0.991, 1.534, 1.626),
    (36, 1.613, 0.19, 1.298, 2.392, 2.194),
    (39, 1.081, 0.1, 1.228, 2.377, 2.049),
)
"""Stages, every seventh of 40 rounds of PageRank in Python on two workers of 0.85 core, at all cores: tasks, core-seconds,
coefficient of variation, seconds, allocated core-seconds, seconds of its tasks. The machine was busy with other work, so not
all of the time is work."""


@pytest.mark.parametrize(("lasted_s", "allocated_core_s"), [(14.08, 11.883), (20.75, 11.392)])
def test_a_run_at_all_cores_tells_how_long_the_same_stages_take_under_a_quota(
    lasted_s: float, allocated_core_s: float
) -> None:
    """The same twelve stages took `lasted_s` in two more runs, which a law held back to that many core-seconds."""

    def recorded(throttled_s: float | None) -> list[StageRecord]:
        return [
            stage(
                f"round{number}", tasks=tasks, work_core_s=work, task_cv=cv, duration_s=duration_s, cores_s=cores_s,
                start_s=10.0 * number, throttled_s=throttled_s, run_s=run_s,
            )
            for number, (tasks, work, cv, duration_s, cores_s, run_s) in enumerate(FULL)
        ]  # fmt: skip

    cores = allocated_core_s / lasted_s
    waiting, latency = (
        whole(estimate(profile("k", [run("r", 1, *recorded(throttled_s), cores=1.7, slots=2)])), 2, 0.85)
        for throttled_s in (0.0, None)
    )
    ends = 2.0 + 0.5  # start-up and tail
    # never too short, and not by much too long
    assert lasted_s < waiting.time_s(cores) - ends < 1.08 * lasted_s
    # as latency the fixed time would have been far too much
    assert latency.time_s(cores) - ends > 1.15 * lasted_s
