"""The command line takes every Sparkpace command that a page shows in a block of code, and commands that need only a home and
files work.

Commands that need more are only parsed, for the reasons in `ONLY_PARSED`. What a command then answers is for its own tests.
Commands in the text of a page, which may be cut short, and commands that another program calls are not looked at.
"""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest

from controller.asks.submit_args import OFFERED, read_options, split_arguments
from controller.home import Home
from controller.machine.files import write_whole
from controller.runs.profile_store import ProfileStore
from controller.submit.bridge_jar import JAR
from stage_model.errors import BadInput
from stage_model.history.profile import profile
from tests.fakes import records
from tests.fakes.commands import parsed
from tests.fakes.commands import run as invoke
from tests.fakes.log_cases import CASES
from tests.fakes.log_changes import changed
from tests.fakes.watched import ended, learned

ROOT = Path(__file__).resolve().parents[1]
PAGES = (*sorted(ROOT.glob("*.md")), ROOT / "bridge" / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
CALL = re.compile(r"(?:\w+=\S+ +)*(?:uvx --from \S+ +)?(?:\.venv/bin/)?sparkpace +(\S.*)")
"""A line of code that calls our command, perhaps with variables before it, or by `uvx`."""
ENDS = (">", "|", "&&")
"""Words of the shell's own, after which the command is over."""
LEFT_OUT = "..."
"""A word for further ones that are not shown; at the end of a word, it says that there may be several."""
EXAMPLE = ("10.0.0.5", "127.0.0.1")
"""An address that stands for this machine's on the pages, and an address that this machine has."""


ONLY_PARSED: Mapping[str, str] = {
    "submit": "starts a driver on Spark",
    "up": "starts a cluster",
    "down": "ends a cluster",
    "master": "is a service, until it is ended",
    "agent": "is a service, until it is ended",
    "install-service": "writes units of systemd",
    "doctor": "judges this machine, whatever it has",
    "ps": "asks the master",
    "top": "asks the master, until it is ended",
    "ui": "serves a page, until it is ended",
    "explain": "asks the master",
    "set": "asks the master",
    "kill": "asks the master",
    "label": "asks the master",
    "plan --profile": "asks the master",
    "conf --attach": "needs the address of a master",
    "join-token": "needs the certificate of a master",
    "join": "asks a master on another host",
    "renew": "asks a master on another host",
}
"""Commands, perhaps with an option, that are not run here, each with what it does or needs."""
NEED_JAR = ("conf", "jar")
"""Commands that need the bridge's jar, which `make` builds."""


def calls(page: str) -> Iterator[tuple[int, str]]:
    """Yield the number of each line of a page's blocks of code that calls our command, and what follows its name."""
    fenced = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif (fenced or line.startswith("    ")) and (found := CALL.fullmatch(line.strip())):
            yield number, found[1]


def words(call: str) -> list[str]:
    """Return the words of a call as a shell has them: without a comment, and with what stands in brackets, which may be left
    out."""
    given = shlex.split(re.sub(r"[\[\]]", "", call).replace(*EXAMPLE), comments=True)
    ours = itertools.takewhile(lambda word: word not in ENDS, given)
    return [word if word == LEFT_OUT else word.removesuffix(LEFT_OUT) for word in ours]


def is_of(given: Sequence[str], what: str) -> bool:
    """Return True if the words of a call are of that command, and have the option that may be named with it."""
    command, *options = what.split()
    return given[0] == command and set(options) <= set(given)


def without_options(call: str) -> str:
    """Return the call without what stands in brackets."""
    return re.sub(r"\[[^\]]*\]", "", call)


def write_inputs(folder: Path) -> None:
    """Write what the pages name into a user's folder: logs by the names that they have there, and a home with a run that was
    only watched, the profile NAME and a configuration file."""
    logs = Path("tests", "data", "eventlogs")
    shutil.copytree(ROOT / logs, folder / logs)
    for name in ("EVENTLOG", "MONDAY", "TUESDAY", "monday.zstd", "tuesday.zstd"):
        log = replace(CASES["plain"], change=changed("ApplicationStart", App_ID=f"made-{name}"))
        log.write(folder).rename(folder / name)
    for name in ("orders", "stock", "mail"):
        log = replace(CASES["plain"], change=changed("ApplicationStart", App_Name=name, App_ID=f"made-{name}"))
        log.write(folder).rename(folder / f"{name}.zstd")
    home = Home(folder / ".sparkpace")
    home.create()
    learned(home.path, "pace-1")
    ended(home.path, "pace-1")
    executor = home.runs / "pace-1" / "executors" / "1"
    executor.mkdir(parents=True)
    (executor / "stdout").write_text("a line of an executor\n")
    ProfileStore(home.profiles).add(profile("NAME", [records.run("pace-2", 0, records.stage("x"))]))
    write_whole(home.config_file, b"[up]\nkeep-runs = 50\n")


def take(given: Sequence[str]) -> None:
    """Parse the words as our command does. Raise `UsageError` or `BadInput` for words that it does not take."""
    context = parsed(given)
    if context.command.name == "submit":  # which reads its words itself
        split = split_arguments(context.params["arguments"])
        assert split.application or split.spark_options.keys() & {"--status", "--kill"}
        assert {option.name for option in read_options(given[1:])[0]} <= OFFERED


SHOWN = {
    f"{page.relative_to(ROOT)}:{number}": call for page in PAGES for number, call in calls(page.read_text(encoding="utf-8"))
}
WHOLE = {place: words(call) for place, call in SHOWN.items() if LEFT_OUT not in words(call)}
RUN = {
    place: words(without_options(SHOWN[place]))
    for place, given in WHOLE.items()
    if not any(is_of(given, what) for what in ONLY_PARSED)
}


@pytest.mark.parametrize("given", WHOLE.values(), ids=WHOLE.keys())
def test_a_command_that_a_page_shows_is_taken(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path))
    take(given)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", RUN.values(), ids=RUN.keys())
def test_a_command_that_needs_only_a_home_and_files_works(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given[0] in NEED_JAR and not JAR.is_file():
        pytest.skip("needs the built bridge jar")
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    for variable in ("SPARKPACE_HOME", "SPARKPACE_MASTER", "SPARKPACE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    there = [str(tmp_path / word.removeprefix("~/")) if word.startswith("~/") else word for word in given]
    done = invoke(*there)
    assert done.exit_code == 0, done.output
    assert done.stdout
    assert [name for option, name in itertools.pairwise(there) if option == "-o" and not Path(name).stat().st_size] == []


def test_every_command_that_is_only_parsed_is_shown() -> None:
    assert [what for what in ONLY_PARSED if not any(is_of(given, what) for given in WHOLE.values())] == []


def test_most_commands_that_pages_show_are_whole_and_many_are_run() -> None:
    assert len(WHOLE) > 60
    assert len(SHOWN) - len(WHOLE) < 3
    assert len(RUN) > 30


def test_calls_are_found_in_blocks_of_code_and_nowhere_else() -> None:
    page = """sparkpace no
    sparkpace ps               # what's there
    sparkpaced no
    kubectl -n sparkpace exec no
    A=b C=/d .venv/bin/sparkpace logs last [EXECUTOR] [-f] > file
    uvx --from a.whl sparkpace report last
```
sparkpace plan EVENTLOG... --deadline "by 07:00"
sparkpace agent --cores 2 ...
```
sparkpace no
"""
    assert [(number, words(call)) for number, call in calls(page)] == [
        (2, ["ps"]),
        (5, ["logs", "last", "EXECUTOR", "-f"]),
        (6, ["report", "last"]),
        (8, ["plan", "EVENTLOG", "--deadline", "by 07:00"]),
        (9, ["agent", "--cores", "2", "..."]),
    ]


@pytest.mark.parametrize(
    "call",
    [
        "pss",
        "ps --colour",
        "report",
        "profile shows NAME",
        "plan EVENTLOG --cores",
        "up --workers none",
        "submit --deadlin 90s app.py",
        "submit --deadline",
    ],
)
def test_a_call_that_the_command_line_does_not_take_is_found(call: str) -> None:
    with pytest.raises((click.UsageError, BadInput)):
        take(words(call))
