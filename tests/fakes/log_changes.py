"""Changes of made-up event logs: what vendors, old releases, lost events and other ways to run Spark make of one."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from typing import Any

from tests.fakes.made_logs import EPOCH_MS

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Event = dict[str, Any]
Events = list[Event]
Change = Callable[[Events], Events]
Files = Callable[[list[bytes]], dict[str, bytes]]
"""Function that writes the lines of a log to files: their contents by their names."""
TIMES = {"Timestamp", "Submission Time", "Completion Time", "Launch Time", "Finish Time", "spark.app.submitTime"}


def unchanged(events: Events) -> Events:
    return events


def without(*kinds: str) -> Change:
    return lambda events: [event for event in events if not event["Event"].endswith(kinds)]


def without_executor(name: str, *kinds: str) -> Change:
    return lambda events: [e for e in events if not (e["Event"].endswith(kinds) and e.get("Executor ID") == name)]


def without_ends(count: int, stage: int) -> Change:
    """Leave out the ends of the first `count` tasks of that stage."""

    def change(events: Events) -> Events:
        ends = [event for event in events if event["Event"].endswith("TaskEnd") and event["Stage ID"] == stage]
        return [event for event in events if not any(event is end for end in ends[:count])]

    return change


def without_end_of_stage(events: Events) -> Events:
    return [e for e in events if not (e["Event"].endswith("StageCompleted") and e["Stage Info"]["Stage ID"] == 0)]


def without_submission_times(events: Events) -> Events:
    """Take the time from each beginning of a stage."""
    submitted = [event["Stage Info"] for event in events if event["Event"].endswith("StageSubmitted")]
    for info in submitted:
        del info["Submission Time"]
    return events


def before_its_jobs(events: Events) -> Events:
    """Put the application's end before that of its last job, as where its program stops Spark while a job runs."""
    last = next(event for event in reversed(events) if event["Event"].endswith("JobEnd"))
    end = events[-1]
    return [*(event for event in events if event is not last and event is not end), end, last]


def twice_ended(events: Events) -> Events:
    first = next(number for number, event in enumerate(events) if event["Event"].endswith("TaskEnd"))
    return [*events[: first + 1], events[first], *events[first + 1 :]]


def with_killed_copy(events: Events) -> Events:
    """Kill a speculative copy of the first task when that ends."""
    first = next(number for number, event in enumerate(events) if event["Event"].endswith("TaskEnd"))
    info = {**events[first]["Task Info"], "Task ID": 10_000, "Speculative": True}
    reason = {"Reason": "TaskKilled", "Kill Reason": "another attempt succeeded"}
    metrics = {"Executor Run Time": 3000, "Executor CPU Time": 0}
    copy = {**events[first], "Task Info": info, "Task End Reason": reason, "Task Metrics": metrics}
    return [*events[: first + 1], copy, *events[first + 1 :]]


def metrics_changed(**fields: int | None) -> Change:
    """Give each task other metrics, or take them (None)."""

    def change(events: Events) -> Events:
        for event in events:
            metrics = event.get("Task Metrics")
            if metrics:
                metrics.update({name.replace("_", " "): value for name, value in fields.items()})
                event["Task Metrics"] = {name: value for name, value in metrics.items() if value is not None}
        return events

    return change


def changed(kind: str, **fields: str) -> Change:
    def change(events: Events) -> Events:
        for event in events:
            if event["Event"].endswith(kind):
                event.update({name.replace("_", " "): value for name, value in fields.items()})
        return events

    return change


def later(by_ms: int) -> Change:
    def moved(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: moved(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [moved(one) for one in value]
        return type(value)(int(value) + by_ms) if key in TIMES else value

    return lambda events: [moved(event) for event in events]


def started_by(command: str) -> Change:
    """Give the driver another command line."""
    return changed("EnvironmentUpdate", **{"System Properties": {"sun.java.command": command}})  # type: ignore[arg-type]


def in_the_driver(events: Events) -> Events:
    """Run all tasks in the driver, as `--master local` does."""
    for event in events:
        if "Executor ID" in event:
            event["Executor ID"] = "driver"
        if "Task Info" in event:
            event["Task Info"]["Executor ID"] = "driver"
    return events


def in_one_query(events: Events) -> Events:
    """Let all jobs belong to one query, which each names."""
    name = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecution"
    starts = [number for number, event in enumerate(events) if event["Event"].endswith("JobStart")]
    for number in starts:
        events[number]["Properties"] = {"spark.sql.execution.id": "0"}
    begin = {"Event": f"{name}Start", "executionId": 0, "time": EPOCH_MS}
    end = {"Event": f"{name}End", "executionId": 0, "time": EPOCH_MS}
    return [*events[: starts[0]], begin, *events[starts[0] : -1], end, events[-1]]


def in_micro_batches(events: Events) -> Events:
    """Let each job belong to a micro-batch of a streaming query, which reports its progress."""
    name, extended = "org.apache.spark.sql.streaming.StreamingQueryListener$Query", list[Event]()
    for event in events:
        if event["Event"].endswith("JobStart"):
            batch = str(event["Job ID"])
            event["Properties"] = {
                "sql.streaming.queryId": "5f",
                "streaming.sql.batchId": batch,
                "spark.job.description": None,
            }
        extended.append(event)
        if event["Event"].endswith("JobEnd"):
            extended.append({"Event": f"{name}ProgressEvent", "progress": {"id": "5f", "batchId": event["Job ID"]}})
    return extended


def among_others(events: Events) -> Events:
    """Put events between them that say nothing about the work: of Spark, of a vendor, and of another order."""
    extended = list[Event]()
    for event in events:
        extended += [
            event,
            {"Event": "SparkListenerBlockManagerAdded", "Timestamp": 1, "Maximum Memory": 2},
            {"Event": "org.apache.spark.sql.catalyst.catalog.CreateTableEvent", "database": "d", "name": "n"},
            {"Timestamp": 3, "Event": "com.vendor.Metrics"},
        ]
    return extended


def of_databricks(events: Events) -> Events:
    """Begin as Databricks does, and never end."""
    begin = {"Event": "DBCEventLoggingListenerMetadata", "Rollover Number": 0, "Log Version": 1}
    return [begin, *without("LogStart", "ApplicationEnd")(events)]


def left_at_the_end(events: Events) -> Events:
    ms = events[-1]["Timestamp"] - 500
    gone = [
        {
            "Event": "SparkListenerExecutorRemoved",
            "Timestamp": ms,
            "Executor ID": event["Executor ID"],
            "Removed Reason": "idle",
        }
        for event in events
        if event["Event"].endswith("ExecutorAdded")
    ]
    return [*events[:-1], *gone, events[-1]]


# ------------------------------------------------------------ files


def one_file(lines: list[bytes]) -> dict[str, bytes]:
    return {"log": b"".join(lines)}


def cut_off(lines: list[bytes]) -> dict[str, bytes]:
    """End within a line, as where the driver's machine died."""
    return {"log": b"".join(lines[:-1]) + lines[-1][:20]}


def garbled(lines: list[bytes]) -> dict[str, bytes]:
    half = len(lines) // 2
    return {"log": b"".join([*lines[:half], b'{"Event":"SparkListenerTaskEnd",Stage}\n', *lines[half:]])}


def rolling(lines: list[bytes]) -> dict[str, bytes]:
    """Write two parts, packed, as Spark does where logs roll."""
    half, folder = len(lines) // 2, "eventlog_v2_made-1"
    return {
        f"{folder}/appstatus_made-1": b"",
        f"{folder}/events_1_made-1.zstd": zstd.compress(b"".join(lines[:half])),
        f"{folder}/events_2_made-1.zstd": zstd.compress(b"".join(lines[half:])),
    }


def by_the_hour(lines: list[bytes]) -> dict[str, bytes]:
    """Write two parts as Databricks does: each begins with its number, and the earlier one is packed."""
    half = len(lines) // 2
    begin = b'{"Event":"DBCEventLoggingListenerMetadata","Rollover Number":1,"Log Version":1}\n'
    return {
        "eventlog-2026-11-26--15-00.gz": gzip.compress(b"".join(lines[:half])),
        "eventlog": begin + b"".join(lines[half:]),
    }
