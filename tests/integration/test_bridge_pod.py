"""CPU amounts that the bridge reads of its container, in a JVM of its own; no Spark is started."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark


def test_cpu_is_read_in_each_layout_of_control_groups(classes: str, tmp_path: Path) -> None:
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
    command = ["java", "-cp", classes, "org.sparkpace.bridge.PodCpuHarness", *(str(tmp_path / name) for name in files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.5", "0.04", "1.25", "null", "null", "null"]
