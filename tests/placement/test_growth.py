"""Worker types in a queue without doubles, and how many workers there should be."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from placement.growth import START_S, Action, EndWorker, Growth, Limits, StartWorker, WorkerType, ideal_count, rounded
from placement.resources import ResourceSet
from tests.fakes.refusals import assert_names

POD1, POD2, POD3 = WorkerType(1, 512), WorkerType(2, 512), WorkerType(2, 1024)


def test_a_type_waits_only_once() -> None:
    growth = Growth(Limits())
    for kind in (POD2, POD2, POD3):
        growth.want(kind, 0.0)
    assert growth.queue == [POD2, POD3]


def test_the_documents_example_ends_with_two_of_pod2_and_one_of_pod3() -> None:
    """Tables 4 and 5 and figure 7 of document 000: four Pod1; two Task2 and one Task3 fit no Pod1. Each worker runs one."""
    growth, waiting = Growth(Limits()), [POD2, POD2, POD3]
    for round_s in (0.0, 1.0):
        for kind in waiting:
            assert not POD1.holds(kind)
            growth.want(kind, round_s)
        # each new node joins and takes the task it was started for; it stays taken, so others need their own
        for new in step(growth, round_s, *growth.started, others=4):
            assert isinstance(new, StartWorker)
            waiting.remove(new.kind)
        step(growth, round_s, *growth.started, others=4)
    assert not waiting
    assert sorted((one.kind for one in growth.started.values()), key=str) == sorted([POD2, POD2, POD3], key=str)


def test_a_request_becomes_a_type_rounded_up() -> None:
    assert rounded(1.01, 900) == WorkerType(1.05, 1024)
    assert rounded(0.1 + 0.2, 256) == WorkerType(0.3, 256)
    kind = rounded(1, 100, ResourceSet.of(gpu=1), (("zone", "a"), ("disk", "ssd")))
    assert str(kind) == "1 cores, 256 MiB, gpu=1, disk=ssd,zone=a"


def test_a_type_holds_needs_up_to_its_own() -> None:
    large = WorkerType(2, 1024, ResourceSet.of(gpu=1), (("zone", "a"),))
    assert large.holds(POD2)
    assert not POD2.holds(large)
    assert not large.holds(WorkerType(1, 512, labels=(("zone", "b"),)))


def test_the_ideal_count_is_the_larger_of_the_two() -> None:
    # 3 in use at 0.8 need 3.75; 10 cores on workers of 4 need 2.5
    assert ideal_count(3, 0.8, 10, 4) == 4
    assert ideal_count(1, 0.8, 10, 4) == 3
    assert ideal_count(4, 0.8, 0, 4) == 5  # 4 / 0.8 is 5, not a little more


# ---------------------------------------------------------------- over time


def step(growth: Growth, now_s: float, *busy: str, idle: tuple[str, ...] = (), others: int = 1) -> list[Action]:
    """Step with one worker in use that growth did not start, and demand for one core."""
    present = dict.fromkeys(busy, True) | dict.fromkeys(idle, False)
    return growth.step(now_s, present, others, in_use=others + len(busy), demanded_cores=1.0)


def test_an_infeasible_request_starts_one_worker_however_often_it_is_asked() -> None:
    growth = Growth(Limits())
    growth.want(POD2, 0.0)
    growth.want(POD2, 0.0)
    assert step(growth, 0.0) == [StartWorker("grown-1", POD2)]
    growth.want(POD2, 1.0)  # still infeasible, as the worker has not joined
    assert step(growth, 1.0) == []
    growth.want(POD3, 0.0)
    assert step(growth, 2.0) == [StartWorker("grown-2", POD3)]


def test_a_larger_worker_on_its_way_will_do() -> None:
    growth = Growth(Limits())
    growth.want(POD3, 0.0)
    step(growth, 0.0)
    growth.want(POD2, 0.0)
    assert step(growth, 1.0) == []


def test_a_worker_that_joined_and_was_taken_does_not_stand_in_the_way_of_the_next() -> None:
    growth = Growth(Limits())
    growth.want(POD2, 0.0)
    step(growth, 0.0)
    step(growth, 5.0, "grown-1")
    growth.want(POD2, 0.0)
    assert step(growth, 6.0, "grown-1") == [StartWorker("grown-2", POD2)]


def test_a_type_has_a_core_at_least_and_at_most_the_cores_that_may_be_started() -> None:
    growth = Growth(Limits(cores=4))
    assert [growth.sized(WorkerType(cores, 512)).cores for cores in (0.1, 2, 9)] == [1.0, 2, 4]
    assert Growth(Limits(cores=0.5)).sized(POD2).cores == 0.5


def test_what_may_not_be_started_is_refused_with_the_reason() -> None:
    growth = Growth(Limits(workers=2, cores=4, memory_mb=2048, pieces=ResourceSet.of(gpu=1)))
    assert growth.limits.refuses(POD3) == ""
    for much in (WorkerType(5, 512), WorkerType(1, 512, ResourceSet.of(fpga=1)), WorkerType(1, 512, ResourceSet.of(gpu=2))):
        assert_names(growth.limits.refuses(much), much, "4 cores, 2048 MiB, gpu=1")
    assert "no resources" in Limits(pieces=ResourceSet()).refuses(WorkerType(1, 512, ResourceSet.of(gpu=1)))
    assert "no workers" in Limits(workers=0).refuses(POD1)
    growth.want(WorkerType(5, 512), 0.0)
    assert step(growth, 0.0) == []


def test_what_could_not_be_started_is_tried_again_after_a_while() -> None:
    growth = Growth(Limits(retry_s=30))
    growth.want(POD2, 0.0)
    step(growth, 0.0)
    assert growth.failed("grown-1", POD2, 1.0) == [EndWorker("grown-1", "it could not be started")]
    growth.forget("grown-1")
    growth.want(POD2, 30.0)
    assert step(growth, 30.0) == []
    growth.want(POD2, 31.0)
    assert step(growth, 31.0) == [StartWorker("grown-2", POD2)]


def test_limits_hold_over_all_started_workers() -> None:
    growth = Growth(Limits(workers=5, cores=3))
    for kind in (POD2, POD1, WorkerType(0.5, 256)):
        growth.want(kind, 0.0)
    assert [a.kind for a in step(growth, 0.0) if isinstance(a, StartWorker)] == [POD2, POD1]
    assert list(growth.queue) == [WorkerType(0.5, 256)]
    growth.forget("grown-1")
    growth.want(WorkerType(0.5, 256), 1.0)
    assert step(growth, 1.0, "grown-2") == [StartWorker("grown-3", WorkerType(0.5, 256))]


def test_pieces_count_over_all_started_workers() -> None:
    one = WorkerType(1, 512, ResourceSet.of(gpu=1))
    growth = Growth(Limits(pieces=ResourceSet.of(gpu=1)))
    growth.want(one, 0.0)
    step(growth, 0.0)
    step(growth, 1.0, "grown-1")
    growth.want(replace(one, memory_mb=1024), 2.0)
    assert step(growth, 2.0, "grown-1") == []


def test_a_type_that_is_no_longer_wanted_is_not_started_when_there_is_room() -> None:
    growth = Growth(Limits(workers=1))
    growth.want(POD2, 0.0)
    growth.want(POD3, 0.0)
    step(growth, 0.0)
    growth.forget("grown-1")
    assert step(growth, 1.0) == []


def test_a_worker_that_never_joins_is_ended() -> None:
    growth = Growth(Limits(join_s=60))
    growth.want(POD2, 0.0)
    step(growth, 0.0)
    assert step(growth, 60.0) == []
    assert step(growth, 61.0) == [EndWorker("grown-1", "it has not joined within 60 s")]
    assert step(growth, 62.0) == []
    growth.forget("grown-1")
    growth.want(POD2, 0.0)
    assert step(growth, 63.0) == [StartWorker("grown-2", POD2)]


def test_a_worker_that_joined_and_no_longer_reports_is_ended_and_replaced() -> None:
    growth = Growth(Limits(workers=1, join_s=60))
    growth.want(POD2, 0.0)
    step(growth, 0.0)
    step(growth, 10.0, "grown-1")
    assert step(growth, 70.0) == []
    assert step(growth, 71.0) == [EndWorker("grown-1", "it was not seen within 60 s")]


def test_a_worker_that_was_not_ended_is_ended_again() -> None:
    growth = Growth(Limits(join_s=60, retry_s=30))
    growth.want(POD2, 0.0)
    step(growth, 0.0)
    assert len(step(growth, 61.0)) == 1
    assert step(growth, 91.0) == []
    assert step(growth, 92.0) == [EndWorker("grown-1", "it was not ended when it was ordered to go")]
    assert growth.end_all("down", 93.0) == [EndWorker("grown-1", "down")]


def test_idle_workers_go_back_after_a_time() -> None:
    growth = Growth(Limits(keep_s=60))
    growth.want(POD2, 0.0)
    step(growth, 0.0)
    step(growth, 10.0, "grown-1")
    assert step(growth, 20.0, idle=("grown-1",)) == []
    assert step(growth, 79.0, idle=("grown-1",)) == []
    step(growth, 79.5, "grown-1")  # work came, so the time begins again
    assert step(growth, 81.0, idle=("grown-1",)) == []
    assert step(growth, 141.0, idle=("grown-1",)) == [EndWorker("grown-1", "it had no work for 60 s")]


def test_horizontal_growth_fills_up_to_the_ideal_count_and_keeps_it() -> None:
    growth = Growth(Limits(keep_s=60), usual=POD1, utilisation=0.5)
    # one in use at a target of 0.5: two workers
    assert step(growth, 0.0) == [StartWorker("grown-1", POD1)]
    assert step(growth, 1.0) == []
    assert step(growth, 100.0, idle=("grown-1",)) == []
    assert step(growth, 200.0, idle=("grown-1",)) == []  # without work, but N is 2
    assert growth.step(300.0, {"grown-1": False}, 1, 0, 0.0) == [EndWorker("grown-1", "it had no work for 60 s")]


def test_workers_that_vertical_growth_starts_count_for_horizontal_growth() -> None:
    growth = Growth(Limits(workers=9), usual=POD1, utilisation=0.5)
    growth.want(POD3, 0.0)
    # three in use at a target of 0.5: six workers, of which three are there
    assert step(growth, 0.0, others=3) == [
        StartWorker("grown-1", POD3),
        StartWorker("grown-2", POD1),
        StartWorker("grown-3", POD1),
    ]


def test_workers_of_an_earlier_life_are_adopted_and_names_stay_unique() -> None:
    growth = Growth(Limits())
    growth.adopt("grown-7", POD2, 0.0)
    growth.want(POD3, 0.0)
    assert step(growth, 1.0, "grown-7") == [StartWorker("grown-8", POD3)]


@given(st.integers(0, 50), st.floats(0.1, 1), st.floats(0, 500), st.floats(0.5, 64))
def test_the_ideal_count_covers_use_and_demand(in_use: int, f: float, cores: float, each: float) -> None:
    count = ideal_count(in_use, f, cores, each)
    assert count * f >= in_use - 1e-6
    assert count * each >= cores - 1e-6
    assert count <= max(in_use / f + 1, cores / each + 1)


def test_several_further_workers_are_started_one_at_a_time_and_those_on_their_way_count() -> None:
    growth = Growth(Limits())
    for now_s, started in ((0.0, "grown-1"), (1.0, "grown-2")):
        growth.want(POD2, now_s, 2)
        assert step(growth, now_s) == [StartWorker(started, POD2)]
    assert growth.on_the_way(POD1) == [POD2, POD2]
    growth.want(POD2, 2.0, 2)
    assert step(growth, 2.0, "grown-1") == []
    assert growth.on_the_way(POD2) == [POD2]


def test_there_is_room_for_as_many_as_all_limits_hold() -> None:
    assert Growth(Limits(workers=3)).room_for(POD1) == 3
    growth = Growth(Limits(workers=9, cores=5))
    growth.want(POD2, 0.0)
    step(growth, 0.0)
    assert growth.room_for(POD1) == 3
    assert Growth(Limits(workers=9, memory_mb=1000)).room_for(POD3) == 0


def test_a_further_worker_is_a_usual_one_where_that_would_do() -> None:
    def needed(cores: float) -> WorkerType:
        return WorkerType(cores, 512 * round(cores))

    assert Growth(Limits(), usual=WorkerType(2, 1024)).kind_for(needed, 4.0) == WorkerType(2, 1024)
    # an executor on two cores needs more memory than this one has
    assert Growth(Limits(), usual=POD2).kind_for(needed, 4.0) == WorkerType(4, 2048)
    assert Growth(Limits()).kind_for(needed, 0.6) == WorkerType(1, 512)


def test_the_time_that_a_worker_takes_to_start_is_that_of_the_last_one_of_this_life() -> None:
    growth = Growth(Limits())
    growth.adopt("grown-1", POD2, 0.0)
    step(growth, 1.0, "grown-1")
    assert growth.start_s == START_S
    growth.want(POD3, 1.0)
    step(growth, 1.0, "grown-1")
    step(growth, 9.0, "grown-1", "grown-2")
    step(growth, 20.0, "grown-1", "grown-2")
    assert growth.start_s == 8.0
