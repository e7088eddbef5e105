"""The bridge in a JVM of its own and the reader of event logs: both find the same main file or class in a driver's words."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.stage_model.history.test_driver_command import COMMANDS

pytestmark = pytest.mark.spark


def test_every_way_to_start_a_driver_names_the_program_as_its_log_does(classes: str) -> None:
    harness = ["java", "-cp", classes, "org.sparkpace.bridge.DriverProcessHarness"]
    found = {}
    for what, command, _ in COMMANDS:
        done = subprocess.run([*harness, *command.split(" ")], capture_output=True, text=True, check=True)
        found[what] = re.split(r"[/\\]", done.stdout.strip())[-1]
    assert found == {what: str(main).replace("None", "null") for what, _, (main, _) in COMMANDS}
