"""Executors in pods of a real Kubernetes, paced by an agent on their node that writes their control groups."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.asks.properties import parse_properties
from controller.runtime.cgroup.group import Group
from controller.runtime.cgroup.tree import CgroupTree
from experiments.harness.one_node import SCRIPT, STATE
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.local_cluster import Job, LocalCluster, conf_words, eventually
from tests.integration.pacing import AIM, assert_paced, assert_reported, assert_unharmed, deadline_for

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.kubernetes, pytest.mark.groups]

JOB = ("stages.py", "--work", "40", "--tasks", "8", "--rounds", "3")


def attached(adopting: LocalCluster, kubernetes: Kubernetes, image: str, python: Path) -> Callable[..., Job]:
    """Start stock spark-submit with the settings of `sparkpace conf --attach`."""
    settings = parse_properties(adopting.command("conf", "--attach").stdout)
    return lambda *more: kubernetes.spark_submit(python, image, *conf_words(settings), *more)


def group_of(pod: Mapping[str, Any]) -> Group | None:
    """Return the group of the pod's executor, once that runs."""
    words = ("--podName", pod["metadata"]["name"])
    processes = (p for p in psutil.process_iter(["cmdline"]) if words in pairwise(p.info["cmdline"] or ()))
    return next((CgroupTree().group_of(process.pid) for process in processes), None)


def _started(pod: Mapping[str, Any]) -> Group:
    return eventually(lambda: group_of(pod), "an executor")


def quota(group: Group) -> float:
    assert [path for path in group.cpu.iterdir() if path.is_dir()] == [], "nothing is made below a pod's group"
    cores = CgroupTree().read_quota(group)
    assert cores is not None
    return cores


LOOKS = ("--conf", "spark.kubernetes.executor.apiPollingInterval=5s")
"""Setting by which Spark's driver looks at its pods every 5 s, instead of every 30 s."""
DAEMONS, AWAY_PERIODS = ("kube-apiserver", "kubelet"), 8
"""Periods of a second: more than there are from one look of the driver to the next."""
AWAY_S = 105
"""Seconds that the deadline leaves for the time without daemons, and for their start."""


def test_a_job_in_pods_is_paced_only_by_conf_also_when_the_agent_is_killed_and_while_daemons_of_the_cluster_are_away(
    adopting: LocalCluster, kubernetes_alone: Kubernetes, executor_image: str, tmp_path: Path
) -> None:
    """A period is a second, and each executor has a sample of it. The job does not end before the daemons are back. Spark 3.5
    has its executors in pods in `test_kubernetes_deploy`."""
    submit = attached(adopting, kubernetes_alone, executor_image, Path(sys.executable))
    name = "pods"
    assert submit("--name", name, *JOB).finish().ok().answer["ok"]
    taught = adopting.summary(name)
    assert taught["executors"] == 2
    deadline = f"spark.pace.deadline={deadline_for(taught['end_s']) + AWAY_S:.0f}s"
    go_on = tmp_path / "go-on"
    job = submit("--name", name, "--conf", deadline, *LOOKS, *AIM, *JOB, "--hold", str(go_on))
    view = eventually(lambda: next((v for v in adopting.views(name) if v.executors == 2), None), "both executors")
    groups = [_started(pod) for pod in kubernetes_alone.running("spark-role=executor", 2)]
    eventually(lambda: all(quota(group) < math.inf for group in groups), "quotas of both")

    def go_by(count: int) -> None:
        before = len(adopting.samples(view.application_id))
        eventually(lambda: len(adopting.samples(view.application_id)) >= before + 2 * count, f"{count} periods of both")
        assert all(quota(group) < math.inf for group in groups)

    adopting.kill_agent("w1")
    adopting.restore()
    go_by(3)
    ours = (STATE / "kubelet.pid").exists()
    if ours:  # else another user started this cluster, so the test must not harm it
        for daemon in DAEMONS:
            os.kill(int((STATE / f"{daemon}.pid").read_text()), signal.SIGKILL)
        go_by(AWAY_PERIODS)
        subprocess.run([SCRIPT, "start"], check=True, capture_output=True)
        go_by(3)
    go_on.touch()
    assert job.finish().ok().answer["ok"]
    summary = adopting.summary(name)
    samples = adopting.samples(view.application_id)
    assert_unharmed(summary, view.application_id)
    assert_paced(summary, samples)
    assert {sample.executor_id for sample in samples if sample.quota > 0} == {"1", "2"}
    assert_reported(adopting.home, summary)
    eventually(lambda: not kubernetes_alone.all("pods"), "the end of the pods")
    if not ours:
        pytest.skip("this cluster was not started by dockerfiles/kubernetes.sh, so its daemons were not away")
