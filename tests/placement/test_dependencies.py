"""Applications after applications."""

from __future__ import annotations

import pytest

from placement.dependencies import After, check_acyclic, parse_after
from stage_model.errors import BadInput


def test_conditions_are_read() -> None:
    assert parse_after("a, b:success") == (After("a"), After("b", success=True))
    assert parse_after("") == ()


@pytest.mark.parametrize("text", [":success", "a:", "a:failed", "a:success:x"])
def test_other_conditions_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f"'{text}'"):
        parse_after(text)


def test_a_circle_is_refused_with_the_way_round() -> None:
    known = {"b": [After("c")], "c": [After("a")]}
    with pytest.raises(BadInput, match="a after b after c after a"):
        check_acyclic("a", [After("b")], known)
    with pytest.raises(BadInput, match="a after a"):
        check_acyclic("a", [After("a")], {})


def test_what_shares_ancestors_is_no_circle_however_many_ways_there_are() -> None:
    # 60 layers of two, each after both of the layer before: 2**60 ways
    known = {f"{layer}{side}": [After(f"{layer - 1}x"), After(f"{layer - 1}y")] for layer in range(1, 60) for side in "xy"}
    check_acyclic("new", [After("59x")], known)


def test_a_chain_may_be_as_long_as_there_are_applications() -> None:
    known = {f"a{number}": [After(f"a{number - 1}")] for number in range(1, 20_000)}
    check_acyclic("new", [After("a19999")], known)
    with pytest.raises(BadInput, match=r"a0 after a19999 after a19998 after .* after a1 after a0"):
        check_acyclic("a0", [After("a19999")], known)


def test_nobody_comes_after_more_than_a_hundred() -> None:
    assert len(parse_after(",".join(f"a{number}" for number in range(100)))) == 100
    with pytest.raises(BadInput, match=r"101.* 100"):
        parse_after(",".join(f"a{number}" for number in range(101)))
