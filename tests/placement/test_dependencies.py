"""Applications after applications."""

from __future__ import annotations

import pytest

from placement.dependencies import After, check_acyclic, parse_after
from stage_model.errors import BadInput


def test_conditions_are_read() -> None:
    assert parse_after("a, b:success, c:up") == (After("a"), After("b", success=True), After("c", up=True))
    assert [str(after) for after in parse_after("a,b:success,c:up")] == ["a", "b:success", "c:up"]
    assert parse_after("") == ()


@pytest.mark.parametrize("text", [":success", ":up", "a:", "a:failed", "a:success:x", "a:up:success", "a:UP"])
def test_other_conditions_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f"'{text}'"):
        parse_after(text)


@pytest.mark.parametrize(
    ("word", "variable"),
    [
        ("connect", "SPARKPACE_AFTER_CONNECT_ADDRESS"),
        ("team.Connect-2", "SPARKPACE_AFTER_TEAM_CONNECT_2_ADDRESS"),
        ("pace-20261122-101112-abcdef", "SPARKPACE_AFTER_PACE_20261122_101112_ABCDEF_ADDRESS"),
        ("a=b\nc$(d)", "SPARKPACE_AFTER_A_B_C__D__ADDRESS"),
    ],
)
def test_a_services_address_is_in_a_variable_that_any_shell_can_name(word: str, variable: str) -> None:
    assert parse_after(f"{word}:up")[0].variable == variable


def test_two_services_of_one_variable_are_refused() -> None:
    with pytest.raises(BadInput, match=r"'a-b:up' and 'A_B:up'.*SPARKPACE_AFTER_A_B_ADDRESS"):
        parse_after("a-b:up,A_B:up")
    assert len(parse_after("a-b,A_B:up")) == 2, "the end of the first has no address"


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


def test_no_job_comes_after_more_than_a_hundred() -> None:
    assert len(parse_after(",".join(f"a{number}" for number in range(100)))) == 100
    with pytest.raises(BadInput, match=r"101.* 100"):
        parse_after(",".join(f"a{number}" for number in range(101)))
