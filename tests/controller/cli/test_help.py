"""The help of every command: sections, no line cut off, and an example that the command takes; and misspelt commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from controller.asks.submit_args import OFFERED, read_options, split_arguments
from controller.cli.main import COMMANDS, SECTIONS, main
from tests.fakes.commands import assert_refused, parsed, run


def below(group: click.Group, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the words of each command, those of groups in groups, too."""
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (*names, name)
        if isinstance(one := group.get_command(context, name), click.Group):
            yield from below(one, *names, name)


EVERY = list(below(main))
GROUPS = [(), *(words for words in EVERY if any(other[:-1] == words for other in EVERY))]


def lines(*words: str) -> list[str]:
    shown = CliRunner().invoke(main, [*words, "--help"], prog_name="sparkpace", terminal_width=80)
    assert shown.exit_code == 0, shown.output
    return shown.stdout.splitlines()


def command(words: tuple[str, ...]) -> click.Command:
    one: click.Command | None = main
    for name in words:
        assert isinstance(one, click.Group)
        one = one.get_command(click.Context(one), name)
    assert one is not None
    return one


def test_every_command_is_in_one_section() -> None:
    assert Counter(name for section in SECTIONS.values() for name in section) == Counter(COMMANDS.keys())
    shown = lines()
    heads = [line.removesuffix(":") for line in shown if re.fullmatch(r"\w.*:", line) and line != "Options:"]
    assert heads == list(SECTIONS)
    for heading, names in SECTIONS.items():
        after = shown[shown.index(f"{heading}:") + 1 :]
        rows = after[: after.index("")]
        assert [line.split()[0] for line in rows if re.match("  [a-z]", line)] == list(names)


@pytest.mark.parametrize("words", GROUPS, ids=" ".join)
def test_no_line_of_a_list_of_commands_is_cut_off(words: tuple[str, ...]) -> None:
    usage, *shown = lines(*words)
    assert usage.endswith("COMMAND [ARGS]...")
    assert [line for line in shown if line.endswith("...") or len(line) > 80] == []
    said = " ".join(" ".join(shown).split())
    group = command(words)
    assert isinstance(group, click.Group)
    for name in group.list_commands(click.Context(group)):
        sentence = re.split(r"\.\s", f"{command((*words, name)).help} ")[0].strip()
        assert f"{name} {' '.join(sentence.split())}" in said


@pytest.mark.parametrize("words", EVERY, ids=" ".join)
def test_the_help_has_an_example_that_works(words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path))
    *_, last = "\n".join(lines(*words)).split("\n\n")
    found = re.fullmatch(r"  Example: (?:eval \"\$\()?(sparkpace [^)]*)(?:\)\")?", last)
    assert found is not None, last
    _, *given = shlex.split(found[1].replace("\\\n", " "))
    assert tuple(given[: len(words)]) == words
    context = parsed(given)
    if words == ("submit",):  # which reads its words itself
        assert split_arguments(context.params["arguments"]).application == "app.py"
        assert {option.name for option in read_options(given[1:])[0]} <= OFFERED
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        (["sumbit", "app.py"], ["'sumbit'", "submit"]),
        (["profile", "forgot", "p"], ["'forgot'", "sparkpace profile", "forget"]),
        (["config", "chekc"], ["'chekc'", "sparkpace config", "check"]),
        ([""], ["''"]),
        (["x" * 10_000], []),
    ],
)
def test_a_misspelt_command_is_answered_with_the_nearest(words: list[str], nearest: list[str]) -> None:
    done = run(*words)
    assert_refused(done, 2, *nearest)
    assert len(done.stderr.splitlines()[-1]) < 200


def test_an_unknown_option_is_an_option_still() -> None:
    assert_refused(run("--verison"), 2, "option", "--verison")
