"""The programs and files of this machine that drivers here name to executors, which must have them at the same paths."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress

from controller.runtime.engines import VERSION_PROGRAM, find_java
from controller.submit.bridge_jar import bridge_jar
from controller.submit.spark_install import find_spark
from controller.wire.joining import DriverNeeds
from stage_model.errors import Unavailable

ANSWER_S = 30.0


def find_driver_needs(environment: Mapping[str, str]) -> DriverNeeds:
    """Return the programs and files that drivers with this environment use; empty where they cannot be found."""
    spark = jar = java = python = ""
    with suppress(Unavailable):
        jar = str(bridge_jar())
    with suppress(Unavailable):
        java = str(find_java(environment).home)
    with suppress(Unavailable):
        found = find_spark(environment)
        spark = str(found.home)
        python = found.environment.get("PYSPARK_PYTHON") or environment.get("PYSPARK_PYTHON") or ""
        python = python or shutil.which("python3", path=environment.get("PATH", "")) or ""
    return DriverNeeds(spark=spark, jar=jar, java=java, python=python, version=python_version(python))


def python_version(program: str) -> str:
    """Return the version of a Python, as in "3.11"; empty if the program does not run."""
    if not program:
        return ""
    try:
        words = [program, "-I", "-c", VERSION_PROGRAM]
        return subprocess.run(words, capture_output=True, text=True, timeout=ANSWER_S, check=True).stdout.strip()
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
