"""Findings of `doctor` about a machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.doctor import limits, pressure
from controller.machine import proc
from controller.runtime.table import RUNTIMES
from stage_model.errors import Unavailable


def test_it_says_what_a_runtime_does_not_limit() -> None:
    assert "read-only" in limits(RUNTIMES["docker"])
    with pytest.raises(Unavailable, match=r"process.*--runtime docker"):
        limits(RUNTIMES["process"])
    for row in RUNTIMES.values():
        if not row.starts:
            assert "their cluster manager" in limits(row)


def test_it_says_what_shows_pressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "PROC", tmp_path)
    with pytest.raises(Unavailable, match=r"psi=1"):
        pressure()
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "memory").write_text("some avg10=1.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 ")
    assert "PSI" in pressure()
