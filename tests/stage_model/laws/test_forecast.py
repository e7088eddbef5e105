"""The work left of stages under way, and the cores for it."""

from __future__ import annotations

import math

import pytest

from stage_model.forecast.doubt import PROFILE_DOUBT
from stage_model.forecast.virtual_time import STEADY_WAVES, Busy, Limited, WorkLeft, with_waiting
from stage_model.laws.forecast import Outlook, outlook, stage_work_left
from stage_model.live import LEAST_REMAINDER, StageLive, residual
from stage_model.plan import ApplicationPlan, StagePlan


def live(
    *, running: int = 0, done: int = 0, cpu_core_s: float = 0.0, cpu_running_core_s: float = 0.0, **plan: object
) -> StageLive:
    facts: dict[str, object] = {"stage": 1, "attempt": 0, "tasks": 10, "work_core_s": 20.0, **plan}
    what = StagePlan(**facts)  # type: ignore[arg-type]
    return StageLive(what, running, done, 0.0, 0.0, cpu_core_s, cpu_running_core_s=cpu_running_core_s)


def test_before_anything_ran_the_profile_is_believed() -> None:
    left = stage_work_left(live(fixed_s=3.0), 2)
    assert left.running == []
    assert left.waiting == [2.0] * 10
    assert left.fixed_s == 3.0


def test_what_this_run_shows_counts_by_how_sure_it_makes() -> None:
    # 5 of 10 tasks took 15 core-seconds, 3 each, where the profile says 2. Both are known to 30%: the profile once, the mean
    # of five tasks to 30% / sqrt(5), so it counts five times as much
    left = stage_work_left(live(done=5, cpu_core_s=15.0, fixed_s=3.0), 2)
    assert left.waiting == pytest.approx([(2.0 + 5 * 3.0) / 6] * 5)
    # tasks that differ twice as much tell a quarter
    unlike = stage_work_left(live(done=5, cpu_core_s=15.0, task_cv=2 * PROFILE_DOUBT), 2)
    assert sum(unlike.waiting) == pytest.approx(5 * (4 * 2.0 + 5 * 3.0) / 9)
    # half of the fixed time is over
    assert left.fixed_s == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("done", "used_core_s", "left_core_s"),
    [
        (0, 0.0, 20.0),  # 8 of the 20 core-seconds are cold: they come before the third task, next to 1.2 of each task
        (0, 7.0, 13.0),
        (1, 1.2, 18.8),
        (1, 9.2, 10.8),
        (2, 6.0, 14.0),
        (2, 10.4, 9.6),
        (5, 14.0, 6.0),
        (9, 18.8, 1.2),
    ],
)
def test_the_cold_part_of_a_stage_is_not_taken_for_more_work(done: int, used_core_s: float, left_core_s: float) -> None:
    left = stage_work_left(live(done=done, cpu_core_s=used_core_s, cold_core_s=8.0), 2)
    assert sum(left.waiting) == pytest.approx(left_core_s)


def test_a_stage_whose_code_is_warm_already_needs_what_its_tasks_show() -> None:
    # without its cold part, each task needs 1.2 core-seconds
    left = stage_work_left(live(done=5, cpu_core_s=6.0, cold_core_s=8.0), 2)
    assert sum(left.waiting) == pytest.approx(5 * 1.2)


def test_a_stage_with_a_cold_part_that_needs_more_than_profiled_needs_more_to_the_end() -> None:
    # five tasks used 21 core-seconds instead of 14. If all is half as much again, the others need 9 instead of 6; if 10 of
    # the 21 were cold, they need 11. The larger counts five sixths
    left = stage_work_left(live(done=5, cpu_core_s=21.0, cold_core_s=8.0), 2)
    assert sum(left.waiting) == pytest.approx((6.0 + 5 * 11.0) / 6)
    little = stage_work_left(live(done=5, cpu_core_s=15.0, cold_core_s=8.0), 2)
    assert sum(little.waiting) == pytest.approx((6.0 + 5 * 6.0 * 15 / 14) / 6)


def test_a_profile_may_claim_that_all_of_a_stage_is_cold() -> None:
    left = stage_work_left(live(done=5, cpu_core_s=4.0, cold_core_s=1e12), 2)
    assert sum(left.waiting) == pytest.approx(0.0)
    assert sum(stage_work_left(live(cold_core_s=1e12), 2).waiting) == pytest.approx(20.0)
    # what the run shows beyond a cold part of 25 core-seconds counts all the same
    much = stage_work_left(live(done=5, cpu_core_s=100.0, cold_core_s=1e12), 2)
    assert sum(much.waiting) == pytest.approx(5 * 75.0 / 6)


def test_a_task_that_has_used_up_its_work_is_taken_to_need_a_little_still() -> None:
    left = stage_work_left(live(running=1, done=9, cpu_core_s=23.0, cpu_running_core_s=5.0), 2)
    [rest] = left.running
    assert 2.0 * LEAST_REMAINDER <= rest < 2 * 2.0 * LEAST_REMAINDER


def test_running_tasks_differ_by_as_much_as_tasks_do() -> None:
    # 4 running tasks of 2 core-seconds, nothing done: 8 left; the last wave ends when the largest does
    left = stage_work_left(live(running=4, tasks=4, work_core_s=8.0, task_cv=0.5), 4)
    assert sum(left.running) == pytest.approx(8.0)
    assert max(left.running) > 2.5
    # each has used half of a task's work: what the longer ones of such tasks still need, of the same absolute spread; that
    # all of them may be longer than profiled counts, too
    half = stage_work_left(live(running=4, tasks=4, work_core_s=8.0, task_cv=0.5, cpu_core_s=4.0, cpu_running_core_s=4.0), 4)
    rest = 2.0 * residual(0.5, math.hypot(0.5, PROFILE_DOUBT))
    assert sum(half.running) == pytest.approx(4 * rest, rel=0.03)
    assert max(half.running) - rest == pytest.approx(max(left.running) - 2.0, rel=0.3)


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
    assert left == WorkLeft([], [], 0.0, 0.0)


def look(
    stages: list[StageLive],
    left_s: float,
    *,
    future_busy: Busy = (),
    future_limited: Limited = (),
    future_fixed_s: float = 0.0,
    future_doubt: float = PROFILE_DOUBT,
    work_ratio: float = 1.0,
) -> Outlook:
    """Forecast on two slots of a core each."""
    plan = ApplicationPlan(
        application_id="app",
        name="app",
        deadline_s=None,
        left_s=None,
        elapsed_s=0.0,
        stages=(),
        slots=2,
        cores=2.0,
        future_busy=future_busy,
        future_limited=future_limited,
        future_fixed_s=future_fixed_s,
        future_doubt=future_doubt,
        work_ratio=work_ratio,
    )
    return outlook(stages, plan, left_s)


def test_what_a_stage_under_way_waits_is_hidden_and_its_latency_adds() -> None:
    # 20 core-seconds on 2 slots compute for 10 s and wait for 6: two tasks use 20 / 16 cores, so fewer take 20 / c
    waiting = look([live(fixed_s=8.0, waiting_s=6.0)], 27.0)
    assert waiting.forecast.time_s(2.0) == pytest.approx(10.0 + 6.0 + 2.0)
    assert waiting.cores == pytest.approx(20.0 / (27.0 - 2.0))
    # six of ten tasks have ended, and so is as much of what it waits: 8 core-seconds and 0.8 s are left
    later = look([live(done=6, cpu_core_s=12.0, fixed_s=8.0, waiting_s=6.0)], 13.5)
    assert later.cores == pytest.approx(8.0 / (13.5 - 0.8))
    # side by side stages wait together: never more than the longest fixed time
    both = look([live(fixed_s=8.0, waiting_s=6.0), live(fixed_s=5.0, waiting_s=0.0)], 50.0)
    assert both.forecast.time_s(2.0) == pytest.approx(20.0 + 8.0)


def test_a_task_that_only_waits_so_far_gets_more_cores_as_time_goes_by_and_all_before_it_is_too_late() -> None:
    # 5 s of computing and 3 s of waiting: at most 0.625 of a core, and no number of cores is enough for less than 8 s
    one = live(tasks=1, running=1, work_core_s=5.0, fixed_s=3.0, waiting_s=3.0)
    assert look([one], 10.0).cores == pytest.approx(0.5)
    assert look([one], 8.5).cores == pytest.approx(5.0 / 8.5)
    assert look([one], 7.9).cores is None


def test_waiting_of_stages_to_come_is_hidden_like_that_of_a_stage_under_way() -> None:
    # 20 core-seconds on two slots, then 4 of a task that computes for half of its time: half a core is all that it can use
    ahead = with_waiting((4.0,), 0.0, 4.0, 1.0).limited
    seen = look([live()], 48.0, future_limited=ahead)
    assert seen.cores == pytest.approx(0.5)
    assert seen.forecast.time_s(2.0) == pytest.approx(10.0 + 8.0)
    # 8 s are kept for it, for 1.6 times the work 12.8 s
    assert look([live()], 25.0, future_limited=ahead).wary_cores == pytest.approx(20.0 / (25.0 - 1.6 * 8.0))


def test_the_cores_are_those_that_end_at_the_aim() -> None:
    # 10 tasks of 2 on 2 slots, then 5 s with two tasks, 4 s fixed: 30 core-seconds in 30 s
    seen = look([live()], 34.0, future_busy=(0.0, 5.0), future_fixed_s=4.0)
    assert seen.cores == pytest.approx(1.0)
    assert seen.forecast.time_s(1.0) == pytest.approx(34.0)


def test_stages_at_the_same_time_share_the_slots() -> None:
    # two stages of one task of 2 each: side by side on 2 slots
    both = [live(tasks=1, work_core_s=2.0), live(tasks=1, work_core_s=2.0, stage=2)]
    seen = look(both, 3.0)
    assert seen.forecast.busy == pytest.approx((0.0, 2.0))
    # 4 core-seconds in 3 s
    assert seen.cores == pytest.approx(4 / 3)


def test_no_number_of_cores_makes_up_for_fixed_time() -> None:
    assert look([live()], 9.0, future_fixed_s=9.0).cores is None


def test_stages_to_come_keep_time_enough_for_more_work_than_expected() -> None:
    # 20 core-seconds now and 20 to come in 26 s: 40 / 26 cores if all is as expected. Those to come may take
    # 10 * (1 + 2 * 0.3) s on both cores, so those under way must end in what that leaves of the 26 s.
    tight = look([live()], 26.0, future_busy=(0.0, 10.0))
    assert tight.cores == pytest.approx(40 / 26)
    assert tight.wary_cores == pytest.approx(20 / (26 - 16))
    # the less doubt there is of them, the fewer are kept
    assert look([live()], 22.0, future_busy=(0.0, 10.0), future_doubt=0.05).wary_cores == pytest.approx(20 / (22 - 11))
    # that earlier stages needed less than profiled (so 10 s here is half of it) is no promise: all cores
    assert look([live()], 26.0, future_busy=(0.0, 10.0), work_ratio=0.5).wary_cores == 2.0
    # with much time left, and in the last stage, the least cores are enough
    for wide in (look([live()], 100.0, future_busy=(0.0, 10.0)), look([live()], 15.0)):
        assert wide.wary_cores == wide.cores
