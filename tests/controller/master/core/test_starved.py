"""Executors that are given tasks only while many wait, as the master orders drivers."""

from __future__ import annotations

import pytest

from controller.wire.driver import ExecutorWish
from tests.fakes.cluster import FakeCluster, report, sample

WORKERS = ("w1", "w2", "w3")


Told = tuple[float, float]
"""Demand and grant."""


def told(cluster: FakeCluster, *of_each: tuple[Told, ...], profiles: tuple[str, ...] = ("0",)) -> dict[str, int]:
    """Return the driver's answer after samples of the executor on each worker, a second apart; as many executors of each
    profile."""
    for name in WORKERS[: len(of_each)]:
        cluster.worker(name)
    wanted = {profile: ExecutorWish(count=len(of_each) // len(profiles)) for profile in profiles}
    application_id = cluster.register(wanted=wanted)
    cluster.driver(application_id, wanted=wanted)
    executors = cluster.state.applications[application_id].executors
    for number, executor in executors.items():
        name = executor.record.worker_id
        told = enumerate(of_each[WORKERS.index(name)])
        samples = [sample(application_id, number, float(at_s), demand=one[0], grant=one[1]) for at_s, one in told]
        cluster.worker(name, report(application_id, number), samples=tuple(samples))
    by_worker = {number: executor.record.worker_id for number, executor in executors.items()}
    return {by_worker[name]: tasks for name, tasks in cluster.driver(application_id, wanted=wanted).starved.items()}


RUNS = ((1.0, 1.0),)
STARVES = ((1.0, 0.1),)


def test_one_at_the_floor_beside_others_is_given_tasks_only_while_many_wait(cluster: FakeCluster) -> None:
    # two others of a slot end 2 / 0.1 tasks while it ends one; four times as many must wait
    assert told(cluster, STARVES, RUNS, ((0.5, 0.5),)) == {"w1": 80}


def test_one_that_has_a_quarter_of_what_it_asks_for_is_not_starved(cluster: FakeCluster) -> None:
    assert told(cluster, ((1.0, 0.25),), RUNS) == {}


def test_one_that_has_what_its_worker_has_is_not_starved(cluster: FakeCluster) -> None:
    # it has more slots than the worker's one core can serve
    assert told(cluster, ((8.0, 1.0),), RUNS) == {}


def test_one_that_asks_for_nothing_is_not_starved(cluster: FakeCluster) -> None:
    assert told(cluster, ((0.0, 0.1),), RUNS) == {}


def test_one_that_was_starved_when_it_last_asked_stays_so_while_it_asks_for_nothing(cluster: FakeCluster) -> None:
    # between stages it asks for nothing; the next one's first tasks must not go there
    assert told(cluster, STARVES + 60 * ((0.0, 0.1),), RUNS) == {"w1": 40}


@pytest.mark.parametrize(("seconds", "starved"), [(9, {"w1": 40}), (10, {})])
def test_one_that_gets_what_it_asks_for_is_starved_no_more_when_that_has_lasted(
    cluster: FakeCluster, seconds: int, starved: dict[str, int]
) -> None:
    assert told(cluster, STARVES + seconds * ((1.0, 0.5),), RUNS) == starved


def test_where_all_are_starved_none_is_spared(cluster: FakeCluster) -> None:
    assert told(cluster, STARVES, STARVES) == {}


def test_one_that_has_told_nothing_yet_counts_as_one_that_runs(cluster: FakeCluster) -> None:
    assert told(cluster, STARVES, ()) == {"w1": 40}


def test_executors_of_another_resource_profile_take_none_of_its_tasks(cluster: FakeCluster) -> None:
    assert told(cluster, STARVES, RUNS, profiles=("0", "1")) == {}
