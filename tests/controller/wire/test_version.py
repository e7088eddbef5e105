"""Which peers understand each other, and what the others are told."""

from __future__ import annotations

import re

import pytest

from controller.wire.version import NEWEST, OLDEST, SPOKEN, check_header
from stage_model.errors import OtherVersion


@pytest.mark.parametrize("named", [None, SPOKEN, "1-1", f"{NEWEST}-{NEWEST + 1}", f"0-{OLDEST}", "0-9999"])
def test_one_version_that_both_speak_is_enough(named: str | None) -> None:
    check_header(named, "the master", "this agent")


@pytest.mark.parametrize(("named", "behind"), [("3-4", "this agent"), ("9-9", "this agent"), ("0-0", "the master")])
def test_a_message_of_no_version_that_we_speak_is_refused_and_names_who_is_behind(named: str, behind: str) -> None:
    said = f"the master speaks wire version {named}, this agent {SPOKEN}; upgrade {behind}"
    with pytest.raises(OtherVersion, match=f"^{re.escape(said)}$"):
        check_header(named, "the master", "this agent")


@pytest.mark.parametrize("named", ["", "2", "1-", "1-2-3", "a-b", " 1-2", "1-2\n", "1-99999", "x" * 5000])
def test_what_is_no_pair_of_numbers_is_refused_in_one_short_sentence(named: str) -> None:
    with pytest.raises(OtherVersion, match="accepted: the oldest and the newest, as '1-2'") as refused:
        check_header(named, "the master", "this agent")
    assert len(str(refused.value)) < 200
    assert "\n" not in str(refused.value)


def test_exactly_one_older_version_is_spoken() -> None:
    assert OLDEST == NEWEST - 1
