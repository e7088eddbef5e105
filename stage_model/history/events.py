"""The events that a Spark driver reports: jobs, stages, tasks, executors.

The bridge sends these as JSON (`{"type": "task_end", ...}`), `eventlog` makes the same events from a Spark event log, and
`run` folds them into one run record, so a live run and a log teach alike. Times are milliseconds of one clock of the
driver's, of which only differences are used: the bridge's steady clock, which no step of the wall clock moves; in an event
log the wall clock itself. Bounds hold for decoded events. Not covered here: how events travel (`controller.wire`).
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

Epoch = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799_999)]
"""Milliseconds; no calendar goes beyond the year 9999."""
Number = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
"""An id or a count, an `int` of Spark's."""
Long = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
"""A `long` of Spark's; a duration is below 0 where a clock was set back."""
_CANCELLED = re.compile(r"(\[SPARK_JOB_CANCELLED\] )?Job [0-9]+ cancelled\b")
"""The words of Spark 3.5 and 4.x for a job that was cancelled: by its number, with its group or tag, with all jobs, or
because its SparkContext was stopped. A streaming query that stops cancels its job group."""
_SHUT_DOWN = "cancelled because SparkContext was shut down"
"""The end of the words for a job that was under way when its SparkContext was stopped."""


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="type"):
    """Base of all events; the JSON field `type` names the kind of event."""


class StageInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A stage as Spark's `StageInfo` describes it.

    `name` is Spark's call site in short form ("reduceByKey at /home/me/app.py:12"); `scopes` are the operator names of
    the stage's RDD chain (the `RDDInfo` scope names, else RDD names), in RDD-id order; `parents` are stage ids.
    """

    stage: Number
    attempt: Number = 0
    name: str = ""
    tasks: Number = 0
    parents: tuple[Number, ...] = ()
    scopes: tuple[str, ...] = ()


class JobStart(Event, frozen=True, kw_only=True, tag="job_start"):
    """A job and every stage it may run (some will be skipped). `properties` holds only the few local properties we use.
    `wall_ms`: epoch milliseconds of its start, for properties that name a time of day (None: `time_ms` is epoch time, too).
    `sql_execution`: the SQL execution that the job belongs to. The property `spark.sql.execution.id` counts only while that
    execution is under way: a PySpark pool's threads share their properties, and Spark leaves the id of an ended query in
    them, for jobs of no query."""

    job: Number
    time_ms: Epoch
    wall_ms: Epoch | None = None
    stages: tuple[StageInfo, ...] = ()
    sql_execution: str | None = None
    properties: dict[str, str] = {}


class JobEnd(Event, frozen=True, kw_only=True, tag="job_end"):
    """The end of a job. If it is not `ok`, `failure` is the first line of the reason, where it is known."""

    job: Number
    time_ms: Epoch
    ok: bool
    failure: str = ""

    @property
    def cancelled(self) -> bool:
        """True if the job's program cancelled it, which is no failure."""
        return not self.ok and _CANCELLED.match(self.failure) is not None

    @property
    def cut_short(self) -> bool:
        """True if Spark cancelled the job because the application ended first."""
        return self.cancelled and _SHUT_DOWN in self.failure


class StageSubmitted(Event, frozen=True, kw_only=True, tag="stage_submitted"):
    info: StageInfo
    time_ms: Epoch


class StageCompleted(Event, frozen=True, kw_only=True, tag="stage_completed"):
    """The end of a stage attempt. `failure`: None when the attempt succeeded."""

    stage: Number
    attempt: Number
    time_ms: Epoch
    failure: str | None = None


class TaskWaits(msgspec.Struct, frozen=True, kw_only=True):
    """Spark's own metrics of the waiting of a task, or of several tasks together, and of the data behind it.

    `fetch_ms` is the time for which tasks waited for blocks of a shuffle, `remote_bytes` are those that came from other
    executors, `write_ns` is the time for which tasks wrote such blocks. What did not fit in memory was spilled: it had
    `memory_spilled_bytes` there and `disk_spilled_bytes` on disk.
    """

    fetch_ms: Long = 0
    remote_bytes: Long = 0
    write_ns: Long = 0
    memory_spilled_bytes: Long = 0
    disk_spilled_bytes: Long = 0


class TaskEnd(Event, frozen=True, kw_only=True, tag="task_end"):
    """One ended task attempt. `cpu_ns` is Spark's `executorCpuTime`: the JVM task thread only, no Python worker. `waits`:
    None from a bridge of an earlier release, and without metrics."""

    stage: Number
    attempt: Number
    task: Long
    index: Number
    executor: str
    launch_ms: Epoch
    finish_ms: Epoch
    ok: bool
    reason: str = ""
    locality: str = ""
    run_ms: Long = 0
    cpu_ns: Long = 0
    gc_ms: Long = 0
    input_records: Long = 0
    shuffle_read_records: Long = 0
    shuffle_write_records: Long = 0
    input_bytes: Long = 0
    shuffle_read_bytes: Long = 0
    shuffle_write_bytes: Long = 0
    waits: TaskWaits | None = None


class ExecutorAdded(Event, frozen=True, kw_only=True, tag="executor_added"):
    executor: str
    host: str
    cores: Number
    time_ms: Epoch


class ExecutorRemoved(Event, frozen=True, kw_only=True, tag="executor_removed"):
    executor: str
    reason: str
    time_ms: Epoch


class ApplicationEnd(Event, frozen=True, kw_only=True, tag="application_end"):
    time_ms: Epoch


AnyEvent = JobStart | JobEnd | StageSubmitted | StageCompleted | TaskEnd | ExecutorAdded | ExecutorRemoved | ApplicationEnd
