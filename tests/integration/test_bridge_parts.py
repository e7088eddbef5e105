"""Parts of the bridge in a JVM of their own: what they read of their machine, and that they understand a driver and its
events as the reader of event logs does. No Spark is started."""

from __future__ import annotations

import json
import re
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stage_model.history.eventlog import read_event_log
from stage_model.history.events import TaskEnd
from tests.stage_model.history.test_driver_command import COMMANDS
from tests.stage_model.history.test_eventlog import events, leaked, lines

pytestmark = pytest.mark.spark


@pytest.fixture
def harness(classes: str) -> Callable[..., str]:
    """Provide a function that runs a harness of `java/` with these words and this stdin; it returns the stdout."""

    def run(name: str, *words: object, given: bytes = b"") -> str:
        command = ["java", "-cp", classes, f"org.sparkpace.bridge.{name}", *map(str, words)]
        return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout.decode()

    return run


def test_cpu_is_read_in_each_layout_of_control_groups(harness: Callable[..., str], tmp_path: Path) -> None:
    files = {
        "one": ("cpuacct/cpuacct.usage", "2500000000\n"),
        "joined": ("cpu,cpuacct/cpuacct.usage", "40000000\n"),
        "two": ("cpu.stat", "usage_usec 1250000\nuser_usec 1000000\nsystem_usec 250000\n"),
        "without": ("cpu.stat", "nr_periods 3\n"),
        "odd": ("cpuacct/cpuacct.usage", "none\n"),
        "empty": ("other", ""),
    }
    for folder, (name, content) in files.items():
        file = tmp_path / folder / name
        file.parent.mkdir(parents=True)
        file.write_text(content)
    said = harness("PodCpuHarness", *(tmp_path / name for name in files))
    assert said.split() == ["2.5", "0.04", "1.25", "null", "null", "null"]


def test_only_a_port_at_which_the_process_itself_listens_counts(harness: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as others:
        said = harness("ListensHarness", others.getsockname()[1])
    assert said.split() == ["true", "false", "false"]


def test_every_way_to_start_a_driver_names_the_program_as_its_log_does(harness: Callable[..., str]) -> None:
    found = {}
    for what, command, _ in COMMANDS:
        said = harness("DriverProcessHarness", *command.split(" "))
        found[what] = re.split(r"[/\\]", said.strip())[-1]
    assert found == {what: str(main).replace("None", "null") for what, _, (main, _) in COMMANDS}


def heard(harness: Callable[..., str], log: list[bytes]) -> dict[str, dict[str, Any]]:
    """Return what the listener makes of the jobs and tasks of a log."""
    found: dict[str, dict[str, Any]] = json.loads(harness("EventListenerHarness", given=b"".join(log)))
    return found


@pytest.mark.parametrize("log", [lines, leaked])
def test_the_id_of_a_query_counts_only_while_it_is_under_way(
    harness: Callable[..., str], log: Callable[[], list[bytes]]
) -> None:
    jobs = heard(harness, log())["jobs"]
    read = {str(number): job.sql for number, job in read_event_log(log(), "log").run.jobs.items()}
    # ids of these logs count from 0, as do ordinals
    assert {job: None if sql is None else int(sql) for job, sql in jobs.items()} == read
    assert 0 in read.values()


def test_a_task_has_the_metrics_of_its_waiting_that_a_log_has(harness: Callable[..., str]) -> None:
    ended = {str(event.task): event.waits for event in events(lines()) if isinstance(event, TaskEnd)}
    assert heard(harness, lines())["tasks"] == msgspec.to_builtins(ended)
    assert any(waits is not None and waits.write_ns > 0 for waits in ended.values())
