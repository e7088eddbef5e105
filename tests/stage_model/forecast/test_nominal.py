"""The work of a stage in this run, by what it and its parents read and write; in records, bytes or tasks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from stage_model.forecast.estimate import ApplicationEstimate, estimate
from stage_model.forecast.match import Matched, match
from stage_model.forecast.overlap import overlapping
from stage_model.history.events import ExecutorAdded, StageInfo
from stage_model.history.profile import RunRecord, profile
from stage_model.history.run_record import to_record
from tests.fakes.records import facts
from tests.fakes.spark_events import Story, info

READ = info(0, "map at /x/app.py:1", tasks=4)
SORT = info(1, "sort at /x/app.py:2", parents=(0,), tasks=4)
SAVE = info(2, "save at /x/app.py:3", parents=(1,), tasks=4)
CHAIN = (READ, SORT, SAVE)
SLOTS = 2
SIZES = ({"records": 100, "written": 50}, {"shuffle": 50, "written": 10}, {"shuffle": 10})
"""Amounts of each task of the chain, stage by stage."""


def begun(*stages: StageInfo, slots: int = SLOTS) -> Story:
    """Begin a job of these stages on an executor with `slots` slots."""
    story = Story()
    story.tell(ExecutorAdded(executor="1", host="h", cores=slots, time_ms=0))
    story.job(0, *stages)
    return story


def part(
    story: Story, stage: StageInfo, tasks: int, *, records: int = 0, shuffle: int = 0, written: int = 0, record_bytes: int = 0
) -> None:
    """Run `tasks` tasks of the stage, each of these sizes and one core-second."""
    for index in range(tasks):
        story.task(stage, index, cpu_s=1.0, records=records, shuffle=shuffle, written=written, record_bytes=record_bytes)
    story.ms += 1000


def whole(story: Story, stage: StageInfo, **sizes: int) -> None:
    story.submit(stage)
    part(story, stage, stage.tasks, **sizes)
    story.complete(stage)


def chain(times: int = 1, record_bytes: int = 0) -> Story:
    """Run a chain: the first stage reads 400 records and writes 200, the second reads these and writes 40, the third reads
    these, each amount `times` over."""
    story = begun(*CHAIN)
    for stage, size in zip(CHAIN, SIZES, strict=True):
        whole(story, stage, record_bytes=record_bytes, **{what: times * amount for what, amount in size.items()})
    return story


def ended(story: Story, name: str = "run") -> RunRecord:
    story.job_end(0)
    story.end()
    return to_record(story.run, facts(id=name, slots=SLOTS))


def learned(*stories: Story) -> ApplicationEstimate:
    return estimate(profile("k", [ended(story, f"run-{number}") for number, story in enumerate(stories)]))


def works(found: Matched) -> list[float]:
    """Return the core-seconds of all stages, those seen first."""
    return [one.work_core_s for one in (*found.seen.values(), *found.to_come)]


def test_a_run_like_the_profiles_has_the_profiles_work_at_every_moment() -> None:
    what, story = learned(chain()), begun(*CHAIN)
    assert works(match(what, story.run)) == [4.0, 4.0, 4.0]
    for stage, sizes in zip(CHAIN, SIZES, strict=True):
        story.submit(stage)
        assert works(match(what, story.run)) == pytest.approx([4.0, 4.0, 4.0])
        part(story, stage, 4, **sizes)
        story.complete(stage)
        assert works(match(what, story.run)) == pytest.approx([4.0, 4.0, 4.0])


def test_input_is_known_from_the_first_task_on_and_all_that_follows_with_it() -> None:
    """The first one of 4 tasks reads 200 records, not 100: what was expected counts as one more task, so the others are taken
    to read 150 each, 650 in all, 1.625 times the profile's. It writes half of what it reads, as in the profile's run: so the
    second stage reads 1.625 times as much, too, and so does the third."""
    what, story = learned(chain()), begun(*CHAIN)
    story.submit(READ)
    part(story, READ, 1, records=200, written=100)
    found = match(what, story.run)
    assert works(found) == pytest.approx([6.5, 6.5, 6.5])
    assert found.active[0, 0].records == pytest.approx(650)


def test_what_the_parents_wrote_counts_and_not_what_they_read() -> None:
    """A filter that keeps three times as many: 600 records where 200 were expected, of the same input."""
    what, story = learned(chain()), begun(*CHAIN)
    whole(story, READ, records=100, written=150)
    story.submit(SORT)
    found = match(what, story.run)
    assert works(found) == pytest.approx([4.0, 12.0, 12.0])
    assert found.active[1, 0].records == pytest.approx(600)


def test_a_stage_whose_first_partitions_are_the_large_ones_writes_no_more() -> None:
    """Its parent wrote 200 records, of which its first task reads 140 and writes 28, as many for each record as in the
    profile's run."""
    what, story = learned(chain()), begun(*CHAIN)
    whole(story, READ, **SIZES[0])
    story.submit(SORT)
    part(story, SORT, 1, shuffle=140, written=28)
    assert works(match(what, story.run)) == pytest.approx([4.0, 4.0, 4.0])


def test_input_that_lies_in_the_same_partitions_as_what_parents_wrote_is_no_more() -> None:
    """A join of 200 records that its parent wrote with 400 of a cached input. Its first task has most of both."""
    join = info(1, "join at /x/app.py:2", parents=(0,), tasks=4)

    def run() -> Story:
        story = begun(READ, join, SAVE)
        whole(story, READ, records=100, written=50)
        story.submit(join)
        return story

    before, story = run(), run()
    part(before, join, 4, records=100, shuffle=50, written=10)
    before.complete(join)
    whole(before, SAVE, shuffle=10)
    part(story, join, 1, records=280, shuffle=140, written=28)
    what = learned(before)
    assert works(match(what, story.run)) == pytest.approx([4.0, 4.0, 4.0])
    filtered = run()
    part(filtered, join, 4, records=100, shuffle=25, written=10)
    assert match(what, filtered.run).active[1, 0].work_core_s == pytest.approx(4 * 500 / 600), "all of its tasks have ended"


def test_a_stage_that_writes_as_much_whatever_its_tasks_read_writes_no_more() -> None:
    """Each of 8 tasks writes 10 records, of the 10 that it reads or of 630. The small ones end first."""
    read, add = info(0, "map at /x/app.py:1", tasks=8), info(1, "add at /x/app.py:2", parents=(0,), tasks=8)
    total = info(2, "save at /x/app.py:3", parents=(1,), tasks=8)

    def run(ended_tasks: int) -> Story:
        story = begun(read, add, total)
        whole(story, read, records=100, written=700 // 8)
        story.submit(add)
        for index in range(ended_tasks):
            story.task(add, index, cpu_s=1.0, shuffle=630 if index == 7 else 10, written=10)
        return story

    before = run(8)
    before.complete(add)
    whole(before, total, shuffle=10)
    assert works(match(learned(before), run(4).run)) == pytest.approx([8.0, 8.0, 8.0])


def test_a_stage_that_reads_more_than_its_parents_are_known_to_write_is_taken_by_its_tasks() -> None:
    """Two of its four tasks have read three times as much as its parent wrote, and written 60 records each."""
    what, story = learned(chain()), begun(*CHAIN)
    whole(story, READ, **SIZES[0])
    story.submit(SORT)
    part(story, SORT, 2, shuffle=300, written=60)
    assert works(match(what, story.run))[-1] == pytest.approx(4 * (120 + 2 * 130 / 3) / 40)


def test_several_parents_count_by_what_they_wrote() -> None:
    """The join reads 400 records, 300 of them from one side. The other one is ten times as large: 300 + 1000 of 400."""
    other, join = info(1, "map at /x/app.py:5", tasks=4), info(2, "join at /x/app.py:6", parents=(0, 1), tasks=4)

    def run(small: int) -> Story:
        story = begun(READ, other, join)
        whole(story, READ, records=100, written=75)
        whole(story, other, records=small, written=small)
        story.submit(join)
        return story

    before = run(25)
    part(before, join, 4, shuffle=100)
    before.complete(join)
    assert works(match(learned(before), run(250).run)) == pytest.approx([4.0, 40.0, 4 * 1300 / 400])


def test_other_input_tells_of_input_that_nothing_has_been_read_of() -> None:
    """A stage waits for one of another job that writes a shuffle it does not read."""
    later = info(1, "count at /x/app.py:9", tasks=4)

    def run(times: int) -> Story:
        story = begun(READ)
        whole(story, READ, records=100 * times, written=50)
        story.job_end(0)
        story.job(1, later)
        story.submit(later)
        return story

    before = run(1)
    part(before, later, 4, records=10)
    before.complete(later)
    before.job_end(1)
    assert works(match(learned(before), run(3).run)) == pytest.approx([12.0, 12.0])


def test_records_that_are_batches_of_python_objects_count_in_bytes() -> None:
    """Twice the data in as many batches."""
    batched = [structs.replace(stage, scopes=("PythonRDD",)) for stage in CHAIN]

    def run(record_bytes: int) -> Story:
        story = begun(*batched)
        whole(story, batched[0], records=100, written=50, record_bytes=record_bytes)
        story.submit(batched[1])
        return story

    before = run(10)
    for stage in batched[1:]:
        if stage is not batched[1]:
            before.submit(stage)
        part(before, stage, 4, shuffle=50, written=50, record_bytes=10)
        before.complete(stage)
    assert works(match(learned(before), run(20).run)) == pytest.approx([8.0, 8.0, 8.0])


@pytest.mark.parametrize(("slots", "expected"), [(SLOTS, 10.0), (8, 4.0)])
def test_where_nothing_is_read_the_tasks_tell_unless_there_are_other_slots(slots: int, expected: float) -> None:
    """Ten tasks instead of four on as many slots are more to do; on more slots Spark may have cut the same into more."""
    before = begun(READ)
    whole(before, READ)
    story = begun(READ, slots=slots)
    story.submit(structs.replace(READ, tasks=10))
    [work] = works(match(learned(before), story.run))
    assert work == pytest.approx(expected)


def test_stages_one_after_the_other_stay_so_whatever_their_size() -> None:
    """The input is doubled: all three take longer, and none of those to come is taken to run alongside another."""
    what, story = learned(chain()), begun(*CHAIN)
    whole(story, READ, records=200, written=100)
    assert [len(group) for group in overlapping(match(what, story.run).to_come)] == [1, 1]


def test_what_a_broken_driver_counts_below_0_is_0() -> None:
    story = begun(*CHAIN)
    whole(story, READ, records=-100, written=-50)
    assert works(match(learned(chain()), story.run)) == [0.0, 0.0, 0.0]


def test_two_sizes_tell_how_much_of_the_work_grows() -> None:
    """400 records took 4 core-seconds, 800 took 6: 2 + 0.005 a record. So 1600 take 10."""
    small, large = chain(), begun(*CHAIN)
    for stage in CHAIN:
        large.submit(stage)
        for index in range(4):
            large.task(stage, index, cpu_s=1.5, run_ms=1500, records=200)
        large.ms += 1500
        large.complete(stage)
    what, story = learned(small, large), begun(*CHAIN)
    whole(story, READ, records=400)
    assert works(match(what, story.run))[0] == pytest.approx(10.0)


def test_where_a_profile_does_not_tell_what_was_written_what_follows_is_as_it_was() -> None:
    record = ended(chain())
    old = structs.replace(record, stages=tuple(structs.replace(stage, written_records=0) for stage in record.stages))
    story = begun(*CHAIN)
    whole(story, READ, records=300, written=150)
    story.submit(SORT)
    assert works(match(estimate(profile("k", [old])), story.run)) == pytest.approx([12.0, 4.0, 4.0])


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4), st.integers(1, 50))
def test_a_stage_that_has_ended_has_what_it_read_whatever_its_tasks(reads: Sequence[int], times: int) -> None:
    story = begun(*CHAIN)
    story.submit(READ)
    for index, records in enumerate(reads):
        story.task(READ, index, cpu_s=1.0, run_ms=1000, records=records, written=times)
    story.ms += 1000
    story.complete(READ)
    first, second, third = works(match(learned(chain()), story.run))
    assert first == pytest.approx(4 * sum(reads) / 400)
    assert [second, third] == pytest.approx([4 * 4 * times / 200] * 2)
