"""Sums of predicted and real savings, worked out by hand."""

from __future__ import annotations

import pytest

from experiments.bench.savings import SavingRow, totals


def row(predicted_core_s: float, paced_core_s: float, interval: tuple[float, float] | None = (10.0, 30.0)) -> SavingRow:
    """Return a job that held 100 core-seconds while it was watched."""
    least_core_s, most_core_s = interval or (None, None)
    return SavingRow(
        job="job",
        deadline_s=60.0,
        paced_end_s=59.0,
        held_core_s=100.0,
        used_core_s=60.0,
        paced_core_s=paced_core_s,
        paced_used_core_s=60.0,
        predicted_core_s=predicted_core_s,
        least_core_s=least_core_s,
        most_core_s=most_core_s,
    )


def test_the_sums_are_of_all_rows() -> None:
    found = totals([row(20.0, 80.0), row(20.0, 95.0), row(5.0, 105.0, None)])
    assert {name: found[name] for name in ("held_core_s", "predicted_core_s", "saved_core_s", "in_interval", "n")} == {
        "held_core_s": 300.0,
        "predicted_core_s": 45.0,
        "saved_core_s": 20.0,
        "in_interval": 1,
        "n": 3,
    }


@pytest.mark.parametrize(("paced_core_s", "met"), [(70.0, True), (90.0, True), (69.0, False), (91.0, False)])
def test_the_sums_may_differ_by_a_tenth_of_what_was_held(paced_core_s: float, met: bool) -> None:
    assert totals([row(20.0, paced_core_s)])["met"] is met
