"""Random applications somewhere on their way, as the real master knows them: for properties that must hold for any.

A program is a list of jobs on up to three threads. It has run once, which makes the profile; of this some stages may be
missing, and in the run now some have other names. Jobs carry properties of all kinds: none, copies of the application's own,
their own. What executors report is drawn as well, and need not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from msgspec import structs

from controller.agent.core.decide import ObservedExecutor, OwnStage
from controller.asks.job_options import JobOptions
from controller.master.core import goals
from controller.master.core.application import Application
from controller.master.core.capacity import Capacity
from controller.master.core.executor_state import Executor, ExecutorRecord
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, ExecutorSpec
from stage_model.forecast.estimate import ApplicationEstimate, estimate
from stage_model.history.events import (
    AnyEvent,
    ApplicationEnd,
    JobEnd,
    JobStart,
    StageCompleted,
    StageInfo,
    StageSubmitted,
    TaskEnd,
)
from stage_model.history.profile import profile
from stage_model.history.run import Run
from stage_model.history.run_record import ContainerUse, to_record
from tests.fakes.cluster import application_record, registration, use
from tests.fakes.records import facts

SLOTS = 2
"""Slots of an executor."""
DEADLINE = "90.000s"
LEAKED = (DEADLINE, "90s", "1.5min", "90")
"""The application's own deadline, as jobs may have it."""
Properties = dict[str, str]


@dataclass(frozen=True)
class Job:
    """A job. `stages`: number of tasks of each; each stage reads the one before it. `work_core_s` is that of a task."""

    number: int
    thread: int
    site: int
    stages: tuple[int, ...]
    work_core_s: float
    sql: str | None
    properties: Properties = field(default_factory=dict)
    renamed: bool = False

    def infos(self, attempt: int = 0) -> tuple[StageInfo, ...]:
        site = f"step{self.site}{'other' * self.renamed} at app.py:{self.site}"
        first = 10 * self.number
        return tuple(
            StageInfo(stage=first + i, attempt=attempt, name=site, tasks=tasks, parents=(first + i - 1,) if i else ())
            for i, tasks in enumerate(self.stages)
        )

    def events(self, retried: int | None) -> list[AnyEvent]:
        """Return events at time 0. Stage `retried` fails once, when half of its tasks are done."""
        events: list[AnyEvent] = [
            JobStart(job=self.number, time_ms=0, stages=self.infos(), sql_execution=self.sql, properties=self.properties)
        ]
        for place, (first, second) in enumerate(zip(self.infos(), self.infos(attempt=1), strict=True)):
            if place == retried:
                events += self._attempt(first, first.tasks // 2, failure="FetchFailed")
            events += self._attempt(second if place == retried else first, first.tasks)
        return [*events, JobEnd(job=self.number, time_ms=0, ok=True)]

    def _attempt(self, info: StageInfo, done: int, failure: str | None = None) -> list[AnyEvent]:
        run_ms, cpu_ns = round(1000 * self.work_core_s), round(1e9 * self.work_core_s)
        stage, attempt = info.stage, info.attempt
        tasks = [
            TaskEnd(
                stage=stage, attempt=attempt, task=i, index=i, executor="1", launch_ms=0, finish_ms=0, ok=True,
                run_ms=run_ms, cpu_ns=cpu_ns, input_records=10,
            )
            for i in range(done)
        ]  # fmt: skip
        end = StageCompleted(stage=stage, attempt=attempt, time_ms=0, failure=failure)
        return [StageSubmitted(info=info, time_ms=0), *tasks, end]


@dataclass(frozen=True)
class Story:
    """Events up to now, and what the profile predicts; `seen` is the executor on worker w0."""

    jobs: tuple[Job, ...]
    events: tuple[AnyEvent, ...]
    what: ApplicationEstimate
    now_s: float
    deadline_s: float | None
    fair: bool
    executors: int
    cores: float
    reports: tuple[ExecutorReport, ...]
    seen: ObservedExecutor

    @property
    def most(self) -> Capacity:
        speed_limit = min(1.0, self.cores)
        return Capacity(self.cores * self.executors, SLOTS * self.executors, speed_limit, self.executors)

    def with_properties(self, *properties: Properties) -> Application:
        """Return the application as if its jobs had these properties, in the order of `jobs`."""
        conf = {"spark.pace.deadline": DEADLINE, "spark.scheduler.mode": "FAIR" if self.fair else "FIFO"}
        record = application_record(registration(conf=conf, age_s=0.0), JobOptions(deadline_s=self.deadline_s))
        app = Application(record=record, started_s=0.0, profile_key="app", profile_runs=1, estimate=self.what)
        for number in range(self.executors):
            spec = ExecutorSpec(
                application_id="app", executor_id=str(number), java_home="", java_args=(), environment={}, mounts=(),
                slots=SLOTS, memory_mb=1, uid=0, gid=0,
            )  # fmt: skip
            kept = ExecutorRecord(executor_id=str(number), worker_id=f"w{number}", profile_id="0", spec=spec)
            app.executors[str(number)] = Executor(kept)
        by_job = {job.number: given for job, given in zip(self.jobs, properties, strict=True)}
        for event in self.events:
            changed = structs.replace(event, properties=by_job[event.job]) if isinstance(event, JobStart) else event
            at_s = event.time_ms / 1000 if isinstance(event, JobStart | StageSubmitted) else 0.0
            goals.take_event(app, changed, at_s)
        for report in self.reports:
            app.take(app.executors[report.executor_id], "agent", report)
        return app


def _at(event: AnyEvent, ms: int) -> AnyEvent:
    if isinstance(event, TaskEnd):
        return structs.replace(event, launch_ms=max(0, ms - event.run_ms), finish_ms=ms)
    return event if not hasattr(event, "time_ms") else structs.replace(event, time_ms=ms)


def _interleaved(draw: st.DrawFn, jobs: Sequence[Job], retried: dict[int, int]) -> list[AnyEvent]:
    """Mix all events: jobs of one thread follow each other, jobs of different threads come in any order."""
    threads = {thread: [job for job in jobs if job.thread == thread] for thread in {job.thread for job in jobs}}
    left = {t: [e for job in mine for e in job.events(retried.get(job.number))] for t, mine in threads.items()}
    mixed: list[AnyEvent] = []
    ms = draw(st.integers(0, 5000))
    while left:
        thread = draw(st.sampled_from(sorted(left)))
        for _ in range(draw(st.integers(1, 6))):
            mixed.append(_at(left[thread].pop(0), ms))
            ms += draw(st.sampled_from((0, 10, 800)))
            if not left[thread]:
                del left[thread]
                break
    return mixed


own_deadlines = st.sampled_from(("5s", "60s", "200s", "2min"))
properties: st.SearchStrategy[Properties] = st.one_of(
    st.just({}),
    st.sampled_from(LEAKED).map(lambda text: {"spark.pace.deadline": text}),
    own_deadlines.map(lambda text: {"spark.pace.deadline": text}),
    own_deadlines.map(lambda text: {"spark.pace.deadline": text, "spark.pace.priority": "low"}),
)


@st.composite
def jobs(draw: st.DrawFn, number: int) -> Job:
    return Job(
        number=number,
        thread=draw(st.integers(0, 2)),
        site=draw(st.integers(0, 2)),
        stages=tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))),
        work_core_s=draw(st.sampled_from((0.0, 0.1, 0.6, 4.0))),
        sql=draw(st.sampled_from((None, "0", "1"))),
        properties=draw(properties),
    )


def _learned(draw: st.DrawFn, program: Sequence[Job]) -> ApplicationEstimate:
    run, events = Run(), _interleaved(draw, program, {})
    for event in events:
        run.apply(event)
    assert isinstance(events[-1], JobEnd)
    run.apply(ApplicationEnd(time_ms=events[-1].time_ms + draw(st.sampled_from((0, 0, 3000)))))
    works = {key: sum(job.work_core_s for job in program if job.number == key[0] // 10) for key in run.attempts}
    record = to_record(
        run, facts(), ContainerUse(container_core_s={key: work * len(run.attempts[key].done) for key, work in works.items()})
    )
    kept = record.stages[: draw(st.integers(1, len(record.stages)))]
    return estimate(profile("app@app.py", [structs.replace(record, complete=True, stages=kept)]))


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Draw an application with a profile of an earlier run, at any moment of this one."""
    program = [draw(jobs(number)) for number in range(draw(st.integers(1, 6)))]
    what = _learned(draw, program)
    now = tuple(_this_time(draw, job) for job in program)
    retried = {job.number: draw(st.integers(0, 2)) for job in now if draw(st.booleans())}
    events = _interleaved(draw, now, retried)
    events = events[: draw(st.integers(1, len(events)))]
    last_s = max((event.time_ms for event in events if not isinstance(event, TaskEnd)), default=0) / 1000
    run = Run()
    for event in events:
        run.apply(event)
    executors = draw(st.integers(1, 3))
    used = [_use(draw, run) for _ in range(executors)]
    reports = tuple(
        ExecutorReport(
            application_id="app",
            executor_id=str(number),
            state=ExecutorState.RUNNING,
            stages=tuple(
                use(key[0], own.cpu_core_s, attempt=key[1], running=own.running, done=own.done) for key, own in mine.items()
            ),
        )
        for number, mine in enumerate(used)
    )
    return Story(
        jobs=now,
        events=tuple(events),
        what=what,
        now_s=last_s + draw(st.sampled_from((0.0, 0.3, 1.0, 20.0, 120.0))),
        deadline_s=draw(st.sampled_from((90.0, 90.0, 30.0, 300.0, None))),
        fair=draw(st.booleans()),
        executors=executors,
        cores=draw(st.sampled_from((0.5, 0.85, 2.0))),
        reports=reports,
        seen=ObservedExecutor(SLOTS, used[0], idle_s=draw(st.sampled_from((0.0, 0.0, 1.0, 5.0)))),
    )


def _this_time(draw: st.DrawFn, job: Job) -> Job:
    """Draw the job of this run."""
    work_core_s = job.work_core_s * draw(st.sampled_from((1.0, 1.0, 3.0)))
    return Job(
        job.number, job.thread, job.site, job.stages, work_core_s, job.sql, job.properties, renamed=draw(st.booleans())
    )


def _use(draw: st.DrawFn, run: Run) -> dict[tuple[int, int], OwnStage]:
    """Draw what an executor does of the stages under way; some tasks used far more than they should have."""
    left, found = SLOTS, {}
    for stage in run.active_stages():
        running = draw(st.integers(0, left))
        left -= running
        cpu_core_s = draw(st.sampled_from((0.0, 0.2, 1.0, 50.0)))
        running_core_s = cpu_core_s if running else 0.0
        found[stage.key] = OwnStage(
            running=running, done=draw(st.integers(0, 3)), cpu_core_s=cpu_core_s, cpu_running_core_s=running_core_s
        )
    return found
