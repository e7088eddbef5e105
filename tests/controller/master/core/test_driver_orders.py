"""Orders to drivers: Spark's own wait for data, and executors that are given tasks only while many wait."""

from __future__ import annotations

import pytest

from controller.wire.driver import ExecutorWish, Locality
from tests.fakes.cluster import FakeCluster, one_stage_run, report, sample

WORKERS = ("w1", "w2", "w3")
DemandAndGrant = tuple[float, float]
RUNS = ((1.0, 1.0),)
STARVES = ((1.0, 0.1),)


@pytest.mark.parametrize(
    ("conf", "locality"),
    [
        # a host with data is worth E = TT * S * K / t = 1 s * 1 slot * 1 host / 2 s
        ({"move": "1s"}, Locality(worth=0.5, wait_ms=1000)),
        ({"wait": "none"}, Locality(worth=0.0, wait_ms=0)),
        ({"wait": "5s"}, Locality(worth=1.0, wait_ms=5000)),
    ],
)
def test_tasks_wait_for_data_as_forecast_or_user_says(cluster: FakeCluster, conf: dict[str, str], locality: Locality) -> None:
    cluster.worker("w1")
    application = cluster.register(conf={f"spark.pace.locality.{key}": value for key, value in conf.items()})
    # four tasks of two seconds have ended
    reply = cluster.driver(application, *one_stage_run(1000)[:6], wanted={"0": ExecutorWish(count=1)})
    assert reply.locality == locality


def test_as_long_as_no_one_knows_the_tasks_spark_decides(cluster: FakeCluster, application_id: str) -> None:
    assert cluster.driver(application_id).locality is None


def starved(cluster: FakeCluster, *of_each: tuple[DemandAndGrant, ...], profiles: tuple[str, ...] = ("0",)) -> dict[str, int]:
    """Return the driver's answer after samples of the executor on each worker, a second apart; as many executors of each
    profile."""
    for name in WORKERS[: len(of_each)]:
        cluster.worker(name)
    wanted = {profile: ExecutorWish(count=len(of_each) // len(profiles)) for profile in profiles}
    application = cluster.registered(wanted=wanted)
    cluster.driver(application.id, wanted=wanted)
    on = {number: executor.record.worker_id for number, executor in application.executors.items()}
    for number, name in on.items():
        timed = enumerate(of_each[WORKERS.index(name)])
        samples = [sample(application.id, number, float(at_s), demand=one[0], grant=one[1]) for at_s, one in timed]
        cluster.worker(name, report(application.id, number), samples=tuple(samples))
    return {on[number]: tasks for number, tasks in cluster.driver(application.id, wanted=wanted).starved.items()}


@pytest.mark.parametrize(
    ("of_each", "least"),
    [
        # two others of a slot end 2 / 0.1 tasks while it ends one; four times as many must wait
        ((STARVES, RUNS, ((0.5, 0.5),)), {"w1": 80}),
        # it has a quarter of what it asks for
        ((((1.0, 0.25),), RUNS), {}),
        # it has more slots than the worker's one core can serve
        ((((8.0, 1.0),), RUNS), {}),
        # it asks for nothing
        ((((0.0, 0.1),), RUNS), {}),
        # between stages it asks for nothing; the next one's first tasks must not go there
        ((STARVES + 60 * ((0.0, 0.1),), RUNS), {"w1": 40}),
        # it gets what it asks for, which counts when it has lasted
        ((STARVES + 9 * ((1.0, 0.5),), RUNS), {"w1": 40}),
        ((STARVES + 10 * ((1.0, 0.5),), RUNS), {}),
        # all are starved
        ((STARVES, STARVES), {}),
        # the other executor has reported nothing yet, so it counts as running
        ((STARVES, ()), {"w1": 40}),
    ],
)
def test_one_at_the_floor_next_to_others_is_given_tasks_only_while_many_wait(
    cluster: FakeCluster, of_each: tuple[tuple[DemandAndGrant, ...], ...], least: dict[str, int]
) -> None:
    assert starved(cluster, *of_each) == least


def test_executors_of_another_resource_profile_take_none_of_its_tasks(cluster: FakeCluster) -> None:
    assert starved(cluster, STARVES, RUNS, profiles=("0", "1")) == {}
