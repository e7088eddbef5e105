"""Pods as Spark makes them for executors in a Kubernetes cluster."""

from __future__ import annotations

from typing import Any

from controller.runtime.claimed_process import Serves
from controller.runtime.kubernetes.pod_cpu import (
    APPLICATION_ENV,
    APPLICATION_LABEL,
    CONTAINER,
    DRIVER_ENV,
    EXECUTOR_ENV,
    EXECUTOR_LABEL,
)


def executor_pod(
    name: str,
    serves: Serves,
    *,
    limit: str | None = "500m",
    request: str | None = "200m",
    memory: str | None = "64Mi",
    memory_request: str | None = None,
    image: str = "localhost/pause:1",
) -> dict[str, Any]:
    """Make a pod as Spark makes one for an executor. By default limit and request of its memory are equal, as Spark's are."""
    limits = {"cpu": limit, "memory": memory}
    requests = {"cpu": request, "memory": memory_request or memory}
    env = {DRIVER_ENV: serves.driver_url, EXECUTOR_ENV: serves.executor_id, APPLICATION_ENV: serves.spark_application_id}
    container = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": key, "value": value} for key, value in env.items()],
        "resources": {
            "limits": {what: amount for what, amount in limits.items() if amount is not None},
            "requests": {what: amount for what, amount in requests.items() if amount is not None},
        },
    }
    labels = {"spark-role": "executor", APPLICATION_LABEL: serves.spark_application_id, EXECUTOR_LABEL: serves.executor_id}
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}
