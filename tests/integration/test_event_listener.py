"""The bridge's listener in a JVM of its own and the reader of event logs: both give a job the same SQL execution."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import pytest

from stage_model.history.eventlog import read_event_log
from tests.stage_model.history.test_eventlog import leaked, lines

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("log", [lines, leaked])
def test_the_id_of_a_query_counts_only_while_it_is_under_way(classes: str, log: Callable[[], list[bytes]]) -> None:
    command = ["java", "-cp", classes, "org.sparkpace.bridge.EventListenerHarness"]
    told = json.loads(subprocess.run(command, input=b"".join(log()), stdout=subprocess.PIPE, check=True).stdout)
    read = {str(number): job.sql for number, job in read_event_log(log(), "log").run.jobs.items()}
    # ids of these logs count from 0, as do ordinals
    assert {job: None if sql is None else int(sql) for job, sql in told.items()} == read
    assert 0 in read.values()
