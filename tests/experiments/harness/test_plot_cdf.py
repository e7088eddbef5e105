"""Distributions as step curves."""

from __future__ import annotations

import math
from pathlib import Path

from experiments.harness.plot_cdf import plot_cdf, steps


def test_a_curve_rises_by_one_job_at_each_end_and_stays_low_where_jobs_did_not_end() -> None:
    assert steps([30.0, 10.0]) == ([0.0, 10.0, 30.0], [0.0, 0.5, 1.0])
    assert steps([30.0, math.inf, 10.0, math.inf]) == ([0.0, 10.0, 30.0], [0.0, 0.25, 0.5])


def test_a_picture_is_made(tmp_path: Path) -> None:
    plot_cdf({"fifo": [1.0, 2.0], "kill": [math.inf]}, tmp_path / "cdf.png")
    assert (tmp_path / "cdf.png").read_bytes().startswith(b"\x89PNG")
