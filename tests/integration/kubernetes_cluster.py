"""Further parts of a Kubernetes of one node (`experiments.harness.one_node`) for tests: its objects, and stock Spark jobs
with executors in its pods.

A job's driver runs on this host, in client mode. Not covered: what is asserted about jobs (the tests).
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.submit.bridge_jar import bridge_jar
from experiments.harness.live_cluster import spark_home
from experiments.harness.one_node import OneNode, fresh_namespace
from tests.integration.local_cluster import APPS, QUICK_JVM, Job, conf_words, eventually

BOTH_FIRST = {"spark.executor.instances": 2, "spark.scheduler.maxRegisteredResourcesWaitingTime": "10min"}
"""Settings of two executors, without which no task begins. By itself, Spark waits 30 s for the second one."""


@dataclass(frozen=True, slots=True)
class Kubernetes(OneNode):
    """`folder` gets what jobs write, too."""

    jobs: list[Job] = field(default_factory=list)

    # ------------------------------------------------------------------ objects

    def apply(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """Apply the manifest; return the object as it is then."""
        return dict(json.loads(self.kubectl("apply", "-f", "-", "-o", "json", given=json.dumps(manifest))))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return the object; None once it is gone."""
        shown = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        return dict(json.loads(shown)) if shown.strip() else None

    def all(self, kind: str, labels: str = "") -> list[dict[str, Any]]:
        return list(json.loads(self.kubectl("get", kind, "-l", labels, "-o", "json"))["items"])

    def delete(self, kind: str, name: str) -> None:
        """Delete the object; return once it is gone."""
        self.kubectl("delete", kind, name, "--ignore-not-found")

    def logs(self, pod: str) -> str:
        return self.kubectl("logs", pod)

    def running(self, labels: str, count: int) -> list[dict[str, Any]]:
        """Return the pods with these labels once `count` run, without pods that are about to end."""

        def runs(pod: Mapping[str, Any]) -> bool:
            return pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]

        def look() -> list[dict[str, Any]] | None:
            found = [pod for pod in self.all("pods", labels) if runs(pod)]
            return found if len(found) == count else None

        return eventually(look, f"{count} running pods of {labels}")

    # ------------------------------------------------------------------ jobs

    def spark_submit(self, python: Path, image: str, *words: str) -> Job:
        """Start stock spark-submit of the pyspark of `python`, in the background; `words` are further options, the
        application and its arguments. `image` has a JRE and the Python of the driver's minor version."""
        home = spark_home(python)
        conf = {
            **self.settings(image, home, [bridge_jar().parent]),
            **BOTH_FIRST,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_JVM,
            "spark.driver.memory": "512m",
            "spark.pyspark.python": "python3",
            "spark.pyspark.driver.python": python,
            "spark.ui.enabled": "false",
        }
        number = len(self.jobs)
        out, err = (self.folder / f"job-{number}.{name}" for name in ("out", "err"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [str(python.parent / "spark-submit"), "--master", self.master(), *conf_words(conf), *words],
                env=self._environment(home),
                cwd=APPS,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        self.jobs.append(Job(process, out, err))
        return self.jobs[-1]

    def _environment(self, home: Path) -> dict[str, str]:
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        quick = f"{QUICK_JVM} -Djava.io.tmpdir={self.folder}"
        return {**plain, **self.variables(), "SPARK_HOME": str(home), "JDK_JAVA_OPTIONS": quick}


@contextmanager
def namespace(kubeconfig: Path, folder: Path) -> Iterator[Kubernetes]:
    """Make a fresh namespace; end it with whatever runs in it."""
    with fresh_namespace(kubeconfig, f"test-{uuid.uuid4().hex[:8]}", folder) as made:
        cluster = Kubernetes(made.kubeconfig, made.namespace, made.folder)
        try:
            yield cluster
        finally:
            for job in cluster.jobs:
                job.kill()
