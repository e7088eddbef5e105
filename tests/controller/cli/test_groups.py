"""A misspelt command is answered with the nearest ones."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from controller.cli.main import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["sumbit", "app.py"], "'sumbit' is no command of sparkpace; the nearest names are submit, "),
        (["profile", "forgot", "p"], "'forgot' is no command of sparkpace profile; the nearest names are forget, "),
        (["config", "chekc"], "'chekc' is no command of sparkpace config; the only name is check"),
        ([""], "'' is no command of sparkpace; the nearest names are "),
        (["x" * 10_000], "' is no command of sparkpace; the nearest names are "),
    ],
)
def test_a_misspelt_command_is_answered_with_the_nearest(words: list[str], said: str) -> None:
    done = CliRunner().invoke(main, words, prog_name="sparkpace")
    assert done.exit_code == 2
    last = done.stderr.splitlines()[-1]
    assert said in last
    assert len(last) < 200


def test_an_unknown_option_is_an_option_still() -> None:
    done = CliRunner().invoke(main, ["--verison"], prog_name="sparkpace")
    assert done.exit_code == 2
    assert "No such option '--verison'" in done.stderr or "No such option: --verison" in done.stderr
