"""Properties of every plan from an event log, whatever ran side by side, was tried again, was added or left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.forecast.curve import reference_slots, whole
from stage_model.forecast.estimate import estimate
from stage_model.forecast.saving import saving, slot_cores
from stage_model.history.eventlog import read_event_log
from stage_model.history.held import cores_held
from stage_model.history.profile import RunRecord, profile
from stage_model.settings import CORE_QUANTUM
from tests.fakes.log_figures import (
    check_cores_do_no_more_than_there_are,
    check_more_cores_never_take_longer,
    check_the_same_work,
    cpu_s,
    end_s,
)
from tests.fakes.made_logs import MadeExecutor, MadeJob, MadeStage, Threads, made_log

seconds = st.integers(1, 8).map(lambda s: 1000 * s)
pauses = st.sampled_from((0, 300, 4000))
cores = st.integers(1, 4)


@st.composite
def jobs(draw: st.DrawFn, *, lossy: bool = True) -> MadeJob:
    """Draw up to four stages, of which each may need earlier ones; one may lose a part of its input."""
    stages: list[MadeStage] = []
    count = draw(st.integers(1, 4))
    losing = draw(st.integers(1, 6)) if lossy else 0
    for place in range(count):
        parents = tuple(sorted(draw(st.sets(st.integers(0, place - 1), max_size=2)))) if place else ()
        tasks, lost = draw(st.integers(1, 12)), None
        if place == losing and parents and tasks > 1:
            lost = (draw(st.integers(1, tasks - 1)), draw(st.integers(1, stages[parents[0]].tasks)))
        failing = draw(st.integers(0, 2))
        stages.append(MadeStage(tasks, draw(seconds), parents, draw(st.sampled_from((1.0, 0.5))), lost, failing=failing))
    return MadeJob(tuple(stages), pause_ms=draw(pauses))


def programs(*, lossy: bool = True) -> st.SearchStrategy[Threads]:
    return st.lists(st.lists(jobs(lossy=lossy), min_size=1, max_size=3), min_size=1, max_size=3)


steady = st.lists(cores.map(MadeExecutor), min_size=1, max_size=3)
passing = st.builds(
    MadeExecutor,
    cores,
    comes_ms=st.integers(5_000, 60_000),
    leaves_ms=st.none() | st.integers(20_000, 90_000),
    dies_ms=st.none() | st.integers(61_000, 90_000),
    with_output=st.booleans(),
)
unsteady = st.tuples(cores.map(MadeExecutor), st.lists(passing, max_size=3)).map(lambda both: [both[0], *both[1]])


def record(lines: list[bytes]) -> RunRecord:
    return read_event_log(lines, "log").record()


@given(programs(), steady, st.booleans())
def test_a_log_planned_with_its_own_cores_takes_as_long_as_its_run(
    threads: Threads, executors: list[MadeExecutor], with_cpu: bool
) -> None:
    run = record(made_log(threads, executors, with_cpu=with_cpu))
    assert end_s(run, run.cores) == pytest.approx(run.duration_s, rel=0.01)


@given(programs(), unsteady)
def test_more_cores_never_take_longer_and_none_do_more_than_there_are(
    threads: Threads, executors: list[MadeExecutor]
) -> None:
    lines = made_log(threads, executors)
    run = record(lines)
    check_more_cores_never_take_longer(run)
    check_cores_do_no_more_than_there_are(run, lines)
    assert run.work_core_s >= (1 - 1e-9) * cpu_s(lines)


@given(programs(lossy=False), steady, steady)
def test_the_same_work_logged_at_two_sizes_of_cluster_is_the_same(
    threads: Threads, some: list[MadeExecutor], others: list[MadeExecutor]
) -> None:
    one, other = (record(made_log(threads, executors)) for executors in (some, others))
    check_the_same_work(one, other)


@given(programs(), unsteady, st.floats(0.2, 3.0))
def test_the_fewest_cores_keep_the_deadline_one_step_fewer_does_not_and_they_save_no_more_than_was_held(
    threads: Threads, executors: list[MadeExecutor], share: float
) -> None:
    log = read_event_log(made_log(threads, executors), "log")
    run = log.record()
    known = profile("made", [run])
    most, within_s = float(reference_slots(known)), share * run.duration_s
    forecast = whole(estimate(known), int(most))
    held = cores_held(log.cores_held, run.when_ms, run.duration_s)
    found = saving(forecast, within_s, most, held, slot_cores(run))
    assert 0 <= found.saved_core_s <= found.held_core_s
    if found.fewest_cores is None:
        assert forecast.time_s(most) > within_s
        return
    assert found.end_s == forecast.time_s(found.fewest_cores) <= within_s * (1 + 1e-8)
    fewer = found.fewest_cores - CORE_QUANTUM
    assert fewer <= 1e-9 or forecast.time_s(fewer) > within_s * (1 - 1e-8)


@given(
    st.lists(st.tuples(st.integers(1, 6).map(lambda eighths: 8 * eighths), seconds, pauses), min_size=1, max_size=4),
    st.sampled_from(((2, 6), (4, 4), (1, 1, 6))),
    st.integers(18_000, 90_000),
    st.none() | st.integers(1_000, 60_000),
    st.sampled_from((1, 2, 4, 8)),
)
def test_a_log_of_executors_that_came_and_went_tells_what_any_cores_take(
    stages: list[tuple[int, int, int]], sizes: tuple[int, ...], comes_ms: int, stays_ms: int | None, on: int
) -> None:
    """The first tasks end before any further executor comes: executors that come before count as there from the beginning."""
    thread = [MadeJob((MadeStage(tasks, task_ms),), pause_ms) for tasks, task_ms, pause_ms in stages]
    first = MadeJob((MadeStage(8, 1000),))
    leaves_ms = None if stays_ms is None else comes_ms + stays_ms
    later = [MadeExecutor(size, comes_ms=comes_ms, leaves_ms=leaves_ms) for size in sizes[1:]]
    run = record(made_log([[first, *thread]], [MadeExecutor(sizes[0]), *later]))
    alone = record(made_log([[first, *thread]], [MadeExecutor(on)]))
    assert end_s(run, on) == pytest.approx(alone.duration_s, rel=0.01)
