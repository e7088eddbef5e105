"""Drivers in pods of a real Kubernetes (`--deploy-mode cluster`): attached only by settings and secrets, with the master and
the agent of deploy/kubernetes."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from controller.runtime.cgroup.group import Group
from tests.integration import kubernetes_driver
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.kubernetes_deployed import InMaster, deployed
from tests.integration.kubernetes_driver import DriverPod
from tests.integration.local_cluster import eventually
from tests.integration.pacing import AIM, assert_paced, deadline_for
from tests.integration.test_failures import assert_unharmed
from tests.integration.test_kubernetes_deploy import HALF
from tests.integration.test_kubernetes_node_mode import group_of, quota

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.kubernetes]

PYTHON = Path(sys.executable)
JOB = ("stages.py", "--work", "40", "--tasks", "8", "--rounds", "3")
LONG = ("stages.py", "--work", "200", "--tasks", "8", "--rounds", "3")
"""About eight core-seconds in Python workers: with `HALF`, tasks run for a quarter of a minute."""
ENDLESS = ("stages.py", "--work", "100000", "--tasks", "8")


@pytest.fixture(scope="module")
def inside(module_kubernetes: Kubernetes, node_image: str) -> Iterator[InMaster]:
    with deployed(module_kubernetes, node_image) as found:
        yield found


@pytest.fixture(scope="module")
def settings(inside: InMaster) -> dict[str, str]:
    return kubernetes_driver.prepare(inside.kubernetes, inside)


def _paced_groups(kubernetes: Kubernetes) -> list[Group]:
    """Return the groups of both executors, once they have quotas."""
    pods = kubernetes.running("spark-role=executor", 2)
    groups = [eventually(partial(group_of, pod), "an executor") for pod in pods]
    eventually(lambda: all(quota(group) < math.inf for group in groups), "quotas of both")
    return groups


def test_a_job_whose_driver_is_a_pod_is_paced_by_settings_and_secrets_alone(
    inside: InMaster, settings: dict[str, str], executor_image: str
) -> None:
    kubernetes, name = inside.kubernetes, "in-a-pod"

    def submit(*words: str) -> DriverPod:
        return kubernetes_driver.submit(kubernetes, PYTHON, executor_image, settings, name, *words)

    assert submit(*JOB).finish().ok().answer["ok"]
    taught = inside.summary(name)
    assert (taught["profile"], taught["executors"]) == (f"{name}@stages.py", 2)
    deadline = f"spark.pace.deadline={deadline_for(taught['end_s']):.0f}s"
    paced = submit("--conf", deadline, *AIM, *JOB)
    _paced_groups(kubernetes)
    assert paced.finish().ok().answer["ok"]
    summary = inside.summary(name)
    assert_unharmed(summary, summary["app_id"])
    assert summary["app_id"] != taught["app_id"]
    assert_paced(summary, ())
    eventually(lambda: not kubernetes.all("pods", "spark-role=executor"), "the end of the executors")


def test_a_job_of_spark_35_whose_driver_is_a_pod_is_paced(
    inside: InMaster, settings: dict[str, str], executor_image: str, spark35_python: Path
) -> None:
    kubernetes, name = inside.kubernetes, "in-a-pod-35"
    driver = kubernetes_driver.submit(kubernetes, spark35_python, executor_image, settings, name, *HALF, *LONG)
    _paced_groups(kubernetes)
    assert driver.finish().ok().answer["ok"]
    summary = inside.summary(name)
    assert_unharmed(summary, summary["app_id"])
    assert summary["spark_version"].startswith("3.5.")
    eventually(lambda: not kubernetes.all("pods", "spark-role=executor"), "the end of the executors")


def test_a_drivers_pod_is_killed_and_its_executors_groups_and_record_end(
    inside: InMaster, settings: dict[str, str], executor_image: str
) -> None:
    kubernetes = inside.kubernetes
    driver = kubernetes_driver.submit(kubernetes, PYTHON, executor_image, settings, "orphans", *HALF, *ENDLESS)
    groups = _paced_groups(kubernetes)
    driver.kill()
    assert driver.finish().code == 128 + signal.SIGKILL
    kubernetes.delete("pod", driver.name)
    eventually(lambda: not kubernetes.all("pods", "spark-role=executor"), "the end of the executors")
    assert not any(group.cpu.exists() for group in groups), "no quota is left, as its group went with its pod"
    summary = inside.summary("orphans")
    assert summary["end_reason"] == "its driver died"
    assert summary["taught"] is False
    assert [view.executors for view in inside.views("orphans")] == [0]
    assert not list(Path("/run/sparkpace").rglob("*.json")), "the agent has let go of both"
