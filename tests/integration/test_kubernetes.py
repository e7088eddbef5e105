"""A pod on a real Kubernetes cluster. Jobs with executors in pods have files of their own."""

from __future__ import annotations

import pytest

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
