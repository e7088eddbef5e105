"""Bounds of the largest stages, for programs of which they are plain."""

from __future__ import annotations

import pytest

from stage_model.forecast.bounds import LARGEST, driver_share, run_bounds, stage_bounds
from stage_model.forecast.estimate import estimate
from stage_model.history.eventlog import read_event_log
from stage_model.history.profile import RunRecord, StageRecord, StageWaits, profile
from tests.fakes.log_cases import CASES
from tests.fakes.records import run, stage


@pytest.mark.parametrize(
    ("name", "bounds"),
    [
        ("plain", ["CPU", "CPU"]),
        ("fewer long tasks than cores", ["too few tasks"]),
        ("tasks that wait for a device", ["waiting", "waiting"]),
        # the two later jobs begin 100 s after the one before; what comes before the first is start-up
        ("few single tasks far apart", ["driver", "driver", "too few tasks"]),
        ("one task after many", ["CPU", "too few tasks"]),
        # each of the ten has as many tasks as slots, and they share these
        ("ten jobs of one query at once", ["CPU"] * LARGEST),
        # on eight cores it would have been twice as fast as on what was there
        ("grown", ["CPU"]),
    ],
)
def test_each_of_the_largest_stages_has_its_bound(name: str, bounds: list[str]) -> None:
    record = read_event_log(CASES[name].lines(), "log").record()
    found = stage_bounds(estimate(profile("made", [record])), record.slots, record.duration_s)
    assert [stage.bound for stage in found] == bounds
    assert [stage.time_s for stage in found] == sorted((stage.time_s for stage in found), reverse=True)
    assert all(0 <= stage.share <= 1 for stage in found)


def test_shares_are_of_the_whole_run() -> None:
    record = read_event_log(CASES["plain"].lines(), "log").record()
    expected = estimate(profile("made", [record]))
    # ten seconds of start-up, twenty for each stage, and one at the end
    assert [stage.share for stage in stage_bounds(expected, 4, 51.0)] == pytest.approx([20 / 51] * 2)
    assert driver_share(expected, 51.0) == pytest.approx(11 / 51)


def test_the_drivers_share_is_the_time_without_any_stage_whatever_each_stage_waited_for() -> None:
    def share(*stages: StageRecord) -> float:
        known = profile("k", [run("r", 1, *stages, cpu_source="executor", duration_s=26.5)])
        return driver_share(estimate(known), 26.5)

    # two seconds of start-up, and half a second at the end; "b" waited for no stage, "c" only for "a"
    first = stage("a", name="a")
    assert share(first, stage("b", name="b", start_s=20.0)) == pytest.approx((2 + 12 + 0.5) / 26.5)
    side = stage("b", name="b", start_s=3.0, duration_s=17.0)
    after = stage("c", name="c", start_s=20.0, gap_s=12.0, parents=("a",))
    assert share(first, side, after) == pytest.approx((2 + 0.5) / 26.5)


SPARKS_THREAD = "$anonfun$withThreadLocalCaptured$2 at CompletableFuture.java:1768"


def test_a_stage_that_the_program_repeats_is_one_row() -> None:
    # the stage that ran once is longer than either turn
    turn = stage("turn-1", name="collect at app.py:7", duration_s=5.0, gap_s=1.0)
    last = stage("turn-2", name="collect at app.py:7", duration_s=7.0, tasks=8)
    once = stage("once", name="collect at app.py:9", duration_s=9.0)
    known = profile("k", [run("r", 1, turn, last, once, cpu_source="executor", duration_s=26.0)])
    repeated, single = stage_bounds(estimate(known), 2, 26.0)
    assert (repeated.name, repeated.number, repeated.tasks) == ("collect at app.py:7", 2, 8)
    assert repeated.time_s == pytest.approx(13.0)
    assert repeated.share == pytest.approx(0.5)
    assert (single.name, single.number, single.time_s) == ("collect at app.py:9", 1, 9.0)


def test_stages_of_sparks_own_threads_are_repetitions_only_if_they_are_of_one_kind() -> None:
    names = ("at-CompletableFuture-aa-1", "at-CompletableFuture-aa-2", "at-CompletableFuture-bb-1")
    stages = [stage(name, name=SPARKS_THREAD) for name in names]
    found = run_bounds(run("r", 1, *stages, cpu_source="executor", duration_s=20.5))
    assert [row.number for row in found] == [2, 1]


def waited(fetch_s: float, write_s: float) -> StageWaits:
    return StageWaits(fetch_s=fetch_s, remote_bytes=0, write_s=write_s, memory_spilled_bytes=0, disk_spilled_bytes=0)


@pytest.mark.parametrize(
    ("waits", "throttled_s", "bound"),
    [
        (waited(16.0, 1.0), None, "network"),
        (waited(1.0, 16.0), 0.0, "disk"),
        # two tasks at a time: 8 s together are four of more than nine seconds
        (waited(8.0, 1.0), None, "waiting"),
        (None, None, "waiting"),
        # a stage that a quota held back for most of its time has not shown its waiting
        (waited(16.0, 1.0), 10.0, "waiting"),
    ],
)
def test_fixed_time_is_named_after_what_most_of_it_was_spent_with(
    waits: StageWaits | None, throttled_s: float | None, bound: str
) -> None:
    # half a second of computing on two slots
    one = stage("a", work_core_s=1.0, run_s=19.0, task_s=4.75, duration_s=10.0, waits=waits, throttled_s=throttled_s)
    [found] = run_bounds(run("r", 1, one, duration_s=12.5))
    assert found.bound == bound


def test_metrics_are_those_of_the_newest_run_that_was_not_held_back() -> None:
    def record(name: str, when: int, waits: StageWaits | None, throttled_s: float) -> RunRecord:
        one = stage("a", work_core_s=1.0, run_s=19.0, task_s=4.75, duration_s=10.0, waits=waits, throttled_s=throttled_s)
        return run(name, when, one, duration_s=12.5)

    runs = [
        record("1", 1, waited(16.0, 0.0), 0.0),
        record("2", 2, waited(0.0, 16.0), 0.0),
        record("3", 3, waited(16.0, 0.0), 5.0),
        record("4", 4, None, 0.0),
    ]
    [found] = estimate(profile("k", runs)).stages
    assert found.waits == waited(0.0, 16.0)


def test_stages_that_run_at_the_same_time_keep_the_slots_busy_together() -> None:
    def bounds(*stages: StageRecord) -> list[str]:
        known = profile("k", [run("r", 1, *stages, cpu_source="executor", duration_s=20.0)])
        return [one.bound for one in stage_bounds(estimate(known), 2, 20.0)]

    def single(name: str) -> StageRecord:
        return stage(name, name=name, tasks=1, work_core_s=6.0, run_s=6.0, task_s=6.0, task_cv=0.0, skew=1.0)

    assert bounds(single("a")) == ["too few tasks"]
    assert bounds(single("a"), single("b")) == ["CPU", "CPU"]
