"""A real Kubernetes cluster: a pod, and stock Spark with executors in pods."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.conftest import ONE_SPARK
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.local_cluster import eventually

pytestmark = [pytest.mark.docker, pytest.mark.kubernetes]


def test_a_pod_comes_speaks_and_goes(kubernetes: Kubernetes, executor_image: str) -> None:
    container = {"name": "c", "image": executor_image, "command": ["/bin/sh", "-c", "echo here; exec sleep infinity"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    kubernetes.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"of": "test"}}, "spec": spec})
    (pod,) = kubernetes.running("of=test", 1)
    kubernetes.until("pod", "p", lambda found: found["status"]["containerStatuses"][0]["ready"], "ready")
    eventually(lambda: kubernetes.logs(pod["metadata"]["name"]) == "here\n", "its output")
    kubernetes.delete("pod", "p")
    assert kubernetes.get("pod", "p") is None


@ONE_SPARK
@pytest.mark.slow
@pytest.mark.spark
def test_a_stock_job_runs_in_two_pods_and_leaves_none(
    kubernetes: Kubernetes, executor_image: str, python: Path, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    job = kubernetes.spark_submit(python, executor_image, "stages.py", "--work", "4", "--tasks", "8", "--hold", str(go_on))
    pods = kubernetes.running("spark-role=executor", 2)
    name, address = kubernetes.node()
    assert {pod["spec"]["nodeName"] for pod in pods} == {name}
    assert {pod["status"]["hostIP"] for pod in pods} == {address}
    names = [pod["metadata"]["name"] for pod in pods]
    eventually(lambda: all("Starting executor ID" in kubernetes.logs(name) for name in names), "both executors' start")
    go_on.touch()
    assert job.finish().ok().answer["ok"]
    eventually(lambda: not kubernetes.all("pods"), "the end of the pods")
