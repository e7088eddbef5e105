"""Findings of `doctor` about a machine."""

from __future__ import annotations

import pytest

from controller.cli.doctor import limits
from controller.runtime.table import RUNTIMES
from stage_model.errors import Unavailable


def test_it_says_what_a_runtime_does_not_limit() -> None:
    assert "read-only" in limits(RUNTIMES["docker"])
    with pytest.raises(Unavailable, match=r"process.*--runtime docker"):
        limits(RUNTIMES["process"])
    for row in RUNTIMES.values():
        if not row.starts:
            assert "their cluster manager" in limits(row)
