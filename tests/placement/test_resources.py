"""Fixed-point amounts, and pieces with ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.resources import NOTHING, SCALE, Held, Pool, ResourceSet, find_all, parse_advertised, parse_asked
from stage_model.errors import BadInput

names = st.sampled_from(["cpu", "memory", "gpu", "ssd"])
sets = st.builds(ResourceSet, st.dictionaries(names, st.integers(0, 50_000)))


@given(sets, sets)
def test_a_set_is_within_another_if_nothing_is_lacking(a: ResourceSet, b: ResourceSet) -> None:
    assert a.within(b) == (not a.lacking(b))


def test_a_set_reads_as_people_write_it() -> None:
    assert str(ResourceSet.of(gpu=0.5, cpu=2)) == "cpu=2,gpu=0.5"
    assert str(NOTHING) == "nothing"


# ---------------------------------------------------------------- what people write


def test_resources_are_read() -> None:
    assert parse_advertised("gpu=2, ssd=1") == ResourceSet.of(gpu=2, ssd=1)
    assert parse_asked("gpu=0.5,ssd=2") == ResourceSet.of(gpu=0.5, ssd=2)
    assert parse_asked("") == NOTHING


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpu", "NAME=AMOUNT"),
        ("gpu=1,gpu=2", "gpu"),
        ("GPU=1", "NAME=AMOUNT"),
        ("gpu=-1", "gpu=-1"),
        ("gpu=nan", "gpu=nan"),
        ("gpu=0.00001", "gpu=0.00001"),
        ("cpu=2", "cpu"),
        ("gpu=1.5", "gpu=1.5"),
    ],
)
def test_what_cannot_be_had_is_refused_with_what_can(text: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        parse_asked(text)


def test_a_worker_has_whole_pieces() -> None:
    with pytest.raises(BadInput, match=r"gpu=0.5"):
        parse_advertised("gpu=0.5")


# ---------------------------------------------------------------- pieces


def test_shares_of_two_pieces_are_never_joined() -> None:
    pool = Pool(2, [{0: 5000}, {1: 6000}])
    assert pool.free_units == 5000 + 4000
    assert pool.find(5000) == {0: 5000}
    assert pool.find(7500) is None


def test_split_pieces_are_shared_before_a_whole_one_is_split() -> None:
    pool = Pool(2, [{1: 5000}])
    assert pool.find(5000) == {1: 5000}
    assert pool.find(6000) == {0: 6000}


def test_more_than_one_and_not_whole_is_no_amount_of_pieces() -> None:
    with pytest.raises(ValueError, match="not whole"):
        Pool(3).find(15_000)


def test_a_held_piece_that_was_taken_away_is_free_for_no_executor() -> None:
    held = [{0: SCALE, 1: SCALE}]
    assert (Pool(2, held).free_units, Pool(1, held).free_units) == (0, 0)
    assert Pool(1, held).find(1) is None
    assert Pool(1).free_units == SCALE


def test_a_piece_that_two_say_they_hold_counts_as_held() -> None:
    assert Pool(2, [{0: SCALE}, {0: 5000}]).free_units == SCALE


requests = st.one_of(st.integers(1, 3).map(lambda n: n * SCALE), st.integers(1, SCALE - 1))


@given(st.integers(0, 5), st.lists(requests, max_size=30))
def test_pieces_are_conserved_and_never_had_twice(count: int, asked: list[int]) -> None:
    held: list[Held] = []
    for units in asked:
        got = Pool(count, held).find(units)
        if got is None:
            continue
        assert sum(got.values()) == units
        assert units >= SCALE or len(got) == 1
        held.append(got)
        assert Pool(count, held).free_units + sum(sum(one.values()) for one in held) == count * SCALE
        for piece in range(count):
            assert sum(one.get(piece, 0) for one in held) <= SCALE


def test_pieces_of_several_resources_are_had_together_or_not_at_all() -> None:
    pools = {"gpu": Pool(1), "ssd": Pool(1)}
    assert find_all(pools, ResourceSet.of(gpu=1, ssd=2)) is None
    assert find_all(pools, ResourceSet.of(gpu=0.5, ssd=1)) == {"gpu": {0: 5000}, "ssd": {0: SCALE}}
    assert find_all(pools, ResourceSet.of(fpga=1)) is None
