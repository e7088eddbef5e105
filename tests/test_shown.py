"""Every command of ours that a page shows in a block of code is one that the command line takes today.

Only words are checked: whether a command then does what the page says is for the tests of that command. Commands in the text
of a page, which may be cut short, and those that another program calls are not looked at.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest

from controller.asks.submit_args import OFFERED, read_options, split_arguments
from stage_model.errors import BadInput
from tests.fakes.commands import parsed

ROOT = Path(__file__).resolve().parents[1]
PAGES = (*sorted(ROOT.glob("*.md")), ROOT / "bridge" / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
CALL = re.compile(r"(?:\w+=\S+ +)*(?:\.venv/bin/)?sparkpace +(\S.*)")
"""A line of code that calls our command, perhaps with variables before it."""
ENDS = (">", "|", "&&")
"""Words of the shell's own, after which the command is over."""
LEFT_OUT = "..."
"""A word for further ones that are not shown; at the end of a word, it says that there may be several."""
EXAMPLE = ("10.0.0.5", "127.0.0.1")
"""An address that stands for this machine's on the pages, and one that this machine has."""


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


def take(given: Sequence[str]) -> None:
    """Parse the words as our command does. Raise `UsageError` or `BadInput` for words that it does not take."""
    context = parsed(given)
    if context.command.name == "submit":  # which reads its words itself
        assert split_arguments(context.params["arguments"]).application
        assert {option.name for option in read_options(given[1:])[0]} <= OFFERED


SHOWN = {
    f"{page.relative_to(ROOT)}:{number}": words(call)
    for page in PAGES
    for number, call in calls(page.read_text(encoding="utf-8"))
}
WHOLE = {place: given for place, given in SHOWN.items() if LEFT_OUT not in given}


@pytest.mark.parametrize("given", WHOLE.values(), ids=WHOLE.keys())
def test_a_command_that_a_page_shows_is_taken(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path))
    take(given)
    assert not list(tmp_path.iterdir())


def test_most_commands_that_pages_show_are_whole() -> None:
    assert len(WHOLE) > 60
    assert len(SHOWN) - len(WHOLE) < 3


def test_calls_are_found_in_blocks_of_code_and_nowhere_else() -> None:
    page = """sparkpace no
    sparkpace ps               # what's there
    sparkpaced no
    kubectl -n sparkpace exec no
    A=b C=/d .venv/bin/sparkpace logs last [EXECUTOR] [-f] > file
```
sparkpace plan EVENTLOG... --deadline "by 07:00"
sparkpace agent --cores 2 ...
```
sparkpace no
"""
    assert [(number, words(call)) for number, call in calls(page)] == [
        (2, ["ps"]),
        (5, ["logs", "last", "EXECUTOR", "-f"]),
        (7, ["plan", "EVENTLOG", "--deadline", "by 07:00"]),
        (8, ["agent", "--cores", "2", "..."]),
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
