"""What a Spark driver tells about itself: jobs, stages, tasks, executors.

The bridge sends these as JSON (`{"type": "task_end", ...}`), `eventlog` makes the same from a Spark event log, and
`run` folds them into one run record, so a live run and a log teach alike. Times are epoch milliseconds of the driver's
clock and only their differences are used. Not covered here: how they travel (`controller.messages`).
"""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events; the JSON field `type` tells which one it is."""


class StageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A stage as Spark's `StageInfo` describes it.

    `name` is Spark's call site in short form ("reduceByKey at /home/me/app.py:12"); `scopes` are the operator names of
    the stage's RDD chain (the `RDDInfo` scope names, else RDD names), in RDD-id order; `parents` are stage ids.
    """

    stage: int
    attempt: int = 0
    name: str = ""
    tasks: int = 0
    parents: tuple[int, ...] = ()
    scopes: tuple[str, ...] = ()


class JobStart(Event, frozen=True, kw_only=True, tag="job_start"):
    """A job and every stage it may run (some will be skipped). `properties` holds only the few local properties we use."""

    job: int
    time_ms: int
    stages: tuple[StageInfo, ...] = ()
    sql_execution: str | None = None
    properties: dict[str, str] = {}


class JobEnd(Event, frozen=True, kw_only=True, tag="job_end"):
    job: int
    time_ms: int
    ok: bool


class StageSubmitted(Event, frozen=True, kw_only=True, tag="stage_submitted"):
    info: StageInfo
    time_ms: int


class StageCompleted(Event, frozen=True, kw_only=True, tag="stage_completed"):
    """`failure` is None when the attempt succeeded."""

    stage: int
    attempt: int
    time_ms: int
    failure: str | None = None


class TaskEnd(Event, frozen=True, kw_only=True, tag="task_end"):
    """One ended task attempt. `cpu_ns` is Spark's `executorCpuTime`: the JVM task thread only, no Python worker."""

    stage: int
    attempt: int
    task: int
    index: int
    executor: str
    launch_ms: int
    finish_ms: int
    ok: bool
    reason: str = ""
    locality: str = ""
    run_ms: int = 0
    cpu_ns: int = 0
    gc_ms: int = 0
    input_records: int = 0
    shuffle_read_records: int = 0
    shuffle_write_records: int = 0
    input_bytes: int = 0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0


class ExecutorAdded(Event, frozen=True, kw_only=True, tag="executor_added"):
    executor: str
    host: str
    cores: int
    time_ms: int


class ExecutorRemoved(Event, frozen=True, kw_only=True, tag="executor_removed"):
    executor: str
    reason: str
    time_ms: int


class ApplicationEnd(Event, frozen=True, kw_only=True, tag="application_end"):
    time_ms: int


AnyEvent = JobStart | JobEnd | StageSubmitted | StageCompleted | TaskEnd | ExecutorAdded | ExecutorRemoved | ApplicationEnd
