"""Sparkpace's `spark-submit` before the real one: its text, the words of a call that each of the two gets, and the place of
the real one.

`controller.cli.shim_program` runs them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.asks.job_setting import PREFIX
from controller.asks.properties import parse_properties
from controller.asks.submit_args import OUR_SCHEME, OWN_FLAGS, OWN_VALUES, OptionWord, read_options
from controller.start import ours
from stage_model.errors import Unavailable

NAMES = ("spark-submit", "spark3-submit")
MARK = "# Written by `sparkpace shim`, which may write it again."
TELLING = frozenset(("--help", "-h", "--version", "--usage-error"))
"""Options by which spark-submit describes itself, whatever stands next to them."""
OF_OTHERS = frozenset(("--kill", "--status"))
"""Options of spark-submit about earlier submissions, which are Sparkpace's where an option or the master is."""
OURS = (OWN_VALUES | OWN_FLAGS) - {"--master"}
MASTER = "spark.master"
BRIDGE = "org.sparkpace.bridge."
"""Beginning of the names of the bridge's classes."""


def shim_text() -> str:
    return f'#!/bin/sh\n{MARK}\nexec {shlex.join(ours("controller.cli.shim_program"))} "$@"\n'


def is_shim(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            return MARK.encode() in opened.read(512)
    except OSError:
        return False


def words_for_submit(arguments: Sequence[str]) -> list[str] | None:
    """Return the words for `sparkpace submit`; None where no option or setting of Sparkpace stands before the application or
    in the file of settings named there. Sparkpace's settings in the file come as `--conf`, before the call's own."""
    options, _ = read_options(arguments)
    names = {option.name for option in options}
    if names & TELLING:
        return None
    file = _settings_of_file(options)
    given = ((option.value or "").partition("=") for option in options if option.name in ("--conf", "-c"))
    said = {**file, **{key.strip(): value for key, _, value in given}}
    if masters := [option.value or "" for option in options if option.name == "--master"]:
        said[MASTER] = masters[-1]
    ours = [setting for setting in said.items() if _is_ours(setting) and (setting[0] == MASTER or not names & OF_OTHERS)]
    if not names & OURS and not ours:
        return None
    return [*(word for key, value in file.items() for word in ("--conf", f"{key}={value}")), *arguments]


def words_for_the_real_one(arguments: Sequence[str]) -> list[str]:
    """Return all words but Sparkpace's options, which may stand next to `--help` and similar options."""
    options, rest = read_options(arguments)
    return [*(word for option in options if option.name not in OURS for word in option.words), *rest]


def real_submit(environment: Mapping[str, str]) -> Path:
    """Return the spark-submit of SPARK_HOME, else the first on PATH that is no shim. Raise `Unavailable`."""
    given = environment.get("SPARK_HOME")
    folders = (
        [Path(given) / "bin"] if given else [Path(part) for part in environment.get("PATH", "").split(os.pathsep) if part]
    )
    for folder in folders:
        file = folder / NAMES[0]
        if file.is_file() and os.access(file, os.X_OK) and not is_shim(file):
            return file.absolute()
    where = f"SPARK_HOME {given}" if given else "PATH"
    raise Unavailable(f"{where} has no real spark-submit; set SPARK_HOME to a Spark")


def _settings_of_file(options: Sequence[OptionWord]) -> dict[str, str]:
    """Return the settings `spark.pace.*` and the master of the file. Return none for a file that names the bridge itself, as
    those of `sparkpace conf` do; for a file that cannot be read, because spark-submit reports that; and for a pipe, which can
    be read only once."""
    named = [Path(option.value) for option in options if option.name == "--properties-file" and option.value]
    try:
        found = parse_properties(named[-1].read_text(encoding="utf-8")) if named and named[-1].is_file() else {}
    except (OSError, UnicodeDecodeError):
        return {}
    if BRIDGE in found.get("spark.plugins", ""):
        return {}
    return {key: value for key, value in found.items() if key == MASTER or key.startswith(PREFIX)}


def _is_ours(setting: tuple[str, str]) -> bool:
    key, value = setting
    return key.startswith(PREFIX) or (key == MASTER and value.strip().startswith(OUR_SCHEME))
