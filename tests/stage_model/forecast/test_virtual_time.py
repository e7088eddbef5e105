"""Virtual-time schedules and the forecast they give, worked by hand."""

from __future__ import annotations

import math

import pytest

from stage_model.forecast.virtual_time import STEADY_WAVES, Forecast, add, schedule, stages_busy, task_works


class TestTaskWorks:
    def test_they_sum_up_to_exactly_what_there_is(self) -> None:
        assert math.fsum(task_works(37, 2.5, 0.8)) == pytest.approx(37 * 2.5)

    def test_without_spread_all_are_equal(self) -> None:
        assert task_works(3, 2.0, 0.0) == [2.0, 2.0, 2.0]

    def test_their_spread_is_near_the_one_asked_for(self) -> None:
        works = task_works(1000, 1.0, 0.5)
        spread = math.sqrt(math.fsum((w - 1.0) ** 2 for w in works) / 1000)
        # quantiles at the middles of 1000 equal parts leave out the far tail, so a little less
        assert 0.45 < spread <= 0.5

    def test_any_stretch_of_them_is_a_fair_sample(self) -> None:
        works = task_works(64, 1.0, 0.5)
        for start in range(0, 64, 16):
            assert math.fsum(works[start : start + 16]) == pytest.approx(16.0, rel=0.15)

    def test_no_tasks_and_no_work_are_fine(self) -> None:
        assert task_works(0, 1.0, 0.3) == []
        assert task_works(2, 0.0, 0.3) == [0.0, 0.0]


class TestSchedule:
    def test_waiting_tasks_fill_free_slots_in_order(self) -> None:
        # slots: 3 | 1, 4 -> both busy until v=3 (task 4 has then 2 left), one busy until v=5
        assert schedule((), [3.0, 1.0, 4.0], 2) == pytest.approx((2.0, 3.0))

    def test_running_remainders_come_first(self) -> None:
        # running 1 and 2; the waiting one (3) follows on the first: v=1..4; both until 2, then one until 4
        assert schedule([1.0, 2.0], [3.0], 2) == pytest.approx((2.0, 2.0))

    def test_more_running_than_slots_have_slots_of_their_own(self) -> None:
        # three run until 1; the waiting one has to wait until fewer than 2 run, at v=2
        assert schedule([1.0, 2.0, 2.0], [1.0], 2) == pytest.approx((1.0, 1.0, 1.0))

    def test_nothing_to_do_is_not_busy(self) -> None:
        assert schedule((), (), 2) == (0.0, 0.0)


class TestStages:
    def test_many_waves_are_a_steady_flow_with_the_same_work(self) -> None:
        tasks = 4 * STEADY_WAVES * 2
        busy = stages_busy(((tasks, 100.0, 0.4),), 2)
        assert sum(k * v for k, v in enumerate(busy, 1)) == pytest.approx(100.0)
        # equal tasks in full waves keep both slots busy all the time
        assert stages_busy(((tasks, 100.0, 0.0),), 2) == pytest.approx((0.0, 50.0))

    def test_parallel_branches_share_the_slots(self) -> None:
        # one task of 2 and one task of 1: both until 1, one until 2
        assert stages_busy(((1, 2.0, 0.0), (1, 1.0, 0.0)), 2) == pytest.approx((1.0, 1.0))

    def test_stages_in_sequence_add_up_whatever_their_width(self) -> None:
        assert add((1.0,), (2.0, 3.0)) == (3.0, 3.0)
        assert add((2.0, 3.0), (1.0,)) == (3.0, 3.0)


class TestForecast:
    forecast = Forecast((1.0, 2.0, 0.0, 4.0), fixed_s=3.0)
    """1 s with one task, 2 s with two, 4 s with four: 1 + 4 + 16 = 21 core-seconds."""

    def test_time_with_some_cores(self) -> None:
        # 3 fixed + 1 at full speed + 2 at full speed + 4 at half speed
        assert self.forecast.time_s(2.0) == pytest.approx(3 + 1 + 2 + 8)
        assert self.forecast.time_s(100.0) == pytest.approx(3 + 7) == self.forecast.least_time_s()
        # below one core all share: 3 + 21 / 0.5
        assert self.forecast.time_s(0.5) == pytest.approx(45.0)

    def test_least_cores_undo_the_time(self) -> None:
        assert self.forecast.least_cores(14.0) == pytest.approx(2.0)
        assert self.forecast.least_cores(45.0) == pytest.approx(0.5)
        # 3 fixed, 3 at full speed, 16 / c for the rest
        assert self.forecast.least_cores(3 + 3 + 16 / 3) == pytest.approx(3.0)

    def test_no_number_of_cores_beats_the_least_time(self) -> None:
        assert self.forecast.least_cores(10.0) is None
        assert self.forecast.least_cores(10.001) == pytest.approx(4.0, rel=0.01)
        assert self.forecast.least_cores(-5.0) is None

    def test_nothing_left_needs_nothing(self) -> None:
        assert Forecast((), 5.0).least_cores(5.0) == 0.0
        assert Forecast((0.0, 0.0)).least_cores(0.0) == 0.0

    def test_that_no_work_is_known_to_be_left_is_no_reason_to_squeeze_what_is_late(self) -> None:
        assert Forecast((), 5.0).least_cores(4.9) is None
        assert Forecast((0.0, 0.0)).least_cores(-1.0) is None

    def test_a_task_on_a_small_worker_is_slower_than_a_core(self) -> None:
        # two tasks of 1 on 2 workers of 0.8 core: 1.25 s at best, with 1.6 cores
        small = Forecast((0.0, 1.0), speed_limit=0.8)
        assert small.least_time_s() == pytest.approx(1.25)
        assert small.time_s(1.6) == pytest.approx(1.25)
        assert small.least_cores(1.25001) == pytest.approx(1.6, rel=1e-3)
        assert small.least_cores(2.0) == pytest.approx(1.0)
