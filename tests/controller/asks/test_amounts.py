"""Amounts as operators give them; what is refused: `test_local_limit`."""

from __future__ import annotations

import pytest

from controller.asks.amounts import parse_size_or_part
from stage_model.errors import BadInput


@pytest.mark.parametrize(
    ("text", "bytes_of_a_gibibyte"), [("20m", 20 << 20), ("2g", 2 << 30), ("25%", 1 << 28), ("none", None)]
)
def test_a_size_stays_and_a_part_is_of_the_whole(text: str, bytes_of_a_gibibyte: float | None) -> None:
    assert parse_size_or_part(text, option="--least-free-memory").of(1 << 30) == bytes_of_a_gibibyte


def test_a_refusal_names_the_option_and_the_value() -> None:
    with pytest.raises(BadInput, match=r"--least-free-disk 'much'.*1% to 99%"):
        parse_size_or_part("much", option="--least-free-disk")
