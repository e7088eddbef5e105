"""The lines of a Spark event log that we use, typed by Spark's own field names, and the events that the lines stand for."""

from __future__ import annotations

from typing import get_args

import msgspec

from stage_model.decoding import UNREADABLE
from stage_model.history import events
from stage_model.history.events import AnyEvent, Epoch, Long, Number


class LogLine(msgspec.Struct, frozen=True):
    """The field that every line has."""

    event: str = msgspec.field(name="Event")


class LogStart(msgspec.Struct, frozen=True):
    version: str = msgspec.field(name="Spark Version")


class DatabricksPart(msgspec.Struct, frozen=True):
    """The first line of each file of a log that Databricks writes. The line is no event; it stands for Spark's own
    `LogStart`."""

    number: Number = msgspec.field(name="Rollover Number", default=0)


class ApplicationStart(msgspec.Struct, frozen=True):
    name: str = msgspec.field(name="App Name")
    time_ms: Epoch = msgspec.field(name="Timestamp")
    id: str | None = msgspec.field(name="App ID", default=None)
    attempt: str | None = msgspec.field(name="App Attempt ID", default=None)


class EnvironmentUpdate(msgspec.Struct, frozen=True):
    spark: dict[str, str] = msgspec.field(name="Spark Properties", default_factory=dict)
    system: dict[str, str] = msgspec.field(name="System Properties", default_factory=dict)


class ApplicationEndLine(msgspec.Struct, frozen=True):
    time_ms: Epoch = msgspec.field(name="Timestamp")

    def event(self) -> AnyEvent:
        return events.ApplicationEnd(time_ms=self.time_ms)


class _Scope(msgspec.Struct, frozen=True):
    name: str


_SCOPE = msgspec.json.Decoder(_Scope)


class Rdd(msgspec.Struct, frozen=True):
    id: Number = msgspec.field(name="RDD ID")
    name: str = msgspec.field(name="Name", default="")
    scope: str | None = msgspec.field(name="Scope", default=None)

    def label(self) -> str:
        """Return the operator that made the RDD, else the RDD's own name; `Scope` is JSON in a string."""
        try:
            return _SCOPE.decode(self.scope).name if self.scope else self.name
        except UNREADABLE:
            return self.name


class Stage(msgspec.Struct, frozen=True):
    stage: Number = msgspec.field(name="Stage ID")
    name: str = msgspec.field(name="Stage Name")
    tasks: Number = msgspec.field(name="Number of Tasks")
    attempt: Number = msgspec.field(name="Stage Attempt ID")
    rdds: tuple[Rdd, ...] = msgspec.field(name="RDD Info", default=())
    parents: tuple[Number, ...] = msgspec.field(name="Parent IDs", default=())
    submitted_ms: Epoch | None = msgspec.field(name="Submission Time", default=None)
    completed_ms: Epoch | None = msgspec.field(name="Completion Time", default=None)
    failure: str | None = msgspec.field(name="Failure Reason", default=None)

    def info(self) -> events.StageInfo:
        return events.StageInfo(
            stage=self.stage,
            attempt=self.attempt,
            name=self.name,
            tasks=self.tasks,
            parents=self.parents,
            scopes=tuple(rdd.label() for rdd in sorted(self.rdds, key=lambda rdd: rdd.id)),
        )


class JobStartLine(msgspec.Struct, frozen=True):
    job: Number = msgspec.field(name="Job ID")
    time_ms: Epoch = msgspec.field(name="Submission Time")
    stages: tuple[Stage, ...] = msgspec.field(name="Stage Infos", default=())
    properties: dict[str, str | None] | None = msgspec.field(name="Properties", default=None)

    def event(self) -> AnyEvent:
        return events.JobStart(
            job=self.job,
            time_ms=self.time_ms,
            stages=tuple(stage.info() for stage in self.stages),
            sql_execution=(self.properties or {}).get("spark.sql.execution.id"),
        )


class _QueryLine(msgspec.Struct, frozen=True):
    """A line that begins or ends a query. Such a line is no event; it decides for which jobs the query's id counts
    (`JobStart`)."""

    execution: Long = msgspec.field(name="executionId")


class SQLExecutionStartLine(_QueryLine, frozen=True):
    pass


class SQLExecutionEndLine(_QueryLine, frozen=True):
    pass


class _Exception(msgspec.Struct, frozen=True):
    message: str | None = msgspec.field(name="Message", default=None)


class _Result(msgspec.Struct, frozen=True):
    result: str = msgspec.field(name="Result")
    exception: _Exception = msgspec.field(name="Exception", default_factory=_Exception)


class JobEndLine(msgspec.Struct, frozen=True):
    job: Number = msgspec.field(name="Job ID")
    time_ms: Epoch = msgspec.field(name="Completion Time")
    result: _Result = msgspec.field(name="Job Result")

    def event(self) -> AnyEvent:
        return events.JobEnd(
            job=self.job,
            time_ms=self.time_ms,
            ok=self.result.result == "JobSucceeded",
            failure=(self.result.exception.message or "").partition("\n")[0],
        )


class StageSubmittedLine(msgspec.Struct, frozen=True):
    stage: Stage = msgspec.field(name="Stage Info")

    def event(self) -> AnyEvent | None:
        if self.stage.submitted_ms is None:  # a stage without missing partitions; Spark gives it no time
            return None
        return events.StageSubmitted(info=self.stage.info(), time_ms=self.stage.submitted_ms)


class StageCompletedLine(msgspec.Struct, frozen=True):
    stage: Stage = msgspec.field(name="Stage Info")

    def event(self) -> AnyEvent | None:
        # a stage without missing partitions was not submitted, and yet ends
        if self.stage.completed_ms is None or self.stage.submitted_ms is None:
            return None
        return events.StageCompleted(
            stage=self.stage.stage, attempt=self.stage.attempt, time_ms=self.stage.completed_ms, failure=self.stage.failure
        )


class _TaskInfo(msgspec.Struct, frozen=True):
    task: Long = msgspec.field(name="Task ID")
    index: Number = msgspec.field(name="Index")
    launch_ms: Epoch = msgspec.field(name="Launch Time")
    finish_ms: Epoch = msgspec.field(name="Finish Time")
    executor: str = msgspec.field(name="Executor ID", default="")


class _Input(msgspec.Struct, frozen=True):
    records: Long = msgspec.field(name="Records Read", default=0)
    bytes: Long = msgspec.field(name="Bytes Read", default=0)


class _ShuffleRead(msgspec.Struct, frozen=True):
    records: Long = msgspec.field(name="Total Records Read", default=0)
    fetch_ms: Long = msgspec.field(name="Fetch Wait Time", default=0)
    remote_bytes: Long = msgspec.field(name="Remote Bytes Read", default=0)
    local_bytes: Long = msgspec.field(name="Local Bytes Read", default=0)


class _ShuffleWrite(msgspec.Struct, frozen=True):
    records: Long = msgspec.field(name="Shuffle Records Written", default=0)
    bytes: Long = msgspec.field(name="Shuffle Bytes Written", default=0)
    write_ns: Long = msgspec.field(name="Shuffle Write Time", default=0)


class _Metrics(msgspec.Struct, frozen=True):
    """Missing amounts were not read or written. A CPU time of 0 counts as missing (`StageRun`)."""

    run_ms: Long | None = msgspec.field(name="Executor Run Time", default=None)
    cpu_ns: Long = msgspec.field(name="Executor CPU Time", default=0)
    memory_spilled: Long = msgspec.field(name="Memory Bytes Spilled", default=0)
    disk_spilled: Long = msgspec.field(name="Disk Bytes Spilled", default=0)
    input: _Input = msgspec.field(name="Input Metrics", default_factory=_Input)
    read: _ShuffleRead = msgspec.field(name="Shuffle Read Metrics", default_factory=_ShuffleRead)
    write: _ShuffleWrite = msgspec.field(name="Shuffle Write Metrics", default_factory=_ShuffleWrite)


class _EndReason(msgspec.Struct, frozen=True):
    reason: str = msgspec.field(name="Reason")


class TaskEndLine(msgspec.Struct, frozen=True):
    stage: Number = msgspec.field(name="Stage ID")
    reason: _EndReason = msgspec.field(name="Task End Reason")
    task: _TaskInfo = msgspec.field(name="Task Info")
    attempt: Number = msgspec.field(name="Stage Attempt ID")
    metrics: _Metrics | None = msgspec.field(name="Task Metrics", default=None)

    def event(self) -> AnyEvent | None:
        metrics = self.metrics or _Metrics()
        ok = self.reason.reason == "Success"
        if ok and metrics.run_ms is None:  # counts as a task whose end is not known
            return None
        return events.TaskEnd(
            stage=self.stage,
            attempt=self.attempt,
            task=self.task.task,
            index=self.task.index,
            executor=self.task.executor,
            launch_ms=self.task.launch_ms,
            finish_ms=self.task.finish_ms,
            ok=ok,
            reason="" if ok else self.reason.reason,
            run_ms=metrics.run_ms or 0,
            cpu_ns=metrics.cpu_ns,
            input_records=metrics.input.records,
            shuffle_read_records=metrics.read.records,
            shuffle_write_records=metrics.write.records,
            input_bytes=metrics.input.bytes,
            shuffle_read_bytes=metrics.read.remote_bytes + metrics.read.local_bytes,
            shuffle_write_bytes=metrics.write.bytes,
            waits=events.TaskWaits(
                fetch_ms=metrics.read.fetch_ms,
                remote_bytes=metrics.read.remote_bytes,
                write_ns=metrics.write.write_ns,
                memory_spilled_bytes=metrics.memory_spilled,
                disk_spilled_bytes=metrics.disk_spilled,
            ),
        )


class _ExecutorInfo(msgspec.Struct, frozen=True):
    cores: Number = msgspec.field(name="Total Cores")
    host: str = msgspec.field(name="Host", default="")


class ExecutorAddedLine(msgspec.Struct, frozen=True):
    time_ms: Epoch = msgspec.field(name="Timestamp")
    executor: str = msgspec.field(name="Executor ID")
    info: _ExecutorInfo = msgspec.field(name="Executor Info")

    def event(self) -> AnyEvent:
        return events.ExecutorAdded(executor=self.executor, host=self.info.host, cores=self.info.cores, time_ms=self.time_ms)


class ExecutorRemovedLine(msgspec.Struct, frozen=True):
    time_ms: Epoch = msgspec.field(name="Timestamp")
    executor: str = msgspec.field(name="Executor ID")
    reason: str = msgspec.field(name="Removed Reason", default="")

    def event(self) -> AnyEvent:
        return events.ExecutorRemoved(executor=self.executor, reason=self.reason, time_ms=self.time_ms)


EventLine = (
    JobStartLine
    | JobEndLine
    | StageSubmittedLine
    | StageCompletedLine
    | TaskEndLine
    | ExecutorAddedLine
    | ExecutorRemovedLine
    | ApplicationEndLine
)
SQLLine = SQLExecutionStartLine | SQLExecutionEndLine
Kind = LogStart | DatabricksPart | ApplicationStart | EnvironmentUpdate | SQLLine | EventLine


def _event(kind: type[Kind]) -> str:
    if kind is DatabricksPart:
        return "DBCEventLoggingListenerMetadata"
    package = "org.apache.spark.sql.execution.ui." if issubclass(kind, _QueryLine) else ""
    return f"{package}SparkListener{kind.__name__.removesuffix('Line')}"


KNOWN: dict[str, msgspec.json.Decoder[Kind]] = {_event(kind): msgspec.json.Decoder(kind) for kind in get_args(Kind)}
"""Decoders by Spark's name of the event."""
