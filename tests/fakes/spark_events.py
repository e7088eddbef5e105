"""Tells a Spark run event by event, with a clock that the test moves: for tests of what is folded from events."""

from __future__ import annotations

from stage_model.history.events import (
    AnyEvent,
    ApplicationEnd,
    JobEnd,
    JobStart,
    StageCompleted,
    StageInfo,
    StageSubmitted,
    TaskEnd,
    TaskWaits,
)
from stage_model.history.run import Run


def info(
    stage: int,
    name: str = "count at /home/me/app.py:3",
    *,
    tasks: int = 2,
    parents: tuple[int, ...] = (),
    scopes: tuple[str, ...] = ("textFile", "map"),
    attempt: int = 0,
) -> StageInfo:
    return StageInfo(stage=stage, attempt=attempt, name=name, tasks=tasks, parents=parents, scopes=scopes)


class Story:
    """A story of events that are applied to `run` and kept; `ms` is the driver's clock."""

    def __init__(self, ms: int = 0) -> None:
        self.ms = ms
        self.run = Run()
        self.events: list[AnyEvent] = []
        self._tasks = 0

    def tell(self, event: AnyEvent) -> None:
        self.events.append(event)
        self.run.apply(event)

    def job(self, job: int, *stages: StageInfo, sql: str | None = None) -> None:
        self.tell(JobStart(job=job, time_ms=self.ms, stages=stages, sql_execution=sql))

    def job_end(self, job: int, *, ok: bool = True, failure: str = "") -> None:
        self.tell(JobEnd(job=job, time_ms=self.ms, ok=ok and not failure, failure=failure))

    def submit(self, stage: StageInfo) -> str:
        self.tell(StageSubmitted(info=stage, time_ms=self.ms))
        return self.run.attempts[stage.stage, stage.attempt].signature

    def task(
        self,
        stage: StageInfo,
        index: int,
        *,
        run_ms: int = 1000,
        cpu_s: float = 0.5,
        records: int = 0,
        shuffle: int = 0,
        written: int = 0,
        record_bytes: int = 0,
        failure: str | None = None,
        waits: TaskWaits | None = None,
    ) -> None:
        """End a task that reads `records` of input and `shuffle`, and writes `written` to a shuffle, each of `record_bytes`
        bytes."""
        self._tasks += 1
        event = TaskEnd(
            stage=stage.stage,
            attempt=stage.attempt,
            task=self._tasks,
            index=index,
            executor="1",
            launch_ms=self.ms - run_ms,
            finish_ms=self.ms,
            ok=failure is None,
            reason=failure or "",
            run_ms=run_ms,
            cpu_ns=round(cpu_s * 1e9),
            input_records=records,
            shuffle_read_records=shuffle,
            shuffle_write_records=written,
            input_bytes=record_bytes * records,
            shuffle_read_bytes=record_bytes * shuffle,
            shuffle_write_bytes=record_bytes * written,
            waits=waits,
        )
        self.tell(event)

    def complete(self, stage: StageInfo, failure: str | None = None) -> None:
        self.tell(StageCompleted(stage=stage.stage, attempt=stage.attempt, time_ms=self.ms, failure=failure))

    def whole(self, stage: StageInfo, *, ms: int = 1000, records: int = 100, cpu_s: float = 0.5) -> str:
        """Submit a stage, run its tasks for `ms` (each `records` input records, `cpu_s`) and complete it."""
        signature = self.submit(stage)
        self.ms += ms
        for index in range(stage.tasks):
            self.task(stage, index, run_ms=ms, records=records, cpu_s=cpu_s)
        self.complete(stage)
        return signature

    def end(self) -> None:
        self.tell(ApplicationEnd(time_ms=self.ms))


def begun(*stages: StageInfo) -> Story:
    """Begin a story with a job of these stages."""
    story = Story()
    story.job(0, *stages)
    return story


def submitted(stage: StageInfo) -> Story:
    """Begin a story with a job of one stage, which is submitted."""
    story = begun(stage)
    story.submit(stage)
    return story
