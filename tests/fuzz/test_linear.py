"""Twice as much hostile input is twice as much work, counted in lines of Python that run (`work`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isqrt
from pathlib import Path

import pytest

from controller.master.core.actions import Actions
from controller.master.core.plan_reply import ClusterNow, plan_reply
from controller.master.profiles import profile_of
from controller.runs.profile_store import ProfileStore
from controller.wire.command import PlanRequest
from controller.wire.worker import WorkerInfo
from stage_model.forecast.curve import curve
from stage_model.forecast.estimate import estimate
from stage_model.forecast.match import match
from stage_model.history import run
from stage_model.history.eventlog import read_event_log
from stage_model.history.events import AnyEvent, JobEnd, JobStart, StageInfo, StageSubmitted
from stage_model.history.gaps import gaps
from stage_model.history.profile import profile, profile_json
from stage_model.history.run import Run
from stage_model.history.run_record import to_record
from tests.fakes.records import facts, stage
from tests.fakes.records import run as record
from tests.fakes.spark_events import Story
from tests.fuzz.work import is_linear

Work = Callable[[], object]


def folded(events: Iterable[AnyEvent]) -> Work:
    listed = list(events)

    def fold() -> None:
        into = Run()
        for event in listed:
            into.apply(event)

    return fold


def job(number: int, *infos: StageInfo) -> list[AnyEvent]:
    """Return the events of a job with all of its stages submitted."""
    return [JobStart(job=number, time_ms=0, stages=infos), *(StageSubmitted(info=info, time_ms=0) for info in infos)]


def a_job_of_which_every_stage_needs_all_before(size: int) -> Work:
    infos = (StageInfo(stage=stage, parents=tuple(range(stage))) for stage in range(isqrt(size)))
    return folded([JobStart(job=0, time_ms=0, stages=tuple(infos))])


def two_jobs_of_stages_side_by_side(size: int) -> Work:
    first, second = ([StageInfo(stage=stage) for stage in range(begin, begin + size)] for begin in (0, size))
    return folded([*job(0, *first), JobEnd(job=0, time_ms=1, ok=True), *job(1, *second)])


def many_stages_behind_a_chain_of_skipped_ones(size: int) -> Work:
    chain = tuple(StageInfo(stage=stage, parents=(stage - 1,) if stage else ()) for stage in range(size))
    behind = (StageInfo(stage=size + number, parents=(size - 1,)) for number in range(size))
    return folded([JobStart(job=0, time_ms=0, stages=chain), *(StageSubmitted(info=info, time_ms=0) for info in behind)])


def jobs_with_deadlines_that_all_run_and_then_end(size: int) -> Work:
    begun: list[AnyEvent] = [
        JobStart(job=number, time_ms=number, properties={"spark.pace.deadline": "10s"}) for number in range(size)
    ]
    events: list[AnyEvent] = [*begun, *(JobEnd(job=number, time_ms=number, ok=True) for number in range(size))]

    def apply() -> None:
        actions = Actions()
        for event in events:
            actions.apply(event)
            actions.under_way()

    return apply


def an_event_log_of_many_tasks(size: int) -> Work:
    head = [b'{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n']
    attempt = '"Stage Attempt ID":0'
    info = f'"Stage Info":{{"Stage ID":0,{attempt},"Stage Name":"s","Number of Tasks":{size},"Submission Time":1}}'
    head.append(f'{{"Event":"SparkListenerStageSubmitted",{info}}}\n'.encode())
    ended = '"Task End Reason":{{"Reason":"Success"}},"Task Metrics":{{"Executor Run Time":1}}'
    task = f'{{{{"Event":"SparkListenerTaskEnd","Stage ID":{{0}},{attempt},{ended},"Task Info":{{1}}}}}}\n'
    times = '{{"Task ID":{0},"Index":{0},"Launch Time":1,"Finish Time":2}}'
    # every second one is of a stage that was never submitted
    tasks = [task.format(number % 2, times.format(number)).encode() for number in range(size)]
    lines = [*head, *tasks, b'{"Event":"SparkListenerApplicationEnd","Timestamp":3}\n']
    return lambda: gaps(read_event_log(lines, "log").run)


def a_curve_of_many_stages(size: int) -> Work:
    taught = profile("k", [record(f"r{n}", n, *(stage(f"s{at}", name=f"s{at}") for at in range(size))) for n in range(3)])
    return lambda: curve(taught, 2, 2.0)


def a_plan_of_many_stages(size: int) -> Work:
    taught = profile("k", [record("r", 1, *(stage(f"s{number}", name=f"s{number}") for number in range(size)))])
    request = PlanRequest(profile_json=profile_json(taught).decode(), deadline_s=60.0, law="paper")
    worker = WorkerInfo(worker_id="w", host="h", cores=2.0, memory_mb=1, runtime="r", pid=1, boot_id="b")
    return lambda: plan_reply(request, profile_of(request, ProfileStore(Path("none"))), ClusterNow([worker]))


def a_match_of_threads_with_many_jobs(size: int) -> Work:
    """Match stages of a job's threads: all jobs are alike, and half are open at once; each is looked at."""
    live = Run()
    for number in range(size):
        for event in job(number, StageInfo(stage=2 * number), StageInfo(stage=2 * number + 1, parents=(2 * number,))):
            live.apply(event)
        if number % 2:
            live.apply(JobEnd(job=number, time_ms=number, ok=True))
    first = [stage(f"x-1-{n}", job=n, start_s=float(n), duration_s=1.5) for n in range(size)]
    second = [stage(f"x-2-{n}", job=n, start_s=n + 0.5, duration_s=9.0, parents=(f"x-1-{n}",)) for n in range(size)]
    taught = record("r", 1, *(one for pair in zip(first, second, strict=True) for one in pair))
    return lambda: match(estimate(profile("k", [taught])), live)


def ran(jobs: Iterable[tuple[int, str]]) -> Run:
    """Run jobs of one stage; each is given by its SQL execution and its stage's name."""
    story = Story()
    for number, (sql, name) in enumerate(jobs):
        stage = StageInfo(stage=number, name=f"{name} at app.py:1", tasks=1)
        story.job(number, stage, sql=str(sql))
        story.whole(stage)
        story.job_end(number)
    story.end()
    return story.run


def turns_of_a_query(size: int, rare: int) -> Run:
    """Run a query of three jobs in each turn; in most turns the second and third job have other names."""
    return ran((turn, f"step {at} {'other' if at and turn % rare else ''}") for turn in range(size) for at in range(3))


def a_match_of_many_sql_executions(size: int) -> Work:
    taught, live = to_record(turns_of_a_query(size, 2), facts()), turns_of_a_query(size, 3)
    return lambda: match(estimate(profile("k", [taught])), live)


def a_match_of_one_sql_execution_with_many_jobs(size: int) -> Work:
    run = ran((0, "step") for _ in range(size))
    return lambda: match(estimate(profile("k", [to_record(run, facts())])), run)


@pytest.mark.parametrize(
    ("work_of", "size"),
    [
        (a_plan_of_many_stages, 50),
        (a_curve_of_many_stages, 50),
        (a_match_of_threads_with_many_jobs, 100),
        (a_match_of_many_sql_executions, 50),
        (a_match_of_one_sql_execution_with_many_jobs, 100),
        (an_event_log_of_many_tasks, 100),
        (a_job_of_which_every_stage_needs_all_before, 1600),
        (two_jobs_of_stages_side_by_side, 200),
        (many_stages_behind_a_chain_of_skipped_ones, 100),
        (jobs_with_deadlines_that_all_run_and_then_end, 100),
    ],
)
def test_twice_as_much_input_is_twice_as_much_work(
    monkeypatch: pytest.MonkeyPatch, work_of: Callable[[int], Work], size: int
) -> None:
    monkeypatch.setattr(run, "MOST_SKIPPED", 20)
    linear, counts = is_linear(work_of, size)
    assert linear, counts
