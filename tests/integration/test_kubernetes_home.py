"""The quick version of an experiment with executors in pods: it runs through, they are paced, and no pod or namespace
stays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.harness.machine import PROJECT
from experiments.harness.one_node import VARIABLE, namespace_of
from experiments.harness.result_folder import ResultFolder
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.local_cluster import QUICK_JVM

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.kubernetes, pytest.mark.groups]


def test_the_home_in_pods_runs_through_and_leaves_no_namespace(kubernetes: Kubernetes, tmp_path: Path) -> None:
    out = tmp_path / "results"
    command = [sys.executable, "-m", "experiments", "run", "homes-kubernetes", "--quick", "--out", str(out)]
    variables = {**os.environ, VARIABLE: str(kubernetes.kubeconfig), "JDK_JAVA_OPTIONS": QUICK_JVM}
    done = subprocess.run(command, cwd=PROJECT, env=variables, capture_output=True, text=True, timeout=1500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    data = ResultFolder(out).data()
    assert list(data.steps) == ["base-pagerank-kubernetes-0", "pagerank-test50-kubernetes-0"]
    for step in data.steps.values():
        [job] = step.jobs
        assert job.workers == {"1": "w1", "2": "w1"}, "the agent of the node keeps both pods' executors"
    samples = data.samples[data.steps["pagerank-test50-kubernetes-0"].jobs[0].app_id]
    assert {sample.executor_id for sample in samples if sample.quota > 0} == {"1", "2"}
    left = kubernetes.get("namespace", namespace_of(out))
    assert left is None or left["status"]["phase"] == "Terminating"
