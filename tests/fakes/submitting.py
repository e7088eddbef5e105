"""A place to submit from: a home whose master answers (`fakes.master`), and a script where Spark's spark-submit would be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import Result

from controller.asks.properties import parse_properties
from controller.home import Home
from controller.wire.command import PlanRequest
from tests.fakes.commands import assert_refused, run, served_home
from tests.fakes.master import Server

SCRIPT = """#!/bin/sh
printf '%s\\n' "$@" > "$ARGUMENTS_FILE"
env > "$ARGUMENTS_FILE.env"
echo $$ > "$ARGUMENTS_FILE.pid"
while [ "$1" != --properties-file ]; do shift; done
cat "$2" > "$ARGUMENTS_FILE.conf"
exit ${EXIT_CODE:-0}
"""


@dataclass(frozen=True)
class Place:
    """The working directory, in which this process is and in which the script leaves what it got, with home and master."""

    work: Path
    home: Home
    master: Server

    def submit(self, *words: str) -> Result:
        return run("submit", *words)

    def asked(self, *words: str) -> PlanRequest:
        """Submit; return what the master was asked to plan."""
        assert self.submit(*words).exit_code == 0
        assert self.master.asked is not None
        return self.master.asked

    def refuse(self, code: int, *words: str, named: tuple[object, ...] = ()) -> None:
        """Check that the words are refused in one line and that no driver starts."""
        refused = self.submit(*words)
        assert_refused(refused, code, *named)
        assert (refused.stderr.count("\n"), self.started) == (1, None)

    @property
    def started(self) -> list[str] | None:
        """The words that spark-submit got; None when it was not started."""
        file = self.work / "arguments"
        return file.read_text().splitlines() if file.exists() else None

    @property
    def words(self) -> list[str]:
        """The words that spark-submit got."""
        assert self.started is not None
        return self.started

    @property
    def driver(self) -> int:
        """The number of spark-submit's process."""
        return int((self.work / "arguments.pid").read_text())

    @property
    def settings(self) -> dict[str, str]:
        """The last value of every --conf, as Spark takes it."""
        words = self.words
        given = [words[at + 1] for at, word in enumerate(words) if word == "--conf"]
        return dict(part.split("=", 1) for part in given)

    @property
    def file(self) -> dict[str, str]:
        """Settings in the --properties-file that spark-submit was given."""
        return parse_properties((self.work / "arguments.conf").read_text())


@contextmanager
def submitting(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Provide a place with an empty `app.py`."""
    work = folder / "work"
    (work / "spark" / "bin").mkdir(parents=True)
    program = work / "spark" / "bin" / "spark-submit"
    program.write_text(SCRIPT)
    program.chmod(0o755)
    (work / "app.py").write_text("")
    monkeypatch.chdir(work)
    monkeypatch.setenv("SPARK_HOME", str(work / "spark"))
    monkeypatch.setenv("ARGUMENTS_FILE", str(work / "arguments"))
    for name in ("SPARK_CONF_DIR", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    with served_home(folder / "home", monkeypatch) as (home, master):
        yield Place(work, home, master)
