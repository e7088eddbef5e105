"""What the driver of a virtual application tells: the production events, in the order Spark sends them.

Not covered: who listens (`learn` makes a profile of them, `pacing` plans with them).
"""

from __future__ import annotations

from experiments.simulator.state import App, SimExecutor, Task
from stage_model.history.events import ApplicationEnd, JobEnd, JobStart, StageCompleted, StageInfo, StageSubmitted, TaskEnd

EPOCH_S = 1_000_000.0
"""The driver's clock at the engine's zero."""


def milliseconds(engine_s: float) -> int:
    """A moment on the driver's clock."""
    return round((EPOCH_S + engine_s) * 1000)


def stage_info(app: App, place: int) -> StageInfo:
    """Every stage has a call site of its own, so its signature does not depend on the order of parallel branches."""
    tasks = len(app.job.stages[place].works)
    return StageInfo(stage=place, name=f"stage{place} at app.py:1", tasks=tasks, parents=app.job.parents(place))


def place_of(name: str) -> int:
    """Which stage of the job has this name."""
    return int(name.split(" ", 1)[0].removeprefix("stage"))


def job_start(app: App, now_s: float) -> JobStart:
    stages = tuple(stage_info(app, place) for place in range(len(app.job.stages)))
    return JobStart(job=0, time_ms=milliseconds(now_s), stages=stages)


def submitted(app: App, place: int, now_s: float) -> StageSubmitted:
    return StageSubmitted(info=stage_info(app, place), time_ms=milliseconds(now_s))


def completed(place: int, now_s: float) -> StageCompleted:
    return StageCompleted(stage=place, attempt=0, time_ms=milliseconds(now_s))


def task_end(app: App, executor: SimExecutor, task: Task, now_s: float) -> TaskEnd:
    stage = app.job.stages[task.stage]
    records = 0 if stage.records is None else round(stage.records / len(stage.works))
    reads_input = not app.job.parents(task.stage)
    written = app.job.written(task.stage)
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
        input_records=records if reads_input else 0,
        shuffle_read_records=0 if reads_input else records,
        shuffle_write_records=round(written / len(stage.works)),
    )


def job_end(now_s: float) -> JobEnd:
    return JobEnd(job=0, time_ms=milliseconds(now_s), ok=True)


def application_end(now_s: float) -> ApplicationEnd:
    return ApplicationEnd(time_ms=milliseconds(now_s))
