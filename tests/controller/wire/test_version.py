"""Peers that understand each other, and the answer to the others."""

from __future__ import annotations

import pytest

from controller.wire.version import SPOKEN, check_header
from stage_model.errors import OtherVersion


@pytest.mark.parametrize("named", [None, SPOKEN])
def test_our_version_and_a_message_that_names_none_are_accepted(named: str | None) -> None:
    check_header(named, "the master", "this agent")


@pytest.mark.parametrize("named", ["", "0", "2", "01", "1-2", " 1", "1\n", "x" * 5000])
def test_any_other_version_is_refused_in_one_short_sentence_with_both(named: str) -> None:
    with pytest.raises(OtherVersion) as refused:
        check_header(named, "the master", "this agent")
    said = str(refused.value)
    assert repr(named)[:40] in said
    assert f"this agent {SPOKEN!r}" in said
    assert len(said) < 200
    assert "\n" not in said
