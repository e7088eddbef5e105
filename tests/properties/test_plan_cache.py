"""Results that the master works out once, until what they rest on changes, equal a fresh computation, whatever came
between."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.asks.job_options import JobOptions
from controller.master.core import goals, planning, remaining
from controller.master.core.application import Application
from controller.master.core.capacity import Capacity
from controller.master.core.changes import Changes
from controller.master.core.executor_state import Executor, ExecutorRecord
from controller.master.core.executors import gone
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport
from stage_model.forecast.estimate import estimate
from stage_model.history.events import AnyEvent, ApplicationEnd, StageInfo
from stage_model.history.profile import Profile, profile
from stage_model.history.run import Run
from stage_model.history.run_record import ContainerUse, to_record
from tests.fakes.cluster import application_record, registration, use
from tests.fakes.records import facts
from tests.fakes.spark_events import Story
from tests.fakes.worker import spec

STAGES, TASKS, TASK_MS = 4, 3, 2000
MOST = Capacity(cores=2.0, slots=2, speed_limit=1.0, executors=2)


def info(stage: int) -> StageInfo:
    return StageInfo(stage=stage, name=f"step{stage} at app.py:1", tasks=TASKS, parents=(stage - 1,) if stage else ())


def events() -> list[AnyEvent]:
    """Return the events of stages one after the other; of every other one the last task's end is reported after the
    stage's."""
    story = Story()
    story.job(0, *map(info, range(STAGES)))
    for stage in map(info, range(STAGES)):
        late = stage.stage % 2
        story.submit(stage)
        for index in range(TASKS):
            story.ms += TASK_MS
            if late and index == TASKS - 1:
                story.complete(stage)
            story.task(stage, index, run_ms=TASK_MS, cpu_s=TASK_MS / 1000, records=10)
        if not late:
            story.complete(stage)
    story.job_end(0)
    return story.events


EVENTS = events()


def taught() -> Profile:
    run = Run()
    for event in (*EVENTS, ApplicationEnd(time_ms=60_000)):
        run.apply(event)
    works = {(stage, 0): TASKS * TASK_MS / 1000 for stage in range(STAGES)}
    record = to_record(run, facts(executors=2), ContainerUse(container_core_s=works, allocated_core_s=works))
    return profile("app@app.py", [record])


PROFILE = taught()


def application() -> Application:
    """Make an application with a deadline and an executor on each of two workers."""
    record = application_record(registration(), JobOptions(deadline_s=60.0))
    made = Application(
        record=record, started_s=0.0, profile_key="app", profile_runs=1, estimate=estimate(PROFILE), profile=PROFILE
    )
    for number in ("1", "2"):
        kept = ExecutorRecord(executor_id=number, worker_id=f"w{number}", profile_id="0", spec=spec("app", number, slots=1))
        made.executors[number] = Executor(kept)
    return made


executors = st.sampled_from(("1", "2"))
news = st.integers(1, 9).map(lambda count: f"next {count}")
reports = st.tuples(
    executors, st.sampled_from(("life", "next life")), st.integers(0, STAGES - 1), st.integers(0, TASKS), st.floats(0, 20)
)
late = st.integers(0, len(EVENTS) - 1)
"""An event once more, or an event that overtakes those before it."""
steps = st.lists(st.one_of(news, reports, late, st.sampled_from(("lost", "snapshot", "smaller"))), max_size=12)


def kept_alike(app: Application, most: Capacity, now_s: float) -> None:
    kept = planning.application_plan(app, "w1", most, now_s)
    promised = remaining.promises(app, most, now_s)
    app.plan.cache = None
    assert planning.application_plan(app, "w1", most, now_s) == kept
    assert remaining.promises(app, most, now_s) == promised


@settings(deadline=None)
@given(steps)
def test_a_plan_is_the_one_that_would_be_made_from_scratch(steps: list[object]) -> None:
    app, sent, most = application(), 0, MOST
    for now_s, step in enumerate(steps):
        if isinstance(step, str) and step.startswith("next"):
            first, sent = sent, sent + int(step[5:])
            for event in EVENTS[first:sent]:
                goals.take_event(app, event, float(now_s))
                kept_alike(app, most, float(now_s))
        elif isinstance(step, int):
            goals.take_event(app, EVENTS[step], float(now_s))
        elif isinstance(step, tuple):
            number, life, stage, done, cpu_core_s = step
            seen = use(stage, cpu_core_s, done=done)
            report = ExecutorReport(application_id="app", executor_id=number, state=ExecutorState.RUNNING, stages=(seen,))
            app.take(app.executors[number], life, report)
        elif step == "lost":
            gone(app, app.executors["2"], 137, "killed", Changes(), now_s=0.0)
        elif step == "snapshot":
            app.replace_active(EVENTS[:2])
        elif step == "smaller":
            most = Capacity(cores=1.0, slots=1, speed_limit=1.0, executors=1)
        kept_alike(app, most, float(now_s))
