"""The parts of this machine that a cluster needs: a JDK, cores and memory. This module only reads."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil

from controller.runtime.cgroup.tree import CgroupTree
from stage_model.errors import Unavailable

VERSION_PROGRAM = 'import sys; print("%d.%d" % sys.version_info[:2])'
"""Program by which a Python says its version, of which Spark compares these parts."""
LEAST_JAVA = 11
"""Spark 3.5 runs on 8, 11 and 17, Spark 4 on 17 and later; the bridge is built for 11."""
SERVICE_CORES = 0.3
"""Cores left to driver and services by default."""
MEMORY_SHARE = 0.8
"""Share of the machine's memory for executors by default; the rest is for drivers, services and page cache."""


@dataclass(frozen=True, slots=True)
class Java:
    home: Path
    version: int


def find_java(environment: Mapping[str, str]) -> Java:
    """Return the Java that Spark would use: JAVA_HOME, else `java` on PATH. Raise `Unavailable`."""
    given = environment.get("JAVA_HOME")
    binary = str(Path(given) / "bin" / "java") if given else shutil.which("java", path=environment.get("PATH", ""))
    remedy = "install one (Debian: apt install openjdk-17-jdk-headless) or set JAVA_HOME"
    if binary is None:
        raise Unavailable(f"no Java is on PATH and JAVA_HOME is not set; {remedy}")
    try:
        shown = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{binary} does not run ({error}); {remedy}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', shown)
    if found is None or int(found.group(1)) < LEAST_JAVA:
        raise Unavailable(f"{binary} is not Java {LEAST_JAVA} or later; {remedy}")
    return Java(home=Path(os.path.realpath(binary)).parent.parent, version=int(found.group(1)))


def machine_cores() -> float:
    """Return the cores that this process may use: affinity and, in a container, its CPU quota."""
    return min(float(len(os.sched_getaffinity(0))), CgroupTree().own_quota())


def machine_busy_s() -> float:
    """Return the CPU seconds that all processors of the machine together were busy since its boot; time that a host took from
    it counts."""
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq + times.steal)


def machine_memory_mb() -> int:
    return int(psutil.virtual_memory().total // (1024 * 1024))


class FreeMemory(NamedTuple):
    """Memory in bytes: all, and what programs can still have without swapping."""

    size: int
    free: int


def free_memory(*, own_group: bool) -> FreeMemory:
    """Return the memory of this machine; with `own_group`, the memory of a container around this process, if less is free
    there."""
    now = psutil.virtual_memory()
    machine, own = FreeMemory(int(now.total), int(now.available)), CgroupTree().own_memory() if own_group else None
    if own is None or own[0] - own[1] >= machine.free:
        return machine
    return FreeMemory(own[0], max(0, own[0] - own[1]))
