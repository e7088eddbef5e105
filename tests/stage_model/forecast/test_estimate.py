from __future__ import annotations

import pytest
from msgspec import structs

from stage_model.errors import BadInput
from stage_model.forecast.curve import whole
from stage_model.forecast.estimate import estimate
from stage_model.forecast.scaling import Fitted, at_size
from stage_model.history.profile import CoresThere, RunRecord, profile
from tests.fakes.records import run, stage

LAUNCHES = {"a": None, "b": 40.0, "c": 7.0, "d": 6.0}
"""Start of executors in each run. Those of b waited for room in a full cluster."""


def test_numbers_are_medians_and_the_order_is_that_of_the_last_run() -> None:
    runs = [
        run("a", 1, stage("x", work_core_s=10.0), stage("y", parents=("x",)), startup_s=1.0),
        run("b", 2, stage("x", work_core_s=30.0), stage("z", parents=("x",)), startup_s=3.0),
        run("c", 3, stage("x", work_core_s=11.0), stage("y", gap_s=0.5, parents=("x",)), startup_s=2.0),
    ]
    found = estimate(profile("k", runs))
    assert [s.signature for s in found.stages] == ["x", "y"]
    assert [s.parents for s in found.stages] == [(), (0,)]
    assert (found.stages[0].work_core_s, found.startup_s) == (11.0, 2.0)
    assert found.stages[1].gap_s == 0.25  # 0 and 0.5


def test_executors_start_before_the_first_task_and_as_in_the_median_run() -> None:
    runs = [run(name, n, stage("x"), startup_s=2.0, launch_s=launch_s) for n, (name, launch_s) in enumerate(LAUNCHES.items())]
    found = estimate(profile("k", runs))
    assert (found.launch_s, found.first_task_s) == (7.0, 9.0)
    unknown = estimate(profile("k", runs[:1]))
    assert (unknown.launch_s, unknown.first_task_s) == (None, 2.0)
    assert [whole(what, 2).fixed_s - what.stages[0].fixed_s for what in (found, unknown)] == [9.5, 2.5]
    assert whole(found, 2, spent_s=8.0).fixed_s - found.stages[0].fixed_s == 1.5


def test_starts_follow_from_medians_so_that_only_parallel_stages_overlap() -> None:
    stages = (
        stage("x", duration_s=6.0, start_s=2.0),
        stage("l", duration_s=2.0, start_s=8.0, parents=("x",)),
        stage("r", duration_s=3.0, start_s=8.0, parents=("x",)),
        stage("j", gap_s=0.5, start_s=11.5, parents=("l", "r")),
    )
    found = estimate(profile("k", [run("a", 1, *stages)]))
    assert [s.start_s for s in found.stages] == [2.0, 8.0, 8.0, 11.5]


def test_a_stage_that_reads_no_records_expects_none() -> None:
    found = estimate(profile("k", [run("a", 1, stage("x"), stage("y", records=0, input_records=0))]))
    assert [one.records for one in found.stages] == [1000, None]


def test_retries_and_incomplete_runs_do_not_teach() -> None:
    good, bad = stage("x"), stage("x", work_core_s=99.0, teaches=False)
    runs = [run("a", 1, good), run("b", 2, bad), run("c", 3, stage("x", work_core_s=500.0), complete=False)]
    assert estimate(profile("k", runs)).stages[0].work_core_s == 10.0
    assert [estimate(profile("k", some)).grounds.disturbed for some in (runs, runs[1:])] == [0, 1]
    with pytest.raises(BadInput, match="no complete run"):
        estimate(profile("k", runs[2:]))


def test_a_run_of_another_program_with_the_same_name_has_no_say() -> None:
    own = run("b", 2, stage("x", name="x"), used_core_s=12.0, arguments=())
    other = run("a", 1, stage("y", name="y"), stage("z", name="z"), used_core_s=90.0, startup_s=9.0, arguments=())
    found, without = (estimate(profile("k", runs), ()) for runs in ([other, own], [own]))
    assert structs.replace(found, grounds=without.grounds) == without
    assert found.grounds == structs.replace(without.grounds, others=1)
    # its work may come for arguments that no run had
    assert estimate(profile("k", [other, own]), ("new",)).grounds.runs == 2


@pytest.mark.parametrize(("shared_core_s", "others"), [(10.0, 0), (9.0, 1)])
def test_a_quarter_of_the_work_of_either_run_makes_them_runs_of_one_program(shared_core_s: float, others: int) -> None:
    def ran(name: str, when_ms: int, shared: float, *own: str) -> RunRecord:
        return run(name, when_ms, stage("x", name="x", work_core_s=shared), *(stage(one, name=one) for one in own))

    runs = [ran("a", 1, shared_core_s, "p", "q", "r"), ran("b", 2, 1.0, "u", "v", "w")]
    assert estimate(profile("k", runs)).grounds.others == others


def test_container_cpu_counts_where_there_is_some() -> None:
    log = run("log", 9, stage("x", work_core_s=2.0), cpu_source="executor")
    live = run("live", 1, stage("x", work_core_s=10.0))
    both = estimate(profile("k", [log, live]))
    assert (both.stages[0].work_core_s, both.cpu_source) == (10.0, "container")
    only = estimate(profile("k", [log]))
    assert (only.stages[0].work_core_s, only.cpu_source) == (2.0, "executor")


def test_work_beyond_the_run_with_the_least_may_move_to_another_stage() -> None:
    runs = [run("a", 1, stage("x", work_core_s=1.0)), run("b", 2, stage("x", work_core_s=5.0))]
    [found] = estimate(profile("k", runs)).stages
    assert (found.work_core_s, found.moving_core_s) == (3.0, 2.0)
    assert found.times(2.0).moving_core_s == 4.0
    [single] = estimate(profile("k", runs[:1])).stages
    assert single.moving_core_s == 0.0
    # which of two short stages CPU was counted to is chance
    blurred = [run("a", 1, stage("x", work_core_s=0.05)), run("b", 2, stage("x", work_core_s=0.35))]
    assert estimate(profile("k", blurred)).stages[0].moving_core_s == 0.0
    # Work that follows from what each run read does not move, whichever run came last.
    for small, large in ((1.0, 2.0), (10.0, 16.0)):
        ran = [stage("x", work_core_s=small), stage("x", records=2000, input_records=2000, work_core_s=large)]
        for first, last in (ran, ran[::-1]):
            [grown] = estimate(profile("k", [run("a", 1, first), run("b", 2, last)])).stages
            assert grown.moving_core_s == pytest.approx(0.0)


def test_a_stage_of_another_size_has_more_of_all_but_fixed_time() -> None:
    # 4 equal tasks of 2.5 core-seconds on 2 slots and 2 cores take 5 s of 6: one second is fixed
    [found] = estimate(profile("k", [run("a", 1, stage("x", task_cv=0.0, cores_s=12.0))])).stages
    thrice = found.times(3.0)
    assert (thrice.work_core_s, thrice.records) == (30.0, 3000.0)
    assert thrice.fixed_s == pytest.approx(1.0)
    assert thrice.duration_s == pytest.approx(16.0)
    assert found.times(1.0) == found


def test_two_sizes_give_a_line_of_which_a_part_grows() -> None:
    # work = 4 + 0.006 * records: 1000 -> 10, 2000 -> 16; so 3000 -> 22
    runs = [
        run("a", 1, stage("x", work_core_s=10.0)),
        run("b", 2, stage("x", records=2000, input_records=2000, work_core_s=16.0)),
    ]
    [found] = estimate(profile("k", runs)).stages
    assert [found.work_core_s, found.records] == pytest.approx([16.0, 2000.0])
    assert found.times(1.5).work_core_s == pytest.approx(22.0)
    assert found.times(0.5).work_core_s == pytest.approx(10.0)


def test_a_fit_never_falls_with_size_nor_below_zero() -> None:
    assert at_size([10.0, 5.0], [100, 200], 400) == pytest.approx(Fitted(7.5, 0.0))  # a falling line is noise: the mean
    assert at_size([1.0, 100.0], [100, 200], 10).amount == 0.0
    assert at_size([10.0, 12.0], [100, 105], 210) == pytest.approx(
        Fitted(11 * 210 / 102.5, 1.0)
    )  # one size, so in proportion
    # faster than in proportion: 10 at 100 and 1000 at 1000 are on the line 1.1 * size - 100
    fitted = at_size([10.0, 1000.0], [100, 1000], 100)
    assert fitted.amount * (1 + fitted.growth * 9) == pytest.approx(1000.0)
    assert at_size([3.0, 5.0, 4.0], [0, 0, 0], 0) == Fitted(4.0, 1.0)  # sizes unknown


def test_runs_with_the_same_arguments_give_the_order() -> None:
    runs = [run("a", 1, stage("x"), arguments=("3",)), run("b", 2, stage("x"), stage("y"), arguments=("9",))]
    assert len(estimate(profile("k", runs), arguments=("3",)).stages) == 1
    assert len(estimate(profile("k", runs), arguments=("4",)).stages) == 2
    assert len(estimate(profile("k", runs)).stages) == 2


def test_the_total_is_that_of_runs_with_the_same_arguments() -> None:
    short = run("a", 1, stage("x"), arguments=("12",), used_core_s=40.0)
    long = [
        run(name, when, stage("x"), arguments=("24",), used_core_s=used)
        for name, when, used in (("b", 2, 70.0), ("c", 3, 90.0))
    ]
    known = profile("k", [short, *long])
    both, single = estimate(known, ("24",)), estimate(known, ("12",))
    assert (both.used_core_s, both.less_core_s) == (80.0, 10.0)
    assert (single.used_core_s, single.less_core_s) == (40.0, 0.0)
    # these have never run: no total is known of them
    assert estimate(known, ("48",)).used_core_s is None
    # an older record does not tell
    assert estimate(profile("k", [run("a", 1, stage("x"))])).used_core_s is None


def test_the_total_follows_what_the_runs_read() -> None:
    half, whole = stage("x", records=500, input_records=500), stage("x", records=1000, input_records=1000)
    known = profile("k", [run("a", 1, half, used_core_s=40.0), run("b", 2, whole, used_core_s=70.0)])
    assert estimate(known).used_core_s == pytest.approx(70.0)
    # both runs used what follows from what they read
    assert estimate(known).less_core_s == pytest.approx(0.0)


@pytest.mark.parametrize("duration_s", [8.0, 8.5, 10.0])
def test_what_the_parts_of_a_logged_run_do_not_tell_of_its_duration_is_kept(duration_s: float) -> None:
    # 2 s start-up, 5 s of work and one of fixed time, half a second tail: 8.5 s
    logged = run("a", 1, stage("x", task_cv=0.0), duration_s=duration_s, cpu_source="executor")
    found = estimate(profile("k", [logged]))
    assert found.rest_s == pytest.approx(duration_s - 8.5)
    assert whole(found, 2).time_s(2.0) == pytest.approx(duration_s)
    measured = structs.replace(logged, cpu_source="container")
    assert estimate(profile("k", [measured])).rest_s == 0.0


def test_a_logged_run_is_explained_by_the_cores_that_were_there() -> None:
    # 4 tasks of 2.5 core-seconds, from 2 s on
    steps = (CoresThere(since_s=0.0, cores=1.0), CoresThere(since_s=4.0, cores=2.0))
    grown = run("a", 1, stage("x", task_cv=0.0), cores_there=steps, cpu_source="executor")
    [found] = estimate(profile("k", [grown])).stages
    # on one slot from 2 s, on the other from 4 s: the tasks end at 4.5, 6.5, 7 and 9 s
    assert found.fixed_s == 0.0
    [slower] = estimate(profile("k", [structs.replace(grown, stages=(stage("x", task_cv=0.0, duration_s=9.0),))])).stages
    assert slower.fixed_s == pytest.approx(2.0)
