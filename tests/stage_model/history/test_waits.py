"""Spark's metrics of waiting: sums of tasks and attempts, from a live driver and from an event log, and hostile figures."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.errors import BadInput
from stage_model.history.eventlog_schema import TaskEndLine
from stage_model.history.events import TaskEnd, TaskWaits
from stage_model.history.profile import StageWaits, parse_profile, profile, profile_json
from stage_model.history.run_record import to_record
from stage_model.history.stage_run import NO_WAITS, with_task
from tests.fakes.records import facts, run, stage
from tests.fakes.spark_events import info, submitted

READ = info(0, "map at /x/app.py:1")
WAITED = TaskWaits(fetch_ms=250, remote_bytes=1000, write_ns=500_000_000, memory_spilled_bytes=300, disk_spilled_bytes=100)
longs = st.integers(-(2**63), 2**63 - 1)


def task(waits: TaskWaits | None, run_ms: int = 1000) -> TaskEnd:
    return TaskEnd(
        stage=0, attempt=0, task=0, index=0, executor="1", launch_ms=0, finish_ms=0, ok=True, run_ms=run_ms, waits=waits
    )


def recorded(*waits: TaskWaits | None, tasks: int = 2) -> StageWaits | None:
    """Return what is recorded of a stage whose tasks waited so."""
    read = info(0, READ.name, tasks=tasks)
    story = submitted(read)
    for index, one in enumerate(waits):
        story.task(read, index, waits=one)
    story.complete(read)
    story.job_end(0)
    story.end()
    return to_record(story.run, facts()).stages[0].waits


def test_a_record_has_the_sums_of_its_tasks() -> None:
    assert recorded(WAITED, WAITED) == StageWaits(
        fetch_s=0.5, remote_bytes=2000, write_s=1.0, memory_spilled_bytes=600, disk_spilled_bytes=200
    )


def test_a_task_of_which_no_end_is_known_counts_as_the_mean_of_the_others() -> None:
    assert recorded(WAITED, WAITED, tasks=4) == recorded(WAITED, WAITED, WAITED, WAITED, tasks=4)


def test_one_task_without_metrics_leaves_those_of_its_stage_unknown() -> None:
    assert recorded(WAITED, None) is None
    assert recorded(None, WAITED) is None


def test_all_attempts_of_a_stage_count() -> None:
    story = submitted(READ)
    story.task(READ, 0, waits=WAITED)
    story.complete(READ, failure="FetchFailed")
    again = info(0, READ.name, attempt=1)
    story.submit(again)
    for index in range(2):
        story.task(again, index, waits=WAITED)
    story.complete(again)
    story.job_end(0)
    story.end()
    found = to_record(story.run, facts()).stages[0].waits
    assert found is not None
    assert (found.fetch_s, found.remote_bytes) == (0.75, 3000)


@given(st.builds(TaskWaits, fetch_ms=longs, remote_bytes=longs, write_ns=longs, disk_spilled_bytes=longs), longs)
def test_no_task_waits_for_longer_than_it_runs_and_no_amount_is_below_0(waits: TaskWaits, run_ms: int) -> None:
    found = with_task(NO_WAITS, task(waits, run_ms))
    assert found is not None
    assert 0 <= found.fetch_ms <= max(0, run_ms)
    assert 0 <= found.write_ns <= max(0, 1_000_000 * run_ms)
    assert (found.remote_bytes, found.disk_spilled_bytes) == (max(0, waits.remote_bytes), max(0, waits.disk_spilled_bytes))


def line(**metrics: Any) -> bytes:
    """Return the line of a task that ran for a second."""
    event = {
        "Event": "SparkListenerTaskEnd", "Stage ID": 0, "Stage Attempt ID": 0, "Task End Reason": {"Reason": "Success"},
        "Task Info": {"Task ID": 0, "Index": 0, "Launch Time": 0, "Finish Time": 1000, "Executor ID": "1"},
        "Task Metrics": {"Executor Run Time": 1000, **metrics},
    }  # fmt: skip
    return json.dumps(event).encode()


def of_log(**metrics: Any) -> TaskWaits | None:
    event = msgspec.json.decode(line(**metrics), type=TaskEndLine).event()
    assert isinstance(event, TaskEnd)
    return event.waits


def test_an_event_log_has_the_same_metrics() -> None:
    metrics = {
        "Memory Bytes Spilled": 300,
        "Disk Bytes Spilled": 100,
        "Shuffle Read Metrics": {"Fetch Wait Time": 250, "Remote Bytes Read": 1000, "Local Bytes Read": 7},
        "Shuffle Write Metrics": {"Shuffle Write Time": 500_000_000, "Shuffle Bytes Written": 9},
    }
    assert of_log(**metrics) == WAITED
    assert of_log() == NO_WAITS


def test_a_profile_keeps_them_and_one_without_them_is_read() -> None:
    waits = recorded(WAITED, WAITED)
    known = profile("k", [run("r", 1, stage("a", waits=waits), stage("b"))])
    [read] = parse_profile(profile_json(known)).runs
    assert [one.waits for one in read.stages] == [waits, None]
    older = profile_json(known).replace(b'"waits": null,', b"")
    assert older != profile_json(known)
    assert parse_profile(older) == known


@pytest.mark.parametrize(
    "wrong", [{"fetch_s": -1.0}, {"write_s": 2e12}, {"write_s": float("inf")}, {"remote_bytes": -1}, {"remote_bytes": 2**63}]
)
def test_a_profile_with_impossible_ones_is_refused(wrong: dict[str, Any]) -> None:
    waits = StageWaits(fetch_s=1.0, remote_bytes=1, write_s=1.0, memory_spilled_bytes=1, disk_spilled_bytes=1)

    def read(said: StageWaits) -> None:
        parse_profile(profile_json(profile("k", [run("r", 1, stage("a", waits=said))])))

    read(waits)
    with pytest.raises(BadInput):
        read(msgspec.structs.replace(waits, **wrong))
