"""What is left of stages under way, and the cores for it."""

from __future__ import annotations

import pytest

from stage_model.forecast_law import LEAST_REMAINDER, outlook, stage_work_left
from stage_model.live import StageLive
from stage_model.plan import StagePlan
from stage_model.virtual_time import STEADY_WAVES


def live(*, running: int = 0, done: int = 0, cpu_core_s: float = 0.0, **plan: object) -> StageLive:
    facts: dict[str, object] = {"stage": 1, "attempt": 0, "tasks": 10, "work_core_s": 20.0, **plan}
    return StageLive(StagePlan(**facts), running, done, 0.0, 0.0, cpu_core_s)  # type: ignore[arg-type]


def test_before_anything_ran_the_profile_is_believed() -> None:
    left = stage_work_left(live(fixed_s=3.0), 2)
    assert left.running == []
    assert left.waiting == [2.0] * 10
    assert left.fixed_s == 3.0


def test_what_this_run_shows_counts_by_how_much_of_the_stage_it_has_shown() -> None:
    # 5 of 10 tasks took 15 core-seconds: 30 for all. Half shown: (20 + 30) / 2 = 25, hence 2.5 a task.
    left = stage_work_left(live(done=5, cpu_core_s=15.0, fixed_s=3.0), 2)
    assert left.waiting == pytest.approx([2.5] * 5)
    # half of the fixed time is over
    assert left.fixed_s == pytest.approx(1.5)


def test_a_task_that_has_used_up_its_work_is_taken_to_need_a_little_still() -> None:
    left = stage_work_left(live(running=1, done=9, cpu_core_s=20.0), 2)
    assert left.running == pytest.approx([2.0 * LEAST_REMAINDER])


def test_running_tasks_differ_by_as_much_as_tasks_do() -> None:
    # 4 running tasks of 2 core-seconds, nothing done: 8 left; the last wave ends when the largest does
    left = stage_work_left(live(running=4, tasks=4, work_core_s=8.0, task_cv=0.5), 4)
    assert sum(left.running) == pytest.approx(8.0)
    assert max(left.running) > 2.5
    # half done: 4 left, of the same absolute spread as before
    half = stage_work_left(live(running=4, tasks=4, work_core_s=8.0, task_cv=0.5, cpu_core_s=4.0), 4)
    assert sum(half.running) == pytest.approx(4.0)
    assert max(half.running) - 1.0 == pytest.approx(max(left.running) - 2.0, rel=0.3)


def test_an_unknown_stage_is_learned_from_its_own_tasks() -> None:
    # no profile: 4 of 10 tasks took 8
    assert stage_work_left(live(done=4, cpu_core_s=8.0, work_core_s=0.0), 2).waiting == pytest.approx([2.0] * 6)


def test_very_many_tasks_are_a_steady_flow() -> None:
    left = stage_work_left(live(tasks=100_000, work_core_s=200_000.0), 2)
    assert len(left.waiting) == STEADY_WAVES * 2
    assert sum(left.waiting) + left.steady_core_s == pytest.approx(200_000.0)


def test_impossible_counts_never_make_negative_work() -> None:
    left = stage_work_left(live(done=1 << 52, running=5, cpu_core_s=1.0), 2)
    assert left.running == []
    assert left.waiting == []
    assert left.fixed_s == 0.0


def test_a_stage_without_tasks_has_nothing_left() -> None:
    left = stage_work_left(live(tasks=0, running=1, work_core_s=0.0), 2)
    assert left == ([], [], 0.0, 0.0)


def test_the_cores_are_those_that_end_at_the_aim() -> None:
    # 10 tasks of 2 on 2 slots, then 5 s with two tasks, 4 s fixed: 30 core-seconds in 30 s
    seen = outlook([live()], future_busy=(0.0, 5.0), future_fixed_s=4.0, slots=2, speed_limit=1.0, left_s=34.0)
    assert seen.cores == pytest.approx(1.0)
    assert seen.forecast.time_s(1.0) == pytest.approx(34.0)


def test_stages_at_the_same_time_share_the_slots() -> None:
    # two stages of one task of 2 each: side by side on 2 slots
    both = [live(tasks=1, work_core_s=2.0), live(tasks=1, work_core_s=2.0, stage=2)]
    seen = outlook(both, future_busy=(), future_fixed_s=0.0, slots=2, speed_limit=1.0, left_s=3.0)
    assert seen.forecast.busy == pytest.approx((0.0, 2.0))
    # 4 core-seconds in 3 s
    assert seen.cores == pytest.approx(4 / 3)


def test_no_number_of_cores_makes_up_for_fixed_time() -> None:
    assert outlook([live()], future_busy=(), future_fixed_s=9.0, slots=2, speed_limit=1.0, left_s=9.0).cores is None
