"""The machine that an experiment runs on: its description, and the CPU that it spends besides the executors.

The source is /proc; `root` is there for tests.
"""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from controller.runtime.docker.client import docker_version
from controller.runtime.engines import machine_cores, machine_memory_mb
from controller.version import VERSION
from stage_model.errors import Unavailable

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Core-seconds of the whole machine since it started."""

    busy: float
    steal: float

    def since(self, before: CpuTimes) -> CpuTimes:
        return CpuTimes(self.busy - before.busy, self.steal - before.steal)


def cpu_times(root: Path = Path("/proc")) -> CpuTimes:
    """Read the times from the first line of /proc/stat: user nice system idle iowait irq softirq steal (guests are in
    user)."""
    words = (root / "stat").read_text().split("\n", 1)[0].split()
    user, nice, system, _, _, irq, softirq, steal = (int(word) / os.sysconf("SC_CLK_TCK") for word in words[1:9])
    return CpuTimes(user + nice + system + irq + softirq, steal)


def describe_machine(root: Path = Path("/proc")) -> dict[str, Any]:
    """Return the facts, besides the program, on which a result depends."""
    models = [line for line in (root / "cpuinfo").read_text().splitlines() if line.startswith("model name")]
    try:
        docker = docker_version()
    except Unavailable:
        docker = None
    return {
        "cpu": models[0].partition(":")[2].strip() if models else platform.machine(),
        "cores": machine_cores(),
        "memory_mb": machine_memory_mb(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "spark": version("pyspark"),
        "docker": docker,
        "sparkpace": VERSION,
    }


def commit(project: Path = PROJECT) -> str:
    """Return the project's commit, with "+changes" when files differ from it; "unknown" outside a clone."""
    try:
        head = _git(project, "rev-parse", "HEAD")
        return head + ("+changes" if _git(project, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(project: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(project), *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()
