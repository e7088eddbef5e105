"""Recorded runs as a gate: replayed through the real code they end as they were measured, and on time where the code of their
time had a fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from experiments.simulator.recorded_run import RecordedRun, reduced_runs
from experiments.simulator.replay import closed_loop, named_again, open_loop
from stage_model.history.profile import Profile, profile

RUNS = reduced_runs(Path(__file__).parent.parent / "data" / "recorded_runs")
NEAR_PCT = 3.0
LATE_PCT, LATE_S = 2.0, 2.0
MENDED = {
    "cross-validate-20": "a stage of a thread pool found no partner in the profile, so it ended 14% early",
    "cross-validate-50": "each job of a thread pool had the application's deadline, so it ended 65% late",
    "stream-20": "no run of 24 batches had taught, as its program cancels the last, so it ended 24% late",
    "stream-50": "the same, so it ended 19% late",
    "topics-b-30": "work that had moved between the stages of two earlier runs was expected twice, so it ended 15% early",
    "rank-100": "waiting that a quota hides was forecast as if it added up, so it ended 8% early",
    "tpcds-q64-100": "turns of a query that AQE plans in two ways were taken for later turns, so it ended 5% late",
    "trees-30": "CPU that chance had counted to short stages passed for work that had come early, so it ended 1.5% late",
}
"""Runs by code that had a fault, which has been mended since: these runs are to end on time, not as they did."""
TAUGHT_BY = {"stream-20": "stream-all-cores", "stream-50": "stream-all-cores"}
"""The run that would have taught each of these."""
SHARED = {"cross-validate-20", "cross-validate-50", "cross-validate-b-20", "cross-validate-b-50", "tpcds-q64-100"}
"""Stages side by side under a quota, of thread pools and of AQE: a record does not tell which of them had how much of an
executor's quota, so they end 3 to 8 points late with what it says; the loop that plans again does not depend on that."""

FAR = {
    "zoo-k-means-100": "its work cost 41% more CPU than in the runs before it; planned again it ends 6% earlier",
    "zoo-word-count-100": "planned again it ends 4% earlier; the reason is not known",
}
"""Runs that planned again end further than `NEAR_PCT` from what was measured. The runs named `zoo` are those at twice the
base time of the first ten programs in the zoo's half to develop with (docs/results), whatever they show."""


def part_pct(run: RecordedRun, end_s: float) -> float:
    """Return how far an end is from the measured one, in percent of the deadline; without one, of the duration."""
    return 100 * (end_s - run.end_s) / (run.deadline_s or run.end_s)


def known(name: str) -> Profile | None:
    """Return the profile with the run that would have taught; None stands for what the run had."""
    if name not in TAUGHT_BY:
        return None
    teacher, run = RUNS[TAUGHT_BY[name]], RUNS[name]
    record = structs.replace(teacher.record, id="teacher", when_ms=len(run.before), complete=True)
    return profile(record.name, [named_again(one) for one in (*run.before, record)])


def test_the_runs_are_there() -> None:
    assert len(RUNS) >= 39
    assert MENDED.keys() | TAUGHT_BY.keys() | set(TAUGHT_BY.values()) <= RUNS.keys()


@pytest.mark.parametrize("name", [name for name in RUNS if name not in SHARED])
def test_with_the_cores_that_it_had_a_run_ends_as_it_did(name: str) -> None:
    assert part_pct(RUNS[name], open_loop(RUNS[name]).end_s) == pytest.approx(0, abs=NEAR_PCT)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(strict=True, reason=FAR[name])) if name in FAR else name
        for name in RUNS
        if name not in MENDED
    ],
)
def test_planned_again_a_run_ends_as_it_did(name: str) -> None:
    assert part_pct(RUNS[name], closed_loop(RUNS[name]).end_s) == pytest.approx(0, abs=NEAR_PCT)


@pytest.mark.parametrize("name", MENDED)
def test_planned_again_a_run_whose_code_had_a_fault_ends_on_time(name: str) -> None:
    run = RUNS[name]
    assert run.deadline_s is not None
    error_pct = 100 * (closed_loop(run, known=known(name)).end_s / run.deadline_s - 1)
    assert -8.0 <= error_pct <= max(LATE_PCT, 100 * LATE_S / run.deadline_s)
