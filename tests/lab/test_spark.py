"""A real Spark job with a deadline over two hosts, whose answer stays the same whatever happens to one of the hosts: its
cable is cut, its power is off, its clock is wrong, its release is another one, or it has the master.

A start of Spark takes minutes there, so things happen to one job after the other: first what may cost nothing, then, to
another job, what costs executors. Each test has a round of the job and compares its answer; the last one ends the job.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local_cluster import eventually
from tests.lab.machines import MACHINES, THIRD
from tests.lab.spark import JOB_S, SHARE, STARTED, WORKERS, Cluster, Ended, Job, right_answers, spark_cluster

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FIRST, SECOND = MACHINES
OTHER = "lab-c"
"""The worker that things happen to; the driver runs on the other one."""


@dataclass(frozen=True, slots=True)
class Control:
    """The run without a fault, whose answer all others must have, and the quotas that it was seen with."""

    deadline_s: float
    ended: Ended
    executors: dict[str, dict[str, int]]
    quotas: dict[str, str]


@pytest.fixture(scope="module")
def cluster(project: Path) -> Iterator[Cluster]:
    with spark_cluster() as made:
        yield made


@pytest.fixture(scope="module")
def control(cluster: Cluster) -> Control:
    """Run the job twice: the first run, without a deadline, leaves the profile by which all others are paced."""
    learned = cluster.submit().finish()
    deadline_s = round(learned.summary["end_s"] / SHARE)
    job = cluster.submit("--deadline", f"{deadline_s}s", held=True)
    job.await_tasks()
    executors = {worker: job.executors(worker) for worker in WORKERS}
    quotas = {worker: job.quota(worker) for worker in WORKERS}
    ended = job.finish()
    assert learned.answers == ended.answers
    return Control(deadline_s, ended, executors, quotas)


def begin(cluster: Cluster, control: Control) -> Job:
    """Start a job with a deadline; return it once it has finished tasks on both hosts. It waits after its first round."""
    cluster.await_reports()
    made = cluster.submit("--deadline", f"{control.deadline_s}s", held=True)
    made.await_tasks()
    return made


@pytest.fixture(scope="module")
def lasting(cluster: Cluster, control: Control) -> Job:
    """Provide a job that is to lose nothing."""
    return begin(cluster, control)


@pytest.fixture(scope="module")
def losing(cluster: Cluster, control: Control) -> Job:
    """Provide a job that is to lose executors."""
    return begin(cluster, control)


def assert_same(job: Job, number: int, control: Control) -> None:
    """Check the answer of a round."""
    assert job.answer(number) == control.ended.answers[number]


def assert_ended_same(ended: Ended, control: Control) -> None:
    """Check that the job has ended as without a fault."""
    assert ended.answers == control.ended.answers
    assert ended.summary["deadline_s"] == control.deadline_s
    assert ended.summary["violated"] is False
    assert ended.summary["end_reason"] == ""


def assert_nothing_lost(ended: Ended, control: Control) -> None:
    assert_ended_same(ended, control)
    assert (ended.summary["executors"], ended.summary["executors_lost"]) == (2, 0)
    assert "is given up" not in ended.said


def heal(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))
    THIRD.heal()


def test_a_job_is_paced_over_both_hosts(control: Control) -> None:
    assert control.ended.answers == right_answers()
    assert sorted(control.ended.summary["workers"]) == sorted(WORKERS)
    assert all(len(there) == 1 for there in control.executors.values())
    for worker, quota in control.quotas.items():
        most, period = map(int, quota.split())
        assert most <= 0.7 * period, worker
    assert_nothing_lost(control.ended, control)


@pytest.mark.parametrize("seconds", [5.0, 25.0])
def test_a_short_cut_costs_nothing(lasting: Job, control: Control, seconds: float) -> None:
    before, number = lasting.all_executors(), lasting.go_on()
    THIRD.cut()
    back_s = time.monotonic() + seconds
    if seconds > 20.0:
        said = eventually(lambda: lasting.cluster.silence(OTHER), "the silence", JOB_S)
        assert f"worker {OTHER} has not reported for" in said
    heal(back_s)
    eventually(lambda: lasting.cluster.reports(OTHER), "a report", JOB_S)
    assert_same(lasting, number, control)
    assert lasting.all_executors() == before


def test_wrong_clocks_change_neither_answer_nor_deadline(lasting: Job, control: Control) -> None:
    """One host is ten minutes ahead, then ten behind; then the driver's host is ten behind, too. That one is not set forward:
    Spark itself measures the silence of executors by its clock."""
    before, number = lasting.all_executors(), lasting.go_on()
    try:
        for machine, worker, minutes in ((THIRD, OTHER, 10), (THIRD, OTHER, -20), (SECOND, "lab-b", -10)):
            machine.out(f"date -s '{minutes:+d} minutes'")
            lasting.cluster.restart_agent(worker)  # its next call opens a connection, for which a certificate is shown
            eventually(partial(lasting.cluster.reports, worker), "a report", JOB_S)
            assert eventually(lasting.forecast_end_s, "a forecast", JOB_S) <= control.deadline_s
        assert_same(lasting, number, control)
        assert lasting.all_executors() == before
    finally:
        THIRD.out(f"date -s @{time.time():.0f}")


def test_the_job_goes_on_while_the_host_of_the_master_is_off(lasting: Job, control: Control, record_property: Any) -> None:
    before, began_s = lasting.all_executors(), time.monotonic()
    FIRST.power_off()
    try:
        number = lasting.go_on()
        assert_same(lasting, number, control)
    finally:
        FIRST.power_on()
    lasting.cluster.await_master()
    lasting.cluster.await_reports()
    record_property("workers report again after", f"{time.monotonic() - began_s:.0f} s")
    state = lasting.cluster.applications()[lasting.application]["state"]
    assert state == "running"
    assert lasting.all_executors() == before


def test_a_host_with_another_release_of_the_same_wire_version_serves(lasting: Job, control: Control) -> None:
    before, metadata = lasting.all_executors(), "/opt/sparkpace/sparkpace-*.dist-info/METADATA"
    THIRD.out(f"sed -i.kept 's/^Version: .*/Version: 99.0.0/' {metadata}")
    try:
        assert "99.0.0" in THIRD.out("sparkpace --version")
        lasting.cluster.restart_agent(OTHER)
        lasting.cluster.await_reports()
        assert_same(lasting, lasting.go_on(), control)
        assert lasting.all_executors() == before
    finally:
        THIRD.out(f"for file in {metadata}; do mv $file.kept $file; done")
        lasting.cluster.restart_agent(OTHER)


def test_the_job_to_which_all_this_has_happened_ends_without_a_loss(lasting: Job, control: Control) -> None:
    ended = lasting.finish()
    SECOND.out(f"date -s @{time.time():.0f}")  # no driver runs there now
    assert_nothing_lost(ended, control)
    assert f"worker {OTHER} reports again" in ended.said


def await_given_up(job: Job, executor: str, record_property: Any, began_s: float) -> None:
    """Wait until the driver has given an executor of the other worker up."""
    sentence = f"executor {executor} is given up: worker {OTHER} has not reported for"
    eventually(lambda: sentence in job.said(), "its loss", JOB_S)
    record_property("given up after", f"{time.monotonic() - began_s:.0f} s")
    assert "it is lost" in job.cluster.silence(OTHER)


def await_another(job: Job, given_up: str, record_property: Any, began_s: float) -> str:
    """Wait until the other worker has another executor and only that; return its id."""

    def look() -> str | None:
        there = set(job.executors(OTHER))
        return (
            there.pop() if len(there) == 1 and given_up not in there and there <= job.saying(OTHER, STARTED).keys() else None
        )

    another = eventually(look, "another executor", JOB_S)
    record_property("another executor after", f"{time.monotonic() - began_s:.0f} s")
    return another


def assert_works(job: Job, another: str, control: Control) -> None:
    """Check that an executor that came later has a part in a round."""
    assert_same(job, job.go_on(), control)
    assert another in job.tasks(OTHER)


def test_after_a_cut_of_two_minutes_executors_are_given_up_and_replaced(
    losing: Job, control: Control, record_property: Any
) -> None:
    (given_up,), number, began_s = losing.executors(OTHER), losing.go_on(), time.monotonic()
    THIRD.cut()
    back_s = time.monotonic() + 120.0
    await_given_up(losing, given_up, record_property, began_s)
    assert_same(losing, number, control)
    heal(back_s)
    assert_works(losing, await_another(losing, given_up, record_property, began_s), control)


def test_a_host_whose_power_is_back_serves_the_job_again_without_help(
    losing: Job, control: Control, record_property: Any
) -> None:
    (given_up,), number, began_s = losing.executors(OTHER), losing.go_on(), time.monotonic()
    THIRD.power_off()
    await_given_up(losing, given_up, record_property, began_s)
    assert_same(losing, number, control)
    THIRD.power_on()
    assert_works(losing, await_another(losing, given_up, record_property, began_s), control)


def test_the_job_that_has_lost_executors_ends_with_the_same_answers(losing: Job, control: Control) -> None:
    ended = losing.finish()
    assert_ended_same(ended, control)
    assert ended.summary["executors_lost"] > 0
