"""The Spark of a submission: SPARK_HOME, else the pyspark of our own Python, else `spark-submit` on PATH.

With the pyspark of Sparkpace's own Python, this module also chooses the Python of driver and tasks. With the others, Spark
takes `python3` on PATH. A submission may go on as Spark's own program, in place of this process.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from stage_model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class SparkInstall:
    """A Spark. `environment` is what must be set for this Spark beyond the user's own environment."""

    submit: Path
    source: str
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.submit.parent.parent


def find_spark(environment: Mapping[str, str]) -> SparkInstall:
    """Return the Spark. Raise `Unavailable` without a Spark, and for a SPARK_HOME that is no Spark."""
    given = environment.get("SPARK_HOME")
    if given:
        submit = Path(given).absolute() / "bin" / "spark-submit"
        if not submit.is_file():
            raise Unavailable(f"SPARK_HOME {given} holds no bin/spark-submit; set it to a Spark, or unset it")
        return SparkInstall(submit, "SPARK_HOME")
    own = importlib.util.find_spec("pyspark")
    if own is not None and own.origin is not None:
        home = Path(own.origin).parent
        # pip's spark-submit would search for its Spark through PYSPARK_PYTHON: with both, it need not. A Python that
        # the user chose stays, and settings (spark.pyspark.python) win over this variable.
        chosen = environment.get("PYSPARK_PYTHON")
        python = {} if chosen else {"PYSPARK_PYTHON": _active_python(environment) or sys.executable}
        return SparkInstall(home / "bin" / "spark-submit", "pyspark", {"SPARK_HOME": str(home), **python})
    found = shutil.which("spark-submit", path=environment.get("PATH", ""))
    if found is None:
        raise Unavailable(
            "no Spark was found; set SPARK_HOME to a Spark, "
            "or install pyspark next to sparkpace (of pipx: pipx inject sparkpace pyspark)"
        )
    return SparkInstall(Path(os.path.realpath(found)), "PATH")


def _active_python(environment: Mapping[str, str]) -> str | None:
    """Return the Python of the active virtual environment, which spark-submit would find first on PATH. This Python needs no
    pyspark, because spark-submit shows its own to the driver (PythonUtils.sparkPythonPath). None if no environment is active,
    if its Python is gone, or if it is our own."""
    active = environment.get("VIRTUAL_ENV")
    if not active or Path(active).resolve() == Path(sys.prefix).resolve():
        return None
    python = Path(active).absolute() / "bin" / "python3"
    return str(python) if os.access(python, os.X_OK) else None


def spark_of(submit: Path) -> Path:
    """Return the SPARK_HOME of a spark-submit: the folder above its own, or, where pip has put a copy of it into an
    environment, the pyspark there. Raise `Unavailable`."""
    above = submit.resolve().parents[1]
    for home in (above, *above.glob("lib*/python3*/*-packages/pyspark")):
        if (home / "jars").is_dir():
            return home
    raise Unavailable(f"{submit} is not in a Spark installation, so its Spark is not known; set SPARK_HOME to a Spark")


def go_on_as(words: Sequence[str], environment: Mapping[str, str], passed: Sequence[int] = ()) -> NoReturn:
    """Become the program, which keeps this process's number: the starter of this process can signal and kill the program. The
    program gets the descriptors `passed`. Raise `Unavailable` when it cannot be started."""
    for descriptor in passed:
        os.set_inheritable(descriptor, True)
    # Python ignores SIGPIPE, and the program would ignore it, too.
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execve(words[0], list(words), dict(environment))  # noqa: S606 - the user's own words, no shell
    except OSError as error:
        signal.signal(signal.SIGPIPE, before)
        raise Unavailable(f"{words[0]} cannot be started ({error.strerror}); install Spark again") from error
