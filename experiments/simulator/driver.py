"""The reports of a virtual application's driver: the production events, in the order Spark sends them.

Not covered: the listeners (`learn` makes a profile of the events, `pacing` plans with them).
"""

from __future__ import annotations

from msgspec import structs

from experiments.simulator.jobs import SimJob, SparkJob
from experiments.simulator.state import App, SimExecutor, Task
from stage_model.history.amounts import Amounts
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

EPOCH_S = 1_000_000.0
"""Seconds on the driver's clock at the engine's zero."""


def milliseconds(engine_s: float) -> int:
    """Return a moment on the driver's clock."""
    return round((EPOCH_S + engine_s) * 1000)


def stage_info(job: SimJob, place: int) -> StageInfo:
    """Return Spark's description of a stage. A stage without a name gets a call site of its own, so that its signature does
    not depend on the order of branches."""
    stage, here = job.stages[place], job.spark_job(place)
    copies = _copies(job, here)
    return StageInfo(
        stage=place,
        name=stage.name or f"stage{place} at app.py:1",
        tasks=len(stage.works),
        parents=tuple(copies.get(p, p) for p in job.parents(place) if p in copies or p in here.stages),
        scopes=stage.scopes,
    )


def place_of(name: str) -> int:
    """Return the place of the job's stage that has this name."""
    return int(name.split(" ", 1)[0].removeprefix("stage"))


def _copies(job: SimJob, here: SparkJob) -> dict[int, int]:
    """Return the ids of the stages that a Spark job skips, by the place of the stage that did their work; no other stage has
    these ids."""
    first = len(job.stages) + sum(len(other.skipped) for other in job.spark_jobs[: job.spark_jobs.index(here)])
    return {place: first + number for number, place in enumerate(here.skipped)}


def submitted(app: App, place: int, now_s: float) -> list[AnyEvent]:
    """Return the events of a stage that begins, and of its job if the stage is the job's first."""
    job, here = app.job, app.job.spark_job(place)
    events: list[AnyEvent] = []
    if not any(other != place and other in app.stage_starts_s for other in here.stages):
        skipped = [structs.replace(stage_info(job, old), stage=new) for old, new in _copies(job, here).items()]
        events.append(
            JobStart(
                job=job.spark_jobs.index(here),
                time_ms=milliseconds(now_s),
                stages=(*skipped, *(stage_info(job, other) for other in here.stages)),
                sql_execution=here.sql,
                properties=dict(here.properties),
            )
        )
    return [*events, StageSubmitted(info=stage_info(job, place), time_ms=milliseconds(now_s))]


def completed(app: App, place: int, now_s: float) -> list[AnyEvent]:
    """Return the events of a stage that ends, and of its job if the stage is the job's last."""
    here = app.job.spark_job(place)
    events: list[AnyEvent] = [StageCompleted(stage=place, attempt=0, time_ms=milliseconds(now_s))]
    if app.completed.issuperset(here.stages):
        number = app.job.spark_jobs.index(here)
        events.append(JobEnd(job=number, time_ms=milliseconds(now_s), ok=not here.cancelled))
    return events


def task_end(app: App, executor: SimExecutor, task: Task, now_s: float) -> TaskEnd:
    amounts = _part(app.job.amounts(task.stage), task.index, len(app.job.stages[task.stage].works))
    return TaskEnd(
        stage=task.stage,
        attempt=0,
        task=task.index,
        index=task.index,
        executor=executor.name,
        launch_ms=milliseconds(task.launched_s),
        finish_ms=milliseconds(now_s),
        ok=True,
        run_ms=round(1000 * (now_s - task.launched_s)),
        cpu_ns=round(1e9 * task.work),
        input_records=amounts.input_records,
        shuffle_read_records=amounts.records - amounts.input_records,
        shuffle_write_records=amounts.written_records,
        input_bytes=amounts.input_bytes,
        shuffle_read_bytes=amounts.bytes - amounts.input_bytes,
        shuffle_write_bytes=amounts.written_bytes,
    )


def _part(amounts: Amounts, index: int, tasks: int) -> Amounts:
    """Return one task's part of the amounts; the parts of all tasks add up to the whole."""
    return Amounts(*(whole * (index + 1) // tasks - whole * index // tasks for whole in amounts))


def application_end(now_s: float) -> ApplicationEnd:
    return ApplicationEnd(time_ms=milliseconds(now_s))
