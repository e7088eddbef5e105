"""Progress of a stage under way by its best signal, and what hostile counters can make of it."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from msgspec import structs

from stage_model.forecast.doubt import PROFILE_DOUBT
from stage_model.live import LEAST_REMAINDER, StageLive, residual, tasks_worth
from stage_model.plan import StagePlan


def live(
    *,
    tasks: int = 10,
    work_core_s: float = 20.0,
    records: float | None = 1000.0,
    running: int = 2,
    done: int = 4,
    records_running: float = 0.0,
    cpu_core_s: float = 0.0,
    cpu_running_core_s: float = 0.0,
) -> StageLive:
    plan = StagePlan(stage=1, attempt=0, tasks=tasks, work_core_s=work_core_s, records=records)
    seen = 100.0 * done + records_running
    return StageLive(plan, running, done, seen, records_running, cpu_core_s, cpu_running_core_s=cpu_running_core_s)


def test_records_of_running_tasks_are_the_first_choice() -> None:
    # 2 tasks of 100 records each have read 50: a quarter of them; 4 + 2 * 0.25 of 10 tasks
    stage = live(records_running=50.0, cpu_core_s=9.0)
    assert (stage.signal, stage.running_parts()[0]) == ("records", 0.25)
    assert stage.progress() == pytest.approx(0.45)


def test_cpu_time_is_the_second() -> None:
    # 2 core-seconds per task, and so say the 4 that are done: 1 is half a task in 2 running ones
    stage = live(cpu_core_s=9.0, cpu_running_core_s=1.0)
    assert (stage.signal, stage.running_parts()[0]) == ("cpu", 0.25)


def test_how_far_running_tasks_are_goes_by_what_ended_ones_took() -> None:
    # 4 tasks took 3 core-seconds each where the profile says 2; they tell four times as much as it does
    assert live(cpu_core_s=13.0, cpu_running_core_s=1.0).task_core_s == pytest.approx((2 + 4 * 3) / 5)
    # where tasks take half of the profile, tasks that have used a quarter of it are half-way
    cheap = live(done=8, cpu_core_s=9.0, cpu_running_core_s=1.0)
    assert cheap.task_core_s == pytest.approx((2 + 8 * 1) / 9)
    assert cheap.running_parts()[0] == pytest.approx(0.5 / cheap.task_core_s, rel=0.01)


@pytest.mark.parametrize("cv", [0.1, 0.3, 0.5])
def test_running_tasks_still_need_the_mean_of_tasks_that_are_not_over_yet(cv: float) -> None:
    rng, sigma = random.Random(1), math.sqrt(math.log1p(cv * cv))
    works = [math.exp(rng.gauss(-sigma * sigma / 2, sigma)) for _ in range(50_000)]
    for used in (0.0, 0.5, 0.9, 1.1, 1.3):
        left = [work - used for work in works if work > used]
        assert residual(used, cv) == pytest.approx(max(LEAST_REMAINDER, statistics.fmean(left)), rel=0.1)


@pytest.mark.parametrize("cv", [0.1, 0.3, 1.0])
def test_the_further_a_task_has_overrun_the_more_it_still_needs(cv: float) -> None:
    lefts = [residual(used, cv) for used in (2.0, 3.0, 5.0, 10.0, 100.0, 1e6)]
    assert lefts == sorted(lefts)
    assert lefts[-1] > 100 * LEAST_REMAINDER
    assert math.isfinite(residual(1e300, cv))


def test_where_exact_figures_end_the_tail_goes_on() -> None:
    exact, tail = residual(5.8, 0.3), residual(5.9, 0.3)
    assert tail == pytest.approx(exact, rel=0.1)


def test_doubt_about_the_profile_counts_for_what_is_left_of_the_only_task() -> None:
    # the only task has used half as much again as its profile says; tasks that ended would tell better than the profile
    only = live(tasks=1, work_core_s=2.0, records=None, running=1, done=0, cpu_core_s=3.0, cpu_running_core_s=3.0)
    assert only.running_parts()[1] == pytest.approx(residual(1.5, PROFILE_DOUBT))
    assert only.running_parts()[1] > 2 * residual(1.5, 0.0)
    others = live(tasks=10, work_core_s=20.0, records=None, running=1, done=9, cpu_core_s=21.0, cpu_running_core_s=3.0)
    assert others.running_parts()[1] < only.running_parts()[1] / 2


def test_the_longer_a_task_has_run_the_further_it_is() -> None:
    fractions = [
        live(running=1, cpu_core_s=8 + used, cpu_running_core_s=used).running_parts()[0] for used in (0, 1, 2, 4, 40)
    ]
    assert fractions == sorted(set(fractions))
    assert all(0 <= fraction < 1 for fraction in fractions)


def test_finished_tasks_are_the_last() -> None:
    stage = live(work_core_s=0.0)
    assert (stage.signal, stage.running_parts()[0], stage.progress()) == ("tasks", 0.0, 0.4)


def reading(share: float, looks: int = 1000) -> StageLive:
    """Make a stage of 20 alike tasks of 2 core-seconds and 100 records, half of which is done; the tasks read their records
    in the first `share` of their work, and the task that runs now has used half of its work."""
    parts = [(n + 0.5) / looks for n in range(looks)]
    plan = StagePlan(stage=1, attempt=0, tasks=20, work_core_s=40.0, records=2000.0, task_cv=0.0)
    read = 100 * min(1.0, 0.5 / share)
    seen = (sum(100 * min(1.0, part / share) for part in parts), sum(2 * part for part in parts))
    return StageLive(plan, 1, 10, 1000 + read, read, 21.0, 1, 1.0, *seen)


@pytest.mark.parametrize("share", [1.0, 0.8, 0.5, 0.25])
def test_how_far_reading_runs_ahead_is_what_tasks_have_read_on_average_beyond_what_they_have_used(share: float) -> None:
    # over all of a task, read on average: share / 2 while it reads, then all; used: a half
    stage = reading(share)
    sure = 10 / (10 + tasks_worth(stage.plan))
    assert stage.reads_ahead == pytest.approx(sure * ((share / 2 + 1 - share) / 0.5 - 1), abs=1e-6)


def test_where_no_work_is_known_nothing_tells_whether_reading_runs_ahead() -> None:
    # nothing is known of a task's work, and all CPU is a running one's
    plan = StagePlan(stage=1, attempt=0, tasks=2, work_core_s=0.0, records=10.0)
    assert StageLive(plan, 1, 1, 10.0, 5.0, 1.0, 1, 1.0, seen_records=5.0, seen_core_s=1.0).reads_ahead == 0.0


def test_where_reading_runs_ahead_cpu_tells_how_far_a_task_is() -> None:
    # a task that has read all by half of its work seems over by its records; a twentieth is what is kept then
    done, left = reading(0.5).running_parts()
    assert (done, left) == pytest.approx((0.5, 0.5), abs=0.06)
    assert reading(1.0).running_parts() == pytest.approx((0.5, 0.5), abs=1e-6)
    unseen = structs.replace(reading(0.5), seen_records=0.0, seen_core_s=0.0)
    assert unseen.running_parts() == (1.0, LEAST_REMAINDER)


def test_without_running_tasks_only_finished_ones_count() -> None:
    assert live(running=0, cpu_core_s=19.0).progress() == pytest.approx(0.4)


def test_a_fraction_stays_between_0_and_1() -> None:
    assert 0.9 < live(cpu_core_s=100.0, cpu_running_core_s=99.0).running_parts()[0] <= 1.0
    assert 0.9 < live(cpu_core_s=1.0, cpu_running_core_s=99.0).running_parts()[0] <= 1.0
    assert live(cpu_core_s=1.0).running_parts()[0] == 0.0
    assert live(records_running=9999.0).running_parts()[0] == 1.0


def test_waiting_are_the_tasks_that_neither_run_nor_ended() -> None:
    assert live().waiting == 4


def test_claims_beyond_the_tasks_of_the_stage_do_not_count() -> None:
    stage = live(done=1 << 52, running=1 << 30)
    assert (stage.ended, stage.started, stage.waiting, stage.progress()) == (10, 0, 0, 1.0)
    stage = live(done=9, running=4)
    assert (stage.ended, stage.started, stage.waiting) == (9, 1, 0)


def test_a_stage_without_tasks_is_done() -> None:
    stage = live(tasks=0, running=3, done=0, records_running=1.0, cpu_core_s=1.0)
    assert (stage.progress(), stage.waiting, stage.running_parts()[0]) == (1.0, 0, 0.0)


@pytest.mark.parametrize("work_core_s", [5e-324, 1e-300, 1e-12])
def test_a_profile_that_says_next_to_no_work_is_no_measure_of_progress(work_core_s: float) -> None:
    # found by a property: half of the least number above 0 is 0
    stage = live(tasks=2, work_core_s=work_core_s, records=None, running=1, done=0, cpu_core_s=1.0, cpu_running_core_s=1.0)
    assert stage.running_parts() == (0.0, 1.0)
    assert stage.progress() == 0.0
