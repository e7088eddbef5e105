"""The program that a driver runs, and its arguments, by the command line of its JVM.

However Spark starts a driver, the program has the name by which `sparkpace submit` knows it. `DriverProcess` of the bridge
follows the same rule for a driver that runs. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Program = tuple[str | None, tuple[str, ...] | None]
"""The base name of the main file, or the main class; and its arguments. (None, None): neither can be known."""

_RUNNERS = {"org.apache.spark.deploy.PythonRunner", "org.apache.spark.deploy.RRunner"}
"""Spark's classes that run a main file in Python or R, where the driver is not started as `spark-submit FILE`."""
_SHELLS = {"pyspark-shell", "spark-shell", "sparkr-shell", "connect-shell"}
"""Spark's words for a program that people type in; `python FILE` is such a program, too."""
_FLAGS = {"--verbose", "--supervise"}
_FILES = ("--primary-py-file", "--primary-r-file")
_OF_YARN = {*_FILES, "--jar", "--class", "--arg", "--properties-file", "--dist-cache-conf"}
"""The options of YARN's ApplicationMaster; each has one value."""
_CLASS_OR_JAR = re.compile(r"[\w$-]+(\.[\w$-]+)+")


def main_and_arguments(command: str) -> Program:
    """Return the program in a command line as the JVM reports it (`sun.java.command`): words with a blank between them, which
    cannot always be distinguished from a blank within a word."""
    main, arguments = _program(command.split(" "))
    return (main, arguments) if main else (None, None)


def _program(words: Sequence[str]) -> Program:
    starter = words[0].rpartition(".")[2]
    if starter == "SparkSubmit":
        return _submitted(words)
    if starter == "ApplicationMaster":  # YARN, in cluster mode
        return _in_yarn(words[1:])
    if starter == "DriverWrapper":  # Spark standalone, in cluster mode: the worker's URL, the jar, the class
        return _run_by(words[3:])
    own = base_name(words[0])  # a JVM that makes its SparkContext itself
    return (own, tuple(words[1:])) if _CLASS_OR_JAR.fullmatch(own) else (None, None)


def _submitted(words: Sequence[str]) -> Program:
    at, main = 1, None
    while at < len(words) and words[at].startswith("-"):
        name, attached, value = words[at].partition("=")
        if name in _FLAGS or (not name.startswith("--") and name != "-c"):  # the latter is a flag, or of a value with blanks
            at += 1
            continue
        if not attached:
            value = words[at + 1] if at + 1 < len(words) else ""
        if name == "--class" and value not in _RUNNERS:
            main = value
        at += 1 if attached else 2
        # a value may hold blanks; what follows it and is neither option nor application belongs to it
        while at < len(words) and not words[at].startswith("-") and not _is_application(words[at]):
            at += 1
    if at >= len(words):
        return main, None
    if words[at] in _SHELLS:
        return None, None
    return main or base_name(words[at]), tuple(words[at + 1 :])


def _in_yarn(words: Sequence[str]) -> Program:
    given: list[tuple[str, list[str]]] = []
    for word in words:
        if word in _OF_YARN and (not given or given[-1][1]):  # the first word after an option is its value, whatever it is
            given.append((word, []))
        elif given:
            given[-1][1].append(word)
    values = {option: " ".join(value) for option, value in given}
    main = next((values[option] for option in (*_FILES, "--class", "--jar") if option in values), None)
    return (base_name(main), tuple(" ".join(value) for option, value in given if option == "--arg")) if main else (None, None)


def _run_by(words: Sequence[str]) -> Program:
    """Return the program of words that begin with a class, or with one of Spark's runners and the file that it runs."""
    words = words[1:] if words and words[0] in _RUNNERS else words
    return (base_name(words[0]), tuple(words[1:])) if words else (None, None)


def base_name(file: str) -> str:
    """Return the last part of a path of any operating system."""
    return re.split(r"[/\\]", file)[-1]


def _is_application(word: str) -> bool:
    return word.endswith((".py", ".jar", ".R")) or word in {"spark-internal", *_SHELLS}
