"""The bridge's listener in a JVM of its own and the reader of event logs: both give a job the same SQL execution, and a task
the same metrics of its waiting."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stage_model.history.eventlog import read_event_log
from stage_model.history.events import TaskEnd
from tests.stage_model.history.test_eventlog import events, leaked, lines

pytestmark = pytest.mark.spark


def heard(classes: str, log: list[bytes]) -> dict[str, dict[str, Any]]:
    """Return what the listener makes of the jobs and tasks of a log."""
    command = ["java", "-cp", classes, "org.sparkpace.bridge.EventListenerHarness"]
    done = subprocess.run(command, input=b"".join(log), stdout=subprocess.PIPE, check=True)
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("log", [lines, leaked])
def test_the_id_of_a_query_counts_only_while_it_is_under_way(classes: str, log: Callable[[], list[bytes]]) -> None:
    jobs = heard(classes, log())["jobs"]
    read = {str(number): job.sql for number, job in read_event_log(log(), "log").run.jobs.items()}
    # ids of these logs count from 0, as do ordinals
    assert {job: None if sql is None else int(sql) for job, sql in jobs.items()} == read
    assert 0 in read.values()


def test_a_task_has_the_metrics_of_its_waiting_that_a_log_has(classes: str) -> None:
    ended = {str(event.task): event.waits for event in events(lines()) if isinstance(event, TaskEnd)}
    assert heard(classes, lines())["tasks"] == msgspec.to_builtins(ended)
    assert any(waits is not None and waits.write_ns > 0 for waits in ended.values())
