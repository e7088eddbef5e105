"""A misspelt command is answered with the nearest ones."""

from __future__ import annotations

import pytest

from tests.fakes.commands import assert_refused, run


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
