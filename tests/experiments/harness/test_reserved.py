"""Cores reserved over time, worked out by hand from readings of a standalone cluster and samples of paced executors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from controller.wire.worker import Sample
from experiments.harness.plot_reserved import plot_reserved
from experiments.harness.recorded import SlotReading, StepRecord
from experiments.harness.reserved import CoreCourse, CoreSpan, course_of
from tests.fakes.recorded import job_record, step_record
from tests.fakes.views import sample

SLOT = 0.4


def step(*readings: tuple[float, float, int]) -> StepRecord:
    """Return a step of one job, `app`, submitted at 1000 s; each reading has its second, CPU so far and slots of that job."""
    made = [
        SlotReading(epoch_s=1000 + s, used_core_s=cpu, slots={"app": slots} if slots else {}) for s, cpu, slots in readings
    ]
    return structs.replace(step_record("stock-0", job_record("job", "app", end_s=30)), readings=tuple(made))


def quotas(executor: str, *rows: tuple[float, float]) -> list[Sample]:
    return [sample(time_s, executor, quota=cores, grant=cores, usage=cores) for time_s, cores in rows]


def test_a_stock_executor_reserves_its_slots_from_launch_to_end_whatever_it_uses() -> None:
    found = course_of(step((0, 5.0, 0), (1, 5.1, 2), (3, 5.5, 1), (4, 5.5, 0), (6, 5.5, 0)), SLOT, None)
    # two slots for 2 s and one for 1 s
    assert [round(span.reserved, 9) for span in found.spans] == [0.0, 0.8, 0.4, 0.0]
    assert [found.reserved_core_s, found.used_core_s] == pytest.approx([2 * 0.8 + 0.4, 0.5])
    assert [found.most_cores, found.capacity] == pytest.approx([0.8, 1.7])
    assert [(span.from_s, span.to_s) for span in found.spans] == [(0, 1), (1, 3), (3, 4), (4, 6)]


def test_a_paced_executor_reserves_its_quota_and_as_much_as_a_stock_one_before_its_first_sample() -> None:
    # launched at 0 s; sampled from 3 s on, and gone at 9 s
    samples = {"app": quotas("1", (3.0, 0.1), (5.0, 0.3), (9.0, 0.0))}
    found = course_of(step((0, 0.0, 1), (4, 0.0, 1), (10, 0.0, 0)), SLOT, samples)
    # 3 s of 0.4 and 1 s of 0.1; 1 s of 0.1, 4 s of 0.3 and 1 s of 0.4, because the Master has not seen its end
    assert [span.reserved * span.lasts_s for span in found.spans] == [pytest.approx(1.3), pytest.approx(0.1 + 1.2 + 0.4)]


def test_an_executor_never_has_more_than_its_worker_although_its_quota_says_so() -> None:
    samples = {"app": quotas("1", (0.0, 1.6), (2.0, 1.6), (2.5, 0.0))}
    assert course_of(step((0, 0.0, 1), (2, 0.0, 0)), SLOT, samples).reserved_core_s == pytest.approx(2 * SLOT)


def test_an_executor_that_has_exited_reserves_nothing() -> None:
    samples = {"app": quotas("1", (0.0, 0.2), (1.0, 0.0), (2.0, 0.0))}
    assert course_of(step((0, 0.0, 1), (1, 0.0, 0), (2, 0.0, 0)), SLOT, samples).reserved_core_s == pytest.approx(0.2)


def test_without_two_readings_nothing_is_known() -> None:
    assert course_of(step((0, 0.0, 3)), SLOT, None).spans == ()
    assert (CoreCourse(1.0, ()).reserved_core_s, CoreCourse(1.0, ()).most_cores) == (0.0, 0.0)


ROWS = st.lists(st.tuples(st.floats(0.05, 3.0), st.floats(0.05, 2.0)), min_size=1, max_size=8)


@given(gaps=st.lists(st.floats(0.2, 4.0), min_size=1, max_size=8), rows=ROWS, slots=st.integers(0, 3))
def test_a_paced_executor_never_reserves_more_than_stock_ones_where_the_master_sees_it(
    gaps: Sequence[float], rows: Sequence[tuple[float, float]], slots: int
) -> None:
    times = [0.0, *(math.fsum(gaps[: place + 1]) for place in range(len(gaps)))]
    seen = step(*((time_s, 0.0, slots + 1) for time_s in times))
    at = [math.fsum(gap for gap, _ in rows[:place]) for place in range(len(rows))]
    samples = {"app": quotas("1", *((time_s, cores) for time_s, (_, cores) in zip(at, rows, strict=True)))}
    paced, stock = course_of(seen, SLOT, samples), course_of(seen, SLOT, None)
    for mine, other in zip(paced.spans, stock.spans, strict=True):
        assert SLOT * slots - 1e-9 <= mine.reserved <= other.reserved + 1e-9


def test_a_picture_is_made(tmp_path: Path) -> None:
    course = CoreCourse(1.6, (CoreSpan(-0.5, 1.0, 0.8, 0.5), CoreSpan(1.0, 3.0, 0.4, 0.1)))
    plot_reserved({"stock": course, "sparkpace": course}, tmp_path / "cores.png")
    assert (tmp_path / "cores.png").read_bytes().startswith(b"\x89PNG")
