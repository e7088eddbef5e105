"""deploy/kubernetes on a real cluster: the master as a Deployment, an agent on its node as a DaemonSet, and jobs that they
pace. Drivers are in pods (`--deploy-mode cluster`), attached only by settings and secrets, and on this machine."""

from __future__ import annotations

import math
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.home import Home
from controller.runtime.cgroup.group import Group
from controller.submit.bridge_jar import attach_settings
from tests.integration import kubernetes_driver
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.kubernetes_deployed import InMaster, deployed
from tests.integration.kubernetes_driver import DriverPod
from tests.integration.local_cluster import conf_words, eventually
from tests.integration.pacing import AIM, assert_paced, assert_unharmed, deadline_for
from tests.integration.test_kubernetes_node_mode import JOB, group_of, quota

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.kubernetes]

PYTHON = Path(sys.executable)
SMALL = ("stages.py", "--work", "5", "--tasks", "4")
HALF = ("--conf", "spark.pace.law=constant", "--conf", "spark.pace.law.constant.cores=0.5")
"""Half a core for both executors together, while an agent or master knows the deadline."""
GO_ON = "/tmp/go-on"
"""File in a driver's container for which its job waits."""


@pytest.fixture(scope="module")
def inside(module_kubernetes: Kubernetes, node_image: str) -> Iterator[InMaster]:
    with deployed(module_kubernetes, node_image) as found:
        yield found


@pytest.fixture(scope="module")
def settings(inside: InMaster) -> dict[str, str]:
    return kubernetes_driver.prepare(inside.kubernetes, inside)


@pytest.fixture
def kubernetes(inside: InMaster) -> Iterator[Kubernetes]:
    """Provide the namespace of all tests; no executor may be left after any of them."""
    yield inside.kubernetes
    eventually(lambda: not inside.kubernetes.all("pods", "spark-role=executor"), "the end of the executors")


def _paced_groups(kubernetes: Kubernetes) -> list[Group]:
    """Return the groups of both executors, once they have quotas."""
    pods = kubernetes.running("spark-role=executor", 2)
    groups = [eventually(partial(group_of, pod), "an executor") for pod in pods]
    eventually(lambda: all(quota(group) < math.inf for group in groups), "quotas of both")
    return groups


@pytest.fixture(scope="module")
def orphaned(inside: InMaster, settings: dict[str, str], executor_image: str, spark35_python: Path) -> list[Group]:
    """Kill the driver's pod of the job `orphans`, which runs on Spark 3.5; return the groups that its executors had."""
    kubernetes = inside.kubernetes
    driver = kubernetes_driver.submit(kubernetes, spark35_python, executor_image, settings, "orphans", *HALF, "sleeping.py")
    groups = _paced_groups(kubernetes)
    driver.kill()
    assert driver.finish().code == 128 + signal.SIGKILL
    kubernetes.delete("pod", driver.name)
    return groups


def test_a_drivers_pod_is_killed_and_its_executors_and_groups_end(kubernetes: Kubernetes, orphaned: list[Group]) -> None:
    """The record is a later test's: a master that cannot see the driver waits for it for a minute, and others run
    meanwhile."""
    eventually(lambda: not kubernetes.all("pods", "spark-role=executor"), "the end of the executors")
    eventually(lambda: not any(group.cpu.exists() for group in orphaned), "the end of the groups, with which the quotas go")


def test_a_job_whose_driver_is_a_pod_is_paced_only_by_settings_and_secrets(
    inside: InMaster, kubernetes: Kubernetes, settings: dict[str, str], executor_image: str
) -> None:
    name = "in-a-pod"

    def submit(*words: str) -> DriverPod:
        return kubernetes_driver.submit(kubernetes, PYTHON, executor_image, settings, name, *words)

    assert submit(*JOB).finish().ok().answer["ok"]
    taught = inside.summary(name)
    assert (taught["profile"], taught["executors"]) == (f"{name}@stages.py", 2)
    deadline = f"spark.pace.deadline={deadline_for(taught['end_s']):.0f}s"
    # this job cannot end before both executors have quotas
    paced = submit("--conf", deadline, *AIM, *JOB, "--hold", GO_ON)
    _paced_groups(kubernetes)
    paced.touch(GO_ON)
    assert paced.finish().ok().answer["ok"]
    summary = inside.summary(name)
    assert_unharmed(summary, summary["app_id"])
    assert summary["app_id"] != taught["app_id"]
    assert_paced(summary, inside.samples(name))


def test_the_record_of_a_job_whose_drivers_pod_was_killed(inside: InMaster, orphaned: list[Group]) -> None:
    summary = inside.summary("orphans")
    assert summary["spark_version"].startswith("3.5.")
    assert (summary["end_reason"], summary["executors"], summary["taught"]) == ("its driver died", 2, False)
    # a record does not wait long for a busy agent
    eventually(lambda: [view.executors for view in inside.views("orphans")] == [0], "the report of their end")
    eventually(lambda: not list(Path("/run/sparkpace").rglob("*.json")), "an agent that has let go of both")


def processes(pod: Mapping[str, Any]) -> list[psutil.Process]:
    """Return the processes of a pod, as this machine sees them."""
    uid = pod["metadata"]["uid"]
    found = []
    for process in psutil.process_iter():
        with suppress(OSError):
            if uid in Path(f"/proc/{process.pid}/cgroup").read_text():
                found.append(process)
    return found


@contextmanager
def stopped(pod: Mapping[str, Any]) -> Iterator[None]:
    """Suspend the pod's processes: it takes connections and answers none."""
    held = processes(pod)
    assert held
    for process in held:
        process.suspend()
    try:
        yield
    finally:
        for process in held:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def client_words(inside: InMaster, home: Home) -> list[str]:
    """Return the options of a job whose driver is on this machine."""
    home.create()
    home.ca_file.write_text(inside.ca())
    home.submit_token_file.write_text(inside.submit_token())
    return conf_words(attach_settings(home, home.need_cluster()))


def test_an_agents_successor_in_a_new_pod_goes_on_while_the_master_is_away(
    inside: InMaster, kubernetes: Kubernetes, executor_image: str, tmp_path: Path
) -> None:
    """The agent is killed so hard that its pod goes with it: only the records on its node hold what it knew."""
    words = client_words(inside, Home(tmp_path / "home", inside.url))
    go_on = tmp_path / "go-on"
    more = ("--name", "held", "--conf", "spark.pace.deadline=2h", *HALF, *SMALL, "--hold", str(go_on))
    job = kubernetes.spark_submit(PYTHON, executor_image, *words, *more)
    groups = _paced_groups(kubernetes)

    def paced() -> bool:
        return all(quota(group) <= 0.25 for group in groups)

    eventually(paced, "a quarter of a core for each at most")
    # what an agent has not handed over dies with it: the summary counts between the samples that the master has
    sampled = eventually(partial(inside.sampled, "held", more_than=Counter()), "a sample of each")
    [agent] = kubernetes.running("app=sparkpace-agent", 1)
    with stopped(inside.pod):
        with stopped(agent):  # so it cannot let go of any executor
            kubernetes.kubectl("delete", "pod", agent["metadata"]["name"], "--force", "--grace-period=0")
            eventually(lambda: not processes(agent), "the end of the agent")
        # its deadline is not known here
        eventually(lambda: all(quota(group) > 0.25 for group in groups), "more than its law gives it for each")
        [successor] = kubernetes.running("app=sparkpace-agent", 1)
        assert successor["metadata"]["uid"] != agent["metadata"]["uid"]
    eventually(paced, "a quarter of a core for each at most again")
    eventually(partial(inside.sampled, "held", more_than=sampled), "a sample of each by the successor")
    go_on.touch()
    assert job.finish().ok().answer["ok"]
    assert_unharmed(inside.summary("held"), inside.summary("held")["app_id"])
