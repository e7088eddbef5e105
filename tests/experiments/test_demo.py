"""The demo's words: its own lines of a log, the last ones of a failure, and three commands to go on with."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from experiments.demo import LAST_LINES, lines_of_a_log, next_steps
from tests.fakes.commands import parsed

SPARK = "26/11/27 12:00:00 WARN NativeCodeLoader: Unable to load native-hadoop library"


def commands(text: str) -> list[list[list[str]]]:
    """Return the commands of each line that is to be typed, each as words."""
    typed = [line for line in text.splitlines() if line.startswith("    ")]
    return [[shlex.split(command) for command in line.split(" && ")] for line in typed]


def test_only_our_lines_of_a_log_are_shown_until_its_command_fails() -> None:
    log = f"{SPARK}\nsparkpace: job: ended\n"
    assert lines_of_a_log(log, failed=False) == ["sparkpace: job: ended\n"]
    assert lines_of_a_log(log, failed=True) == [f"{SPARK}\n", "sparkpace: job: ended\n"]
    assert lines_of_a_log(LAST_LINES * "before\n" + "why\n", failed=True)[-1] == "why\n"
    assert len(lines_of_a_log(LAST_LINES * "before\n" + "why\n", failed=True)) == LAST_LINES


@pytest.mark.parametrize(
    ("here", "typed"),
    [("/home/me/pace", ".venv/bin/sparkpace"), ("/home/me/my jobs", "/home/me/pace/.venv/bin/sparkpace")],
)
def test_three_things_to_try_are_commands_of_the_folder_that_the_user_is_in(
    here: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path))
    lines = commands(next_steps(Path("/home/me/pace/.venv/bin/sparkpace"), Path(here)))
    assert [[command[1] for command in line] for line in lines] == [
        ["plan"],
        ["up", "submit", "savings"],
        ["down", "up", "submit"],
    ]
    for command in (command for line in lines for command in line):
        assert command[0] == typed
        assert parsed(command[1:]).command.name == command[1]


def test_a_folder_whose_name_a_shell_would_split_is_quoted() -> None:
    [[plan], *_] = commands(next_steps(Path("/home/me/my pace/sparkpace"), Path("/home/me")))
    assert plan[0] == "my pace/sparkpace"
