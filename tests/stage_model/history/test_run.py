from __future__ import annotations

import pytest

from stage_model.history.events import JobEnd, JobStart, StageSubmitted
from stage_model.history.gaps import gaps, why_incomplete
from stage_model.history.profile import RunRecord
from stage_model.history.run_record import ContainerUse, to_record
from tests.fakes.records import facts
from tests.fakes.spark_events import Story, begun, info, submitted

READ, COUNT = info(0, "map at /x/app.py:1"), info(1, parents=(0,))


def record(
    story: Story, container: dict[tuple[int, int], float] | None = None, started_ms: int = 0, *, ended_well: bool = True
) -> RunRecord:
    return to_record(
        story.run,
        facts(id="application-1", when_ms=5, started_ms=started_ms),
        ContainerUse(container_core_s=container, allocated_core_s={(0, 0): 1.5}, throttled_s={(0, 0): 0.5}),
        ended_well=ended_well,
    )


def test_active_stages_are_those_submitted_and_not_completed() -> None:
    story = begun(READ, COUNT)
    assert story.run.active_stages() == ()
    story.submit(READ)
    assert [stage.key for stage in story.run.active_stages()] == [(0, 0)]
    story.complete(READ)
    story.submit(COUNT)
    assert [stage.key for stage in story.run.active_stages()] == [(1, 0)]


def test_tasks_count_once_and_failures_are_counted_apart() -> None:
    story = submitted(READ)
    story.task(READ, 0, records=10, shuffle=5)
    story.task(READ, 0, records=10)  # a speculative copy that ended well, too
    story.task(READ, 1, failure="ExecutorLostFailure")
    story.task(READ, 1, failure="TaskKilled (another attempt succeeded)")
    stage = story.run.attempts[0, 0]
    assert (len(stage.done), stage.amounts.records, stage.amounts.input_records) == (1, 15, 10)
    assert story.run.tasks_failed == 1  # a killed copy is no failure


def test_a_task_whose_output_was_lost_with_its_executor_counts_as_often_as_it_ended() -> None:
    story = submitted(READ)
    story.task(READ, 0, records=10)
    story.task(READ, 0, run_ms=0, cpu_s=0, failure="Resubmitted (resubmitted due to lost executor)")
    stage = story.run.attempts[0, 0]
    assert (stage.done, stage.ended) == (set(), 1)
    story.task(READ, 0, records=10)
    story.task(READ, 1, records=10)
    story.complete(READ)
    story.job_end(0)
    assert (stage.done, stage.ended, stage.teaches) == ({0, 1}, 3, False)
    [kept] = record(story).stages
    assert (kept.tasks, kept.work_core_s, kept.amounts.records) == (3, 1.5, 30)


def test_repeated_starts_change_nothing() -> None:
    story = begun(READ)
    first = story.submit(READ)
    story.task(READ, 0)
    story.job(0, READ)
    assert story.submit(READ) == first
    assert len(story.run.attempts) == len(story.run.jobs) == 1
    assert len(story.run.attempts[0, 0].done) == 1


CANCELLED = "[SPARK_JOB_CANCELLED] Job 1 cancelled part of cancelled job group 5a3e SQLSTATE: XXKDA"


def test_a_run_is_complete_once_it_has_ended_however_its_jobs_did() -> None:
    for finish, well in (("", True), ("Job aborted due to stage failure", False), (CANCELLED, True), ("open", False)):
        story = begun(READ)
        story.whole(READ)
        if finish != "open":
            story.job_end(0, failure=finish)
        assert not story.run.complete
        story.end()
        assert (story.run.complete, story.run.seems_well) == (True, well)
        assert record(story, ended_well=well).complete is well


def test_a_job_that_spark_cancels_after_the_application_s_end_was_under_way_then() -> None:
    story = submitted(READ)
    story.end()
    story.ms += 5
    story.job_end(0, failure="Job 0 cancelled because SparkContext was shut down")
    assert (story.run.complete, story.run.seems_well) == (True, False)
    assert "1 job did not end" in why_incomplete(story.run)


def test_a_job_that_the_program_cancelled_may_end_after_the_application() -> None:
    story = begun(READ)
    story.whole(READ)
    story.job_end(0)
    story.job(1, info(1))
    story.submit(info(1))
    story.end()
    assert not story.run.seems_well
    story.ms += 5
    story.complete(info(1), failure=CANCELLED)
    story.job_end(1, failure=CANCELLED)
    assert (story.run.complete, story.run.seems_well) == (True, True)
    assert gaps(story.run) == ()


def test_a_job_that_failed_while_the_program_went_on_is_no_reason_to_learn_nothing() -> None:
    story = begun(READ)
    story.whole(READ)
    story.job_end(0, failure="Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times")
    story.job(1, info(1))
    story.whole(info(1))
    story.job_end(1)
    story.end()
    assert story.run.seems_well


@pytest.mark.parametrize(
    ("failure", "cancelled"),
    [
        ("Job 1 cancelled part of cancelled job group g", True),
        (CANCELLED, True),
        ("[SPARK_JOB_CANCELLED] Job 2 cancelled as part of cancellation of all jobs SQLSTATE: XXKDA", True),
        ("Job 5 cancelled because SparkContext was shut down", True),
        ("[PYTHON_EXCEPTION] An exception was thrown: Job 5 cancelled", False),
        ("Job aborted due to stage failure: Job 5 cancelled", False),
        ("", False),
    ],
)
def test_by_its_text_a_job_was_cancelled(failure: str, cancelled: bool) -> None:
    assert JobEnd(job=1, time_ms=0, ok=False, failure=failure).cancelled is cancelled
    assert not JobEnd(job=1, time_ms=0, ok=True, failure=failure).cancelled


@pytest.mark.parametrize("end", ["cancelled", "open", "completed"])
def test_a_stage_that_was_cut_off_is_not_in_the_record_and_its_time_is_the_driver_s(end: str) -> None:
    """The completed part of a cancelled job teaches; stages that came after it wait for that part instead."""
    story = Story()
    tail, after = info(1, "writeStream at /x/app.py:9", parents=(0,)), info(2, "count at /x/app.py:12")
    story.job(0, READ, tail)
    story.whole(READ, ms=1000)
    story.submit(tail)
    story.ms += 400
    if end == "open":
        story.end()
        assert len(record(story).stages) == 1
        assert record(story).tail_s == 0.4
        return
    story.complete(tail, failure=None if end == "completed" else "Job 0 cancelled")
    story.job_end(0, failure=CANCELLED)
    story.ms += 100
    story.job(1, after)
    story.whole(after)
    story.job_end(1)
    story.end()
    kept = record(story).stages
    if end == "completed":
        assert [stage.gap_s for stage in kept] == [0.0, 0.0, 0.1]
    else:
        assert [(stage.parents, stage.gap_s) for stage in kept] == [((), 0.0), ((kept[0].signature,), 0.5)]


@pytest.mark.parametrize(
    ("first_task_s", "room_s", "launch_s"),
    [(None, 0.0, None), (9.0, 0.0, 7.0), (9.0, 2.0, 7.0), (9.0, 6.5, 2.5), (1.5, 0.0, 0.0), (9.0, 10.0, 0.0)],
)
def test_the_start_of_executors_counts_from_the_first_stage_and_from_when_there_was_room(
    first_task_s: float | None, room_s: float, launch_s: float | None
) -> None:
    story = Story(ms=3000)
    story.job(0, READ)
    story.whole(READ, ms=8000)
    story.job_end(0)
    story.end()
    found = to_record(story.run, facts(started_ms=1000, first_task_s=first_task_s, room_s=room_s))
    assert (found.startup_s, found.launch_s) == (2.0, launch_s)


def test_a_record_tells_gaps_start_up_and_tail() -> None:
    story = Story(ms=3000)
    story.job(0, READ, COUNT)
    story.whole(READ, ms=1000)
    story.ms += 50
    story.whole(COUNT, ms=2000)
    story.job_end(0)
    story.ms += 700
    again = info(2, "collect at /x/app.py:9")
    story.job(1, again)
    story.whole(again, ms=500)
    story.job_end(1)
    story.ms += 250
    story.end()
    found = record(story, started_ms=1000)
    assert (found.startup_s, found.tail_s, found.duration_s) == (2.0, 0.25, 6.5)
    assert [stage.gap_s for stage in found.stages] == [0.0, 0.05, 0.7]
    assert [stage.start_s for stage in found.stages] == [2.0, 3.05, 5.75]
    names = [stage.signature for stage in found.stages]
    assert [stage.parents for stage in found.stages] == [(), (names[0],), (names[1],)]  # a job waits for the one before
    assert [stage.job for stage in found.stages] == [0, 0, 1]
    assert found.complete


def test_a_record_tells_work_spread_and_allocation() -> None:
    story = submitted(READ)
    story.ms += 3000
    story.task(READ, 0, run_ms=1000, cpu_s=0.4, records=7)
    story.task(READ, 1, run_ms=3000, cpu_s=0.6, shuffle=5)
    story.complete(READ)
    story.job_end(0)
    story.end()
    (stage,) = record(story, {(0, 0): 3.0}).stages
    assert stage.work_core_s == 3.0
    assert (stage.run_s, stage.task_s, stage.task_cv, stage.skew) == (4.0, 2.0, 0.5, 1.5)  # sd of 1, 3 is 1; mean 2
    assert (stage.records, stage.input_records, stage.cores_s, stage.duration_s) == (12, 7, 1.5, 3.0)
    assert stage.throttled_s == 0.5
    assert record(story, {(0, 0): 0.1}).stages[0].work_core_s == pytest.approx(1.0)  # only the threads used 0.4 + 0.6
    without = record(story)
    assert without.cpu_source == "executor"
    assert without.stages[0].work_core_s == pytest.approx(1.0)


def test_failed_tasks_take_their_part_of_container_cpu_with_them() -> None:
    story = submitted(READ)
    story.task(READ, 0, run_ms=1000, failure="ExceptionFailure")
    story.task(READ, 0, run_ms=1000)
    story.task(READ, 1, run_ms=2000)
    story.complete(READ)
    assert record(story, {(0, 0): 4.0}).stages[0].work_core_s == pytest.approx(3.0)  # 3 s of 4 s of run time ended well


def test_python_stages_without_container_cpu_count_run_time() -> None:
    stage = info(0, scopes=("textFile", "PythonRDD"))
    story = begun(stage)
    story.whole(stage, ms=2000, cpu_s=0.1)
    assert record(story).stages[0].work_core_s == pytest.approx(4.0)  # two tasks of 2 s


def test_failed_and_retried_attempts_do_not_teach() -> None:
    story = begun(READ, COUNT)
    story.whole(READ)
    story.submit(COUNT)
    story.complete(COUNT, failure="FetchFailed")
    retry = info(0, "map at /x/app.py:1", tasks=1, attempt=1)
    story.whole(retry)
    story.whole(info(1, parents=(0,), attempt=1))
    found = record(story).stages
    assert [stage.teaches for stage in found] == [False, False]


def lost_and_retried() -> Story:
    """Return a story in which both tasks of READ end. One task of COUNT ends; the other needs the output of a task of READ,
    which is done again first. A task takes a second."""
    story = begun(READ, COUNT)
    story.whole(READ)
    story.submit(COUNT)
    story.ms += 1000
    story.task(COUNT, 0, shuffle=10)
    story.complete(COUNT, failure="FetchFailed")
    story.ms += 200
    story.whole(info(0, READ.name, tasks=1, attempt=1))
    rest = info(1, parents=(0,), tasks=1, attempt=1)
    story.submit(rest)
    story.ms += 1000
    story.task(rest, 0, shuffle=10)
    story.complete(rest)
    story.job_end(0)
    story.end()
    return story


def test_all_attempts_of_a_stage_count_together_as_if_they_had_followed_each_other() -> None:
    read, count = record(lost_and_retried()).stages
    assert (read.tasks, read.work_core_s, read.run_s, read.records) == (3, 1.5, 3.0, 300)
    assert (count.tasks, count.work_core_s, count.run_s, count.records) == (2, 1.0, 2.0, 20)
    # a second for READ, and one for its task that is done again, before which nothing ran for 200 ms
    assert [(read.start_s, read.duration_s), (count.start_s, count.duration_s)] == [(0.0, 2.2), (2.2, 2.0)]
    assert (read.task_s, read.task_cv, read.skew) == (1.0, 0.0, 1.0)


def test_container_cpu_of_all_attempts_counts_and_what_is_allocated_to_all() -> None:
    core_s = {(0, 0): 4.0, (0, 1): 2.5, (1, 0): 1.5, (1, 1): 1.0}
    found = to_record(lost_and_retried().run, facts(), ContainerUse(container_core_s=core_s, allocated_core_s=core_s))
    assert [stage.work_core_s for stage in found.stages] == [6.5, 2.5]
    assert [stage.cores_s for stage in found.stages] == [6.5, 2.5]
    assert [stage.throttled_s for stage in found.stages] == [None, None]


def test_tasks_without_a_known_end_count_as_the_mean_of_the_others() -> None:
    stage = info(0, tasks=4)
    story = submitted(stage)
    story.ms += 3000
    story.task(stage, 0, run_ms=3000, cpu_s=2.0, records=30)
    story.task(stage, 1, run_ms=1000, cpu_s=1.0, records=31)
    story.complete(stage)
    story.job_end(0)
    story.end()
    found = record(story).stages[0]
    assert (found.tasks, found.work_core_s, found.run_s, found.records) == (4, 6.0, 8.0, 122)
    assert (found.task_s, found.teaches) == (2.0, False)


def test_a_stage_that_failed_for_good_did_no_more_than_its_tasks_that_ended() -> None:
    stage = info(0, tasks=4)
    story = submitted(stage)
    story.task(stage, 0, cpu_s=2.0)
    story.complete(stage, failure="Job aborted")
    story.job_end(0, failure="Job aborted")
    assert (record(story).stages[0].tasks, record(story).stages[0].work_core_s) == (4, 2.0)


def test_tasks_without_cpu_time_count_with_their_run_time_unless_the_container_s_is_known() -> None:
    story = submitted(READ)
    story.task(READ, 0, run_ms=3000, cpu_s=0.0)
    story.task(READ, 1, run_ms=3000, cpu_s=2.0)
    story.complete(READ)
    assert record(story).stages[0].work_core_s == 5.0
    assert record(story, {(0, 0): 3.0}).stages[0].work_core_s == 3.0


def test_a_skipped_parent_leads_to_the_stage_that_did_its_work() -> None:
    story = Story()
    story.job(0, READ, sql="0")
    story.whole(READ)
    story.job_end(0)
    twin = info(5, "map at /x/app.py:1")
    final = info(6, parents=(5,))
    story.job(1, twin, final, sql="0")
    story.whole(final)
    story.job_end(1)
    names = [stage.signature for stage in record(story).stages]
    assert record(story).stages[1].parents == (names[0],)


def test_a_snapshot_replaces_what_was_thought_active_and_ends_the_teaching() -> None:
    story = begun(READ, COUNT)
    story.submit(READ)
    again = JobStart(job=1, time_ms=9000, stages=(info(2),))
    story.run.replace_active((again, StageSubmitted(info=info(2), time_ms=9100)))
    assert [stage.key for stage in story.run.active_stages()] == [(2, 0)]
    story.ms = 10_000
    story.complete(info(2))
    story.job_end(1)
    story.end()
    assert not story.run.complete


@pytest.mark.parametrize(("clock_set_by_ms", "teaches"), [(0, True), (-3_600_000, False)])
def test_a_stage_in_which_the_driver_s_clock_was_set_back_teaches_nothing(clock_set_by_ms: int, teaches: bool) -> None:
    story = submitted(READ)
    for index in range(READ.tasks):
        story.task(READ, index, run_ms=4000)
    story.ms += 8000 + clock_set_by_ms
    story.complete(READ)
    assert record(story).stages[0].teaches == teaches
