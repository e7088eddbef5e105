"""Event logs of killed jobs: which work was for nothing, and the times since submission."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.baselines.lost_work import Story, tell
from stage_model.errors import BadInput


def task(index: int, launch_ms: int, finish_ms: int, reason: str = "Success", stage: int = 0) -> dict[str, Any]:
    return {
        "Event": "SparkListenerTaskEnd",
        "Stage ID": stage,
        "Stage Attempt ID": 0,
        "Task End Reason": {"Reason": reason},
        "Task Info": {"Task ID": launch_ms, "Index": index, "Launch Time": launch_ms, "Finish Time": finish_ms},
        "Task Metrics": {"Executor Run Time": finish_ms - launch_ms},
    }


def story(*events: dict[str, Any]) -> Story:
    return tell(json.dumps(event).encode() for event in events)


START = {"Event": "SparkListenerApplicationStart", "App Name": "pagerank", "Timestamp": 1_000, "App ID": "app-1"}
END = {"Event": "SparkListenerApplicationEnd", "Timestamp": 60_000}


def test_failed_attempts_and_superseded_successes_are_lost() -> None:
    found = story(
        START,
        task(0, 10_000, 14_000),
        task(1, 10_000, 15_000, "ExecutorLostFailure"),
        task(1, 16_000, 20_000),
        # its first success went with the executor
        task(0, 20_000, 23_000),
        # the same index in another stage is another task
        task(0, 25_000, 26_000, stage=1),
        {"Event": "SparkListenerExecutorRemoved", "Timestamp": 15_000, "Executor ID": "1", "Removed Reason": "killed"},
        # an executor that goes with the application was not lost
        {"Event": "SparkListenerExecutorRemoved", "Timestamp": 59_000, "Executor ID": "0", "Removed Reason": "end"},
        {"Event": "SparkListenerBlockUpdated"},
        END,
    )
    summary = found.summary(5.0, cores_per_slot=0.4)
    assert (summary["tasks_failed"], summary["executors_lost"]) == (1, 1)
    # 5 s that failed and 4 s that were done again, on 0.4 core
    assert summary["lost_core_s"] == pytest.approx(0.4 * 9)
    assert (summary["first_task_s"], summary["last_task_s"], summary["end_s"]) == (5.0, 21.0, 55.0)
    assert (summary["app_id"], summary["name"]) == ("app-1", "pagerank")


def test_an_undisturbed_job_loses_nothing() -> None:
    found = story(START, task(0, 10_000, 14_000), task(1, 14_000, 15_000), END)
    assert found.summary(5.0, cores_per_slot=0.4)["lost_core_s"] == 0


def test_a_log_without_an_end_is_one_sentence() -> None:
    with pytest.raises(BadInput, match="app-1"):
        story(START, task(0, 10_000, 14_000)).summary(5.0, cores_per_slot=1)
    with pytest.raises(BadInput):
        story(END).summary(5.0, cores_per_slot=1)
