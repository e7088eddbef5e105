"""Messages of drivers: registrations, events in order, levels."""

from __future__ import annotations

import os

import pytest

from controller.master.core.driver_events import AT_A_TIME, parts
from controller.wire.driver import DriverSync, ExecutorWish
from experiments.bench.overhead.made_up import sequenced
from stage_model.errors import BadInput
from stage_model.history.events import ExecutorRemoved, JobStart
from tests.fakes.cluster import FakeCluster, answered, one_stage_run, registration, report


def test_an_executor_lost_by_the_driver_counts_as_gone(cluster: FakeCluster, application_id: str) -> None:
    cluster.worker("w1", report(application_id, "1"))
    cluster.driver(application_id, ExecutorRemoved(executor="1", reason="heartbeat timed out", time_ms=1))
    assert cluster.worker("w1", report(application_id, "1")).desired.stopped == (f"{application_id}/1",)


def test_events_count_once_and_only_without_gaps(cluster: FakeCluster, application_id: str) -> None:
    events = one_stage_run(1000)
    assert cluster.driver(application_id, *events[:2]).acknowledged == 2
    assert cluster.driver(application_id, *events[:2]).acknowledged == 2  # repeated
    assert cluster.driver(application_id, *events[3:4], first=4).acknowledged == 2  # 3 is missing
    assert cluster.driver(application_id, *events[2:4], first=3).acknowledged == 4
    stage = cluster.state.applications[application_id].run.attempts[0, 0]
    assert len(stage.done) == 2


def test_only_agents_with_executors_of_an_application_are_woken_by_its_events(cluster: FakeCluster) -> None:
    for worker in ("w1", "w2", "w3"):
        cluster.worker(worker)
    application_id = cluster.register(wanted={"0": ExecutorWish(count=2)})
    mine = {e.record.worker_id for e in cluster.state.applications[application_id].executors.values()}
    [other] = {"w1", "w2", "w3"} - mine
    before = {worker: cluster.state.lifecycle.version(worker) for worker in ("w1", "w2", "w3")}
    cluster.woken.clear()
    cluster.driver(application_id, *one_stage_run(1000)[:2], wanted={"0": ExecutorWish(count=2)})
    assert cluster.woken == mine
    assert cluster.state.lifecycle.version(other) == before[other]
    for worker in mine:
        assert cluster.worker(worker).desired.version == cluster.state.lifecycle.version(worker) > before[worker]


def test_a_bridge_that_comes_again_keeps_its_application(cluster: FakeCluster, application_id: str) -> None:
    cluster.driver(application_id, *one_stage_run(1000)[:3])
    again = answered(cluster.state.drivers.register(registration(application_id=application_id), cluster.clock))
    assert (again.application_id, again.acknowledged) == (application_id, 3)
    assert len(cluster.state.applications) == 1


def test_a_registration_whose_answer_was_lost_makes_no_second_application(cluster: FakeCluster) -> None:
    first = cluster.register(instance="mine")
    assert cluster.register(instance="mine") == first
    assert cluster.register(instance="mine", uid=os.getuid() + 1) != first, "another user's"
    cluster.state.commands.kill(first, cluster.now_s)
    assert cluster.register(instance="mine") != first, "it has ended"


def test_the_notices_of_an_answer_that_was_lost_come_again(cluster: FakeCluster) -> None:
    asked = registration(instance="mine", conf={"spark.pace.deadline": "1h"})
    first, again = (answered(cluster.state.drivers.register(asked, cluster.clock)) for _ in range(2))
    assert first.notices
    assert (again.application_id, again.notices) == (first.application_id, first.notices)


def test_annotations_of_the_drivers_pod_are_settings(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    annotation = "spark.kubernetes.driver.annotation.sparkpace.io/"
    application = cluster.registered(conf={f"{annotation}deadline": "10min", f"{annotation}priority": "high"})
    assert (application.record.options.deadline_s, application.record.options.priority) == (600.0, 100)
    with pytest.raises(BadInput, match=r"sparkpace\.io/dedline"):
        cluster.register(conf={f"{annotation}dedline": "10s"})


def test_what_a_driver_could_not_tell_for_long_is_taken_in_part_by_part(cluster: FakeCluster, application_id: str) -> None:
    events = [JobStart(job=number, time_ms=number) for number in range(2 * AT_A_TIME + 1)]
    message = DriverSync(instance="driver", wanted={}, events=sequenced(events, 1)[::-1], snapshot=(), next_seq=1)
    each = list(parts(message))
    assert [len(part.events) for part in each] == [AT_A_TIME, AT_A_TIME, 1]
    assert [part.snapshot for part in each] == [(), None, None]
    assert [numbered.seq for part in each for numbered in part.events] == list(range(1, len(events) + 1))
    assert cluster.driver(application_id, *events).acknowledged == len(events)
    assert len(cluster.state.applications[application_id].run.jobs) == len(events)


def test_executors_in_networks_start_when_their_driver_has_reported_its_ports(cluster: FakeCluster) -> None:
    """The master could not say before which packets to let through."""
    cluster.worker("w1", own_networks=True)
    application_id = cluster.register(ports=(), host="172.17.0.1", conf={"spark.pace.network": "closed"})
    assert cluster.worker("w1", own_networks=True).desired.executors == ()
    assert cluster.state.registry.known(application_id).placement.waiting
    cluster.driver(application_id, ports=(40_001, 40_002))
    (spec,) = cluster.worker("w1", own_networks=True).desired.executors
    assert (spec.driver_host, spec.driver_ports, spec.closed) == ("172.17.0.1", (40_001, 40_002), True)
    cluster.restart()
    assert cluster.state.registry.known(application_id).record.registration.ports == (40_001, 40_002)


@pytest.mark.parametrize(("ports", "own_networks"), [(None, True), ((), False)])
def test_no_executor_waits_for_ports_without_need(
    cluster: FakeCluster, ports: tuple[int, ...] | None, own_networks: bool
) -> None:
    cluster.worker("w1", own_networks=own_networks)
    cluster.register(ports=ports)
    (spec,) = cluster.worker("w1", own_networks=own_networks).desired.executors
    assert spec.driver_ports == ()


@pytest.mark.parametrize(("own_networks", "wait_ms"), [(True, 0), (False, 5000)])
def test_tasks_wait_for_none_of_several_addresses_of_a_host(cluster: FakeCluster, own_networks: bool, wait_ms: int) -> None:
    cluster.worker("w1", own_networks=own_networks)
    application_id = cluster.register(conf={"spark.pace.locality.wait": "5s"})
    reply = cluster.driver(application_id)
    assert reply.locality is not None
    assert reply.locality.wait_ms == wait_ms
