from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from stage_model.forecast.estimate import ApplicationEstimate, estimate
from stage_model.forecast.match import match
from stage_model.history.events import AnyEvent, TaskEnd
from stage_model.history.profile import RunRecord, profile
from stage_model.history.run import Run
from stage_model.history.run_record import ContainerUse, to_record
from stage_model.history.stage_run import StageKey
from tests.fakes.records import facts
from tests.fakes.spark_events import Story, begun, info

READ = info(0, "map at /x/app.py:1")
SORT = info(1, "sort at /x/app.py:2", parents=(0,))
COUNT = info(2, "count at /x/app.py:3", parents=(1,))
SAVE = info(3, "save at /x/app.py:4")
UNKNOWN = info(9, "other at /x/app.py:5", parents=(0,), tasks=7)


def learned(container: bool = True) -> ApplicationEstimate:
    """Return what a run teaches: READ 10 core-s, SORT 20, COUNT 30 in one job, then SAVE 40 in another."""
    story = begun(READ, SORT, COUNT)
    for stage in (READ, SORT, COUNT):
        story.whole(stage, cpu_s=5.0 * (stage.stage + 1))
    story.job_end(0)
    story.job(1, SAVE)
    story.whole(SAVE, cpu_s=20.0)
    story.job_end(1)
    story.end()
    return estimate(profile("k", [_record(story.run, {(i, 0): 10.0 * (i + 1) for i in range(4)} if container else None)]))


def batches(count: int) -> Story:
    """Make a job of one stage for each batch of a stream."""
    story = Story()
    for number in range(count):
        batch = info(number, "start at /x/app.py:1")
        story.job(number, batch, sql=str(number))
        story.whole(batch)
        story.job_end(number)
    story.end()
    return story


def _record(run: Run, container_core_s: dict[StageKey, float] | None = None) -> RunRecord:
    return to_record(run, facts(), ContainerUse(container_core_s=container_core_s))


def names(stages: object) -> list[str]:
    return [stage.name.split(" ")[0] for stage in stages]  # type: ignore[attr-defined]


def test_before_the_first_stage_all_is_to_come_and_nothing_is_known_of_the_match() -> None:
    found = match(learned(), Story().run)
    assert names(found.to_come) == ["map", "sort", "count", "save"]
    assert (found.active, found.matched_share, found.work_ratio) == ({}, None, 1.0)


def test_active_stages_are_found_by_signature() -> None:
    story = begun(READ, SORT, COUNT)
    story.whole(READ)
    story.submit(SORT)
    found = match(learned(), story.run)
    assert names(found.active.values()) == ["sort"]
    assert found.active[1, 0].work_core_s == 20.0
    assert found.seen[0, 0].work_core_s == 10.0
    assert names(found.to_come) == ["count", "save"]
    assert found.matched_share == 1.0


def test_an_unknown_stage_is_the_mean_of_its_neighbours() -> None:
    story = begun(READ, UNKNOWN)
    story.whole(READ)
    story.submit(UNKNOWN)
    found = match(learned(), story.run)
    stand_in = found.active[9, 0]
    assert (stand_in.work_core_s, stand_in.tasks) == (15.0, 7)  # between READ (10) and SORT (20)
    known = learned()
    waits = tuple(
        structs.replace(one, fixed_s=fixed_s, waiting_s=waiting_s)
        for one, fixed_s, waiting_s in zip(known.stages, (3.0, 5.0, 9.0, 9.0), (1.0, 4.0, 9.0, 9.0), strict=True)
    )
    stand_in = match(structs.replace(known, stages=waits), story.run).active[9, 0]
    assert (stand_in.fixed_s, stand_in.waiting_s) == (4.0, 2.5)
    assert found.exact == {(0, 0)}


def test_unknown_stages_count_by_the_work_that_they_do() -> None:
    """One unknown stage next to small ones does half of all the work."""
    story = begun(READ, UNKNOWN)
    story.whole(READ)
    assert match(learned(), story.run, {(0, 0): 10.0}).matched_share == 1.0
    story.submit(UNKNOWN)
    assert match(learned(), story.run, {(0, 0): 10.0}).matched_share == 1.0, "it has done nothing yet"
    assert match(learned(), story.run, {(0, 0): 10.0, (9, 0): 30.0}).matched_share == pytest.approx(0.25)
    story.task(UNKNOWN, 0, cpu_s=3.0)
    assert match(learned(), story.run).matched_share == pytest.approx(1 / 4), "by the tasks' own CPU"


def test_batches_that_no_run_had_are_unknown_by_half_of_the_work() -> None:
    record = batches(3).run
    expected = estimate(profile("k", [_record(record)]))
    assert match(expected, batches(3).run).matched_share == 1.0
    found = match(expected, batches(6).run)
    assert found.matched_share == pytest.approx(0.5)
    assert found.to_come == ()


def test_a_stage_of_which_only_the_parents_changed_stands_for_the_expected_one() -> None:
    other = info(5, "other at /x/app.py:7")
    story = Story()
    story.job(0, READ, other, info(1, "sort at /x/app.py:2", parents=(0, 5)), COUNT)
    story.whole(READ)
    story.submit(info(1, "sort at /x/app.py:2", parents=(0, 5)))
    found = match(learned(), story.run)
    assert found.active[1, 0].work_core_s == 20.0
    assert names(found.to_come) == ["count", "save"]
    assert found.exact == {(0, 0)}


def test_stages_passed_over_are_not_waited_for() -> None:
    story = begun(READ, SORT, COUNT)
    story.submit(COUNT)  # READ and SORT were skipped: their shuffle files are there
    assert names(match(learned(), story.run).to_come) == ["save"]
    story.complete(COUNT)
    story.job_end(0)
    assert names(match(learned(), story.run).to_come) == ["save"]


def test_an_ended_job_has_nothing_to_come() -> None:
    story = begun(READ)
    story.whole(READ)
    assert names(match(learned(), story.run).to_come) == ["sort", "count", "save"]
    story.job_end(0)
    assert names(match(learned(), story.run).to_come) == ["save"]


def test_a_retry_has_the_part_of_its_missing_tasks() -> None:
    story = begun(READ)
    story.whole(READ)
    story.submit(info(0, "map at /x/app.py:1", tasks=1, attempt=1))
    assert match(learned(), story.run).active[0, 1].work_core_s == 5.0  # one of two tasks


def test_the_work_ratio_follows_finished_stages_as_evidence_grows() -> None:
    story = begun(READ, SORT, COUNT)
    assert match(learned(), story.run, {(0, 0): 0.0}).shown == 0
    story.whole(READ)
    first = match(learned(), story.run, {(0, 0): 20.0})
    one = first.work_ratio
    assert one == pytest.approx((5 + 20) / (5 + 10))  # the prior is 5% of 100 core-seconds
    assert first.shown == 1
    story.whole(SORT)
    two = match(learned(), story.run, {(0, 0): 20.0, (1, 0): 40.0}).work_ratio
    assert one < two < 2.0


def test_one_stage_far_off_does_not_carry_the_others_along() -> None:
    story = begun(READ)
    story.whole(READ)
    assert match(learned(), story.run, {(0, 0): 9999.0}).work_ratio == pytest.approx((5 + 40) / (5 + 10))


def test_which_of_many_short_stages_cpu_was_counted_to_does_not_matter() -> None:
    # 400 core-seconds in all then, 600 now
    taught = {(number, 0): 1.0 if number % 2 else 19.0 for number in range(40)}
    seen = {(number, 0): 28.0 if number % 2 else 2.0 for number in range(40)}
    expected = estimate(profile("k", [_record(batches(40).run, taught)]))
    assert match(expected, batches(40).run, seen).work_ratio == pytest.approx((20 + 600) / (20 + 400))


def test_container_cpu_is_not_compared_with_executor_cpu() -> None:
    story = begun(READ)
    story.whole(READ, cpu_s=10.0)
    assert match(learned(), story.run).work_ratio == 1.0
    by_threads = match(learned(container=False), story.run).work_ratio
    assert by_threads == pytest.approx((5 + 20) / (5 + 10))  # 2 tasks of 10 s against 2 of 5 s


# ---------------------------------------------------------------- recorded runs

POOLS = Path(__file__).parents[2] / "data" / "pools"
"""Two recorded runs of a program with a pool of threads."""


def events(name: str) -> list[AnyEvent]:
    lines = gzip.decompress((POOLS / f"{name}.gz").read_bytes()).splitlines()
    return [msgspec.json.decode(line, type=AnyEvent) for line in lines]


@pytest.mark.parametrize(("taught", "seen"), [("first", "second"), ("second", "first")])
def test_what_is_left_of_a_pool_of_threads_is_right(taught: str, seen: str) -> None:
    """Count what is left in tasks: the machine was busy, so the CPU of one and the same stage differs between the runs."""
    profiled = Run()
    for event in events(taught):
        profiled.apply(event)
    expected = estimate(profile("k", [to_record(profiled, facts(name="pool"))]))
    replayed = events(seen)
    whole = sum(isinstance(event, TaskEnd) for event in replayed)
    live, done, last = Run(), 0, None
    for number, event in enumerate(replayed):
        live.apply(event)
        done += isinstance(event, TaskEnd)
        if number % 25:
            continue
        found = match(expected, live)
        left = sum(stage.tasks for stage in found.to_come)
        left += sum(stage.info.tasks - len(stage.done) for stage in live.active_stages())
        assert found.matched_share in (None, pytest.approx(1.0, abs=0.01))
        assert abs(left - (whole - done)) <= 0.03 * whole, (number, left, whole - done)
        assert last is None or last[0] - left <= done - last[1] + 0.01 * whole
        last = left, done
    assert last is not None
