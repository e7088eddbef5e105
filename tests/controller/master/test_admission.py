"""Refusals: a deadline that cannot be kept, by itself or because of promises; a directory that no container can show; and no
refusal of applications that are only watched."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from controller.wire.command import Change
from stage_model.errors import BadInput, InfeasibleDeadline
from tests.fakes.cluster import FakeCluster, one_stage_run, registration, report

T = TypeVar("T")


@pytest.mark.parametrize("path", ["/", "/etc", "/home/me/a:b,c", "//home"])
def test_a_directory_of_submission_that_no_container_can_show_is_refused_at_once(cluster: FakeCluster, path: str) -> None:
    cluster.worker("w1", runtime="docker")
    for asked in (lambda: cluster.register(working_dir=path), lambda: cluster.plan(working_dir=path)):
        with pytest.raises(BadInput, match=f"'{path}'"):
            asked()
    assert not cluster.state.applications
    assert cluster.register(working_dir="/home/me")
    cluster.worker("w2", runtime="process")
    assert cluster.register(working_dir=path, instance="second"), "an executor may run as a process, which sees all"


def test_the_second_run_is_planned_from_the_first_and_an_impossible_deadline_refused(cluster: FakeCluster) -> None:
    cluster.finished_run()
    with pytest.raises(InfeasibleDeadline, match=r" 11s.* 12s"):
        cluster.register(conf={"spark.pace.deadline": "5s"}, instance="second")
    assert len(cluster.state.applications) == 1
    cluster.register(conf={"spark.pace.deadline": "5s", "spark.pace.force": "true"}, instance="third")
    admitted = cluster.register(conf={"spark.pace.deadline": "20s"}, instance="fourth", age_s=0.0)
    cluster.driver(admitted, *one_stage_run(1000)[:2])
    plans = {p.application_id: p for p in cluster.worker("w1", report(admitted, "1")).desired.applications}
    [stage] = plans[admitted].stages
    assert stage.work_core_s == pytest.approx(8.0)


class TestPromises:
    """The profile of `finished_run`: 8 core-seconds after a second of start-up, on one core."""

    def test_a_deadline_must_fit_next_to_promises_of_the_same_or_a_higher_priority(self, cluster: FakeCluster) -> None:
        cluster.finished_run()
        cluster.register(conf={"spark.pace.deadline": "14s"}, instance="first")
        with pytest.raises(InfeasibleDeadline, match=r" 1 promised .* (19|20)s"):
            cluster.register(conf={"spark.pace.deadline": "15s"}, instance="second")
        assert cluster.plan(profile="app@app.py", deadline_s=15.0).feasible is False
        assert cluster.plan(profile="app@app.py", deadline_s=15.0, priority=100).feasible
        assert cluster.register(conf={"spark.pace.deadline": "25s"}, instance="third")
        assert cluster.register(conf={"spark.pace.deadline": "15s", "spark.pace.priority": "high"}, instance="fourth")
        forced = {"spark.pace.deadline": "15s", "spark.pace.force": "true"}
        assert cluster.register(conf=forced, instance="fifth")

    def test_a_late_one_of_a_higher_priority_takes_all_until_it_ends(self, cluster: FakeCluster) -> None:
        cluster.finished_run()
        late = {"spark.pace.deadline": "3s", "spark.pace.force": "true", "spark.pace.priority": "high"}
        cluster.register(conf=late, instance="late")
        cluster.now_s += 5
        below = cluster.plan(profile="app@app.py", deadline_s=12.0)
        equal = cluster.plan(profile="app@app.py", deadline_s=12.0, priority=100)
        assert (below.feasible, equal.feasible) == (False, True)


def test_agents_are_answered_while_a_profile_is_read_and_a_deadline_judged(cluster: FakeCluster) -> None:
    cluster.finished_run()

    async def scene() -> None:
        asked, go_on = asyncio.Semaphore(0), asyncio.Semaphore(0)

        async def off_loop(work: Callable[[], T]) -> T:
            asked.release()
            await go_on.acquire()
            return work()

        second = registration(conf={"spark.pace.deadline": "14s"}, instance="second")
        registering = asyncio.create_task(cluster.state.drivers.register(second, cluster.clock, off_loop))
        for _ in ("profile", "deadline"):
            await asked.acquire()
            assert not cluster.worker("w1").desired.executors
            go_on.release()
        registered = await registering
        assert [spec.application_id for spec in cluster.worker("w1").desired.executors] == [registered.application_id]

    asyncio.run(scene())


def test_two_deadlines_that_are_judged_at_once_are_judged_next_to_each_other(cluster: FakeCluster) -> None:
    """8 core-seconds each after a second, on one core: either of them can be done in 15 s, not both."""
    cluster.finished_run()
    lax = {"spark.pace.deadline": "100s"}
    names = [cluster.register(conf=lax, instance=name) for name in ("first", "second")]

    async def slowly(work: Callable[[], T]) -> T:
        for _ in range(10):  # turns, in which the other one could come in between
            await asyncio.sleep(0)
        return work()

    async def both() -> list[object]:
        change = cluster.state.commands.change
        asked = [change(name, Change(deadline_s=15.0), cluster.clock, slowly) for name in names]
        return await asyncio.gather(*asked, return_exceptions=True)

    changed, refused = asyncio.run(both())
    assert changed is None
    assert isinstance(refused, InfeasibleDeadline)
    assert "1 promised" in str(refused)


HURRY = {"spark.pace.deadline": "6s"}
OBSERVE = {"spark.pace.observe": "true"}


def test_no_deadline_refuses_a_watched_application(cluster: FakeCluster) -> None:
    cluster.finished_run()  # which teaches 8 s of work
    with pytest.raises(InfeasibleDeadline):
        cluster.register(conf=HURRY)
    options = cluster.registered(conf=HURRY | OBSERVE).options
    assert (options.observe, options.deadline_s) == (True, 6.0)


def test_where_all_applications_are_watched_none_is_paced_or_refused(cluster: FakeCluster) -> None:
    cluster.finished_run()
    cluster.state.admission.core.observe = True
    assert cluster.registered(conf=HURRY | {"spark.pace.observe": "false"}).options.observe
    # a submission goes on, and a question is answered
    assert cluster.plan(profile="app@app.py", deadline_s=6.0, submits="app").feasible is None
    assert cluster.plan(profile="app@app.py", deadline_s=6.0).feasible is False


@pytest.mark.parametrize("watched", [True, False])
def test_agents_and_the_record_know_whether_an_application_is_only_watched(cluster: FakeCluster, watched: bool) -> None:
    conf = OBSERVE if watched else {}
    assert cluster.summary(cluster.finished_run(conf=conf))["observed"] is watched
    application_id = cluster.register(conf=conf)
    for _ in range(2):
        [spec] = cluster.worker("w1").desired.executors
        assert (spec.watched, cluster.state.applications[application_id].options.observe) == (watched, watched)
        cluster.restart()
