"""Amounts as operators give them, and the amount that an application may keep on a disk."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.asks.amounts import parse_size_or_part
from controller.asks.local_limit import DEFAULT, Disk, parse_local_limit
from stage_model.errors import BadInput

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "disk", "most"),
    [
        ("20g", Disk(100 * GIB, 1 * GIB), 20 * GIB),
        ("2048", Disk(100 * GIB, 1 * GIB), 2 * GIB),
        # 45 of 45 + 5 GiB are 90%
        ("90%", Disk(100 * GIB, 5 * GIB), 45 * GIB),
        ("50%", Disk(100 * GIB, 40 * GIB), 40 * GIB),
        # another program has filled the disk: a tenth of it harms no other job
        ("90%", Disk(100 * GIB, 0), 10 * GIB),
        ("none", Disk(100 * GIB, 0), math.inf),
    ],
)
def test_what_may_be_kept(text: str, disk: Disk, most: float) -> None:
    assert parse_local_limit(text).most(disk) == pytest.approx(most)


@pytest.mark.parametrize("text", ["", "0%", "100%", "-5%", "9.5%", "a lot", "0", "-1g", "\u0661%"])
def test_what_is_no_limit_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"--local-limit"):
        parse_local_limit(text)


def test_the_text_is_read_again_as_the_same() -> None:
    for text in (" 20G ", "90%", "NONE", DEFAULT):
        limit = parse_local_limit(text)
        assert parse_local_limit(limit.text) == limit


@given(share=st.integers(1, 99), size=st.integers(1, 1 << 50), data=st.data())
def test_files_are_looked_at_wherever_a_job_may_keep_too_much(share: int, size: int, data: st.DataObject) -> None:
    free = data.draw(st.integers(0, size))
    used = data.draw(st.integers(0, size - free))
    limit, disk = parse_local_limit(f"{share}%"), Disk(size, free)
    if used > limit.most(disk):
        assert limit.may_be_passed(disk)
        assert 100 * used > 99.999 * share / 100 * (used + free)


@pytest.mark.parametrize(("text", "of_a_gibibyte"), [("20m", 20 << 20), ("2g", 2 << 30), ("25%", 1 << 28), ("none", None)])
def test_a_size_stays_and_a_part_is_of_the_whole(text: str, of_a_gibibyte: float | None) -> None:
    assert parse_size_or_part(text, option="--least-free-memory").of(1 << 30) == of_a_gibibyte


def test_a_refusal_names_the_option_and_the_value() -> None:
    with pytest.raises(BadInput, match=r"--least-free-disk 'much'.*1% to 99%"):
        parse_size_or_part("much", option="--least-free-disk")
