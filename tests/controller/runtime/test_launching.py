"""Amounts that a runtime can set: both sides of each bound."""

from __future__ import annotations

import math

import pytest

from controller.runtime.launching import MIN_CORES, MIN_MEMORY_BYTES, checked_cores, checked_memory
from stage_model.errors import BadInput


@pytest.mark.parametrize("cores", [0.0, -1.0, 0.009, math.nan, math.inf, -math.inf])
def test_impossible_quotas_are_refused(cores: float) -> None:
    with pytest.raises(BadInput, match="quota"):
        checked_cores(cores)


@pytest.mark.parametrize("memory_bytes", [-1, 0, 1 << 20, MIN_MEMORY_BYTES - 1])
def test_impossible_memory_limits_are_refused(memory_bytes: int) -> None:
    with pytest.raises(BadInput, match="memory"):
        checked_memory(memory_bytes)


def test_possible_amounts_are_returned_as_they_are() -> None:
    assert [checked_cores(cores) for cores in (MIN_CORES, 0.35, 4096.0)] == [MIN_CORES, 0.35, 4096.0]
    assert [checked_memory(size) for size in (MIN_MEMORY_BYTES, 1 << 40)] == [MIN_MEMORY_BYTES, 1 << 40]
