"""A `spark-submit` of ours before the real one: its text, whose options a command line has, and where the real one is.

Running them is `controller.cli.shimmed`.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.start import ours
from controller.submit.job_options import PREFIX
from controller.submit.submit_args import OUR_SCHEME, OWN_FLAGS, OWN_VALUES, OptionWord, read_options
from stage_model.errors import Unavailable

NAMES = ("spark-submit", "spark3-submit")
MARK = "# Written by `sparkpace shim`, which may write it anew."
PASSING = frozenset(("--help", "-h", "--version", "--usage-error", "--kill", "--status"))
"""Of spark-submit, which submit nothing."""


def shim_text() -> str:
    return f'#!/bin/sh\n{MARK}\nexec {shlex.join(ours("controller.cli.shimmed"))} "$@"\n'


def is_shim(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return MARK.encode() in opened.read(512)
    except OSError:
        return False


def asks_for_pacing(arguments: Sequence[str]) -> bool:
    """Whether options of ours, settings `spark.pace.*` or a master of ours stand before the application."""
    options, _ = read_options(arguments)
    return not any(option.name in PASSING for option in options) and any(map(_is_ours, options))


def _is_ours(option: OptionWord) -> bool:
    value = (option.value or "").strip()
    if option.name == "--master":
        return value.startswith(OUR_SCHEME)
    if option.name in ("--conf", "-c"):
        return value.startswith(PREFIX)
    return option.name in OWN_VALUES | OWN_FLAGS


def real_submit(environment: Mapping[str, str]) -> Path:
    """That of SPARK_HOME, else the first on PATH that is no shim. Raises `Unavailable`."""
    given = environment.get("SPARK_HOME")
    folders = (
        [Path(given) / "bin"] if given else [Path(part) for part in environment.get("PATH", "").split(os.pathsep) if part]
    )
    for folder in folders:
        file = folder / NAMES[0]
        if file.is_file() and os.access(file, os.X_OK) and not is_shim(file):
            return file.absolute()
    where = f"SPARK_HOME {given}" if given else "PATH"
    raise Unavailable(f"{where} has no spark-submit but that of `sparkpace shim`; set SPARK_HOME to a Spark")
