"""A place to submit from: a home whose master answers (`fakes.master`), and a script where Spark's spark-submit would be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.home import Home
from tests.fakes.commands import served_home
from tests.fakes.master import Server


@contextmanager
def submitting(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Iterator[tuple[Path, Home, Server]]:
    """Provide the working directory, which this process is in, the home, and its master. The script finds
    `$ARGUMENTS_FILE`."""
    work = folder / "work"
    (work / "spark" / "bin").mkdir(parents=True)
    program = work / "spark" / "bin" / "spark-submit"
    program.write_text(script)
    program.chmod(0o755)
    monkeypatch.chdir(work)
    monkeypatch.setenv("SPARK_HOME", str(work / "spark"))
    monkeypatch.setenv("ARGUMENTS_FILE", str(work / "arguments"))
    for name in ("SPARK_CONF_DIR", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    with served_home(folder / "home", monkeypatch) as (home, master):
        yield work, home, master
