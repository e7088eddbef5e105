"""The cold part of a stage's CPU, from what agents report while it runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, lists

from stage_model.history.cold import FIRST, KEPT, Readings


def reported(points: Sequence[tuple[float, float]]) -> Readings:
    """Return the readings of a stage of which each report says the records read and the core-seconds used."""
    first, *others = points
    seen = Readings(*first)
    for records, core_s in others:
        seen.add(records - seen.records, core_s - seen.core_s)
    return seen


def even(reports: int, records: float, core_s: float, cold_core_s: float) -> Readings:
    """Return the readings of a stage whose cold part comes with the first quarter of its records, reported at even steps."""
    parts = [number / reports for number in range(1, reports + 1)]
    return reported([(part * records, part * core_s + min(1.0, part / FIRST) * cold_core_s) for part in parts])


def test_what_the_first_quarter_uses_beyond_each_later_one_is_cold() -> None:
    # 100 records: 6 core-seconds for the first 25, and 2 for each other 25
    assert reported([(12, 3.0), (25, 6.0), (37, 7.0), (62, 9.0), (100, 12.0)]).cold_core_s(100) == pytest.approx(4.0)


@given(
    reports=integers(5, 400),
    records=floats(1, 1e9),
    core_s=floats(0, 1e6),
    cold_core_s=floats(0, 1e6),
)
def test_any_number_of_reports_shows_the_cold_part(reports: int, records: float, core_s: float, cold_core_s: float) -> None:
    seen = even(reports, records, core_s, cold_core_s)
    assert len(seen.points) <= KEPT
    found = seen.cold_core_s(records)
    assert found == pytest.approx(cold_core_s, rel=1e-6, abs=1e-6 * (core_s + 1))
    assert found is not None
    assert found <= (core_s + cold_core_s) * (1 + 1e-9)


@given(lists(floats(0, 1e6), min_size=1, max_size=100), lists(floats(0, 1e6), min_size=1, max_size=100))
def test_it_is_never_more_than_the_stage_used(records: list[float], core_s: list[float]) -> None:
    seen = Readings(0.0, 0.0)
    for more, used in zip(records, core_s, strict=False):
        seen.add(more, used)
    found = seen.cold_core_s(seen.records)
    assert found is None or 0 <= found <= seen.core_s * (1 + 1e-9)


@pytest.mark.parametrize(
    ("points", "records"),
    [
        ([(61, 6.0), (80, 8.0), (100, 10.0)], 100),  # the master started again late in the stage
        ([(20, 4.0), (70, 6.0), (100, 10.0)], 100),  # too few reports
        ([(20, 4.0), (30, 6.0), (90, 10.0)], 100),  # an executor's last records were not reported
        ([(20, 4.0), (30, 6.0), (110, 10.0)], 100),  # an agent that started again counts records twice
        ([(0, 4.0), (0, 10.0)], 0),
    ],
)
def test_reports_that_cannot_tell_say_nothing(points: list[tuple[float, float]], records: float) -> None:
    assert reported(points).cold_core_s(records) is None


def test_a_stage_that_computes_after_reading_has_no_cold_part() -> None:
    assert reported([(20, 0.5), (30, 0.8), (60, 1.5), (100, 3.0), (100, 10.0)]).cold_core_s(100) == 0
