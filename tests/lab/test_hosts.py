"""Two hosts: the second one joins, is cut off for a while, loses its power, and serves again without help."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local_cluster import eventually
from tests.lab.machines import MACHINES, Driver, Home, Machine, executors

pytestmark = [pytest.mark.lab, pytest.mark.slow]

FIRST, SECOND = MACHINES
URL = f"https://{FIRST.address}:7070"
WORKER = "lab-b"
SIZE = ("--runtime", "process", "--cores", "0.5", "--memory", "512m")


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of both machines, all of whose processes are services, with an application that has an executor on each."""

    home: Home
    other: Home
    driver: Driver

    def silence(self) -> str:
        """Return what is said of the other machine's silence."""
        return self.home.workers()[WORKER]

    def log(self) -> str:
        return self.home.machine.out("journalctl --no-pager -u sparkpace-master")


@pytest.fixture(scope="module")
def cluster(project: Path) -> Iterator[Cluster]:
    home, other = Home(FIRST, "/var/lib/sparkpace-lab"), Home(SECOND, "/var/lib/sparkpace-lab")
    made = Cluster(home, other, Driver(home, 2))
    try:
        home.sparkpace(
            *("up", "--workers", "1", *SIZE, "--port", "7070", "--host", FIRST.address, "--driver-host", FIRST.address),
            *("--lost-after", "90s"),  # with the default of 30 s, one slow look in the cut of 25 s would cost an executor
        )
        home.run_services(("sparkpace-master.service", "sparkpace-agent-w1.service"))
        token = home.sparkpace("join-token")
        other.sparkpace("join", URL, "-", *SIZE, stdin=token)
        other.run_services((f"sparkpace-agent-{WORKER}.service",))
        made.driver.start()
        eventually(lambda: executors(FIRST) and executors(SECOND), "an executor on each machine")
        yield made
    finally:
        made.driver.end()
        SECOND.heal()
        other.end()
        home.end()


def reports(cluster: Cluster) -> bool:
    return cluster.silence() == ""


def one_executor(machine: Machine) -> int:
    (pid,) = executors(machine)
    return pid


def test_a_cut_of_five_seconds_changes_nothing(cluster: Cluster) -> None:
    before, notices, began_s = one_executor(SECOND), cluster.driver.notices(), time.monotonic()
    SECOND.cut()
    time.sleep(5.0)
    SECOND.heal()
    if time.monotonic() - began_s > 8.0:
        pytest.skip("this machine is too slow for a cut of five seconds")
    time.sleep(10.0)  # as long as a silence lasts before it is reported
    assert reports(cluster)
    assert cluster.driver.notices() == notices
    assert one_executor(SECOND) == before


def test_a_cut_of_twenty_five_seconds_is_reported_and_loses_nothing(cluster: Cluster, record_property: Any) -> None:
    before, began_s = one_executor(SECOND), time.monotonic()
    SECOND.cut()
    eventually(cluster.silence, "the silence")
    record_property("silence reported after", f"{time.monotonic() - began_s:.0f} s")
    assert f"worker {WORKER} has not reported for" in cluster.home.sparkpace("ps")
    time.sleep(max(0.0, began_s + 25.0 - time.monotonic()))
    SECOND.heal()
    eventually(lambda: reports(cluster), "another report")
    eventually(lambda: any(f"worker {WORKER} reports again" in one for one in cluster.driver.notices()), "a notice of that")
    assert cluster.driver.gone() == {}
    assert one_executor(SECOND) == before


def test_a_host_without_power_is_reported_as_lost_and_serves_again_once_it_has_power(
    cluster: Cluster, record_property: Any
) -> None:
    began_s = time.monotonic()
    SECOND.power_off()
    eventually(cluster.silence, "the silence")
    record_property("silence reported after", f"{time.monotonic() - began_s:.0f} s")
    assert f"worker {WORKER} has not reported for" in cluster.home.sparkpace("ps")
    assert f"worker {WORKER} has not reported for" in cluster.log()
    eventually(cluster.driver.gone, "the loss of its executor")
    record_property("executor given up after", f"{time.monotonic() - began_s:.0f} s")
    (reason,) = cluster.driver.gone().values()
    assert f"worker {WORKER} has not reported for" in reason
    assert "it is lost" in cluster.silence()
    assert len(executors(FIRST)) == 1
    SECOND.power_on()
    eventually(lambda: reports(cluster), "another report")
    eventually(lambda: len(executors(SECOND)) == 1, "an executor on it")
    record_property("executor there again after", f"{time.monotonic() - began_s:.0f} s")
