"""A Kubernetes cluster as `kubectl` shows it, one namespace at a time, and stock Spark jobs whose executors are its pods.

A job's driver runs on this host, in client mode. Its pods mount Spark and the bridge's jar from this host, so the cluster's
one node must be this machine (`dockerfiles/kubernetes.sh`). Not covered: what is asserted about jobs (the tests).
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.submit.bridge_jar import bridge_jar
from experiments.harness.live_cluster import spark_home
from tests.integration.local_cluster import APPS, PATIENCE_S, QUICK_JVM, Job, conf_words, eventually

SCRIPT = Path(__file__).parents[2] / "dockerfiles" / "kubernetes.sh"
STATE = Path(os.environ.get("SPARKPACE_KUBERNETES_DIR") or "/run", "sparkpace-kubernetes")
"""Where the script keeps its daemons' pids."""
EXECUTOR = "spark-kubernetes-executor"
"""Spark's name of its container."""
ENTRY = """\
readarray -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | cut -d= -f2-)
exec java "${options[@]}" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \\
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url "$SPARK_DRIVER_URL" \\
    --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \\
    --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
"""
"""What the entry point of Spark's own images does for an executor; ours holds no Spark."""


@dataclass(frozen=True, slots=True)
class Kubernetes:
    """One namespace. `folder` gets what `kubectl` and jobs write."""

    kubeconfig: Path
    namespace: str
    folder: Path
    jobs: list[Job] = field(default_factory=list)

    def kubectl(self, *words: str, given: str = "", timeout_s: float = PATIENCE_S) -> str:
        """Its stdout; `given` is its stdin."""
        files = ("--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.folder / "cache"))
        command = ["kubectl", *files, "--namespace", self.namespace, *words]
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=timeout_s, check=False)
        assert done.returncode == 0, f"kubectl {words} ended with {done.returncode}:\n{done.stderr}"
        return done.stdout

    # ------------------------------------------------------------------ objects

    def apply(self, manifest: Mapping[str, Any]) -> dict[str, Any]:
        """The object as it is then."""
        return dict(json.loads(self.kubectl("apply", "-f", "-", "-o", "json", given=json.dumps(manifest))))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """None once it is gone."""
        shown = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        return dict(json.loads(shown)) if shown.strip() else None

    def all(self, kind: str, labels: str = "") -> list[dict[str, Any]]:
        return list(json.loads(self.kubectl("get", kind, "-l", labels, "-o", "json"))["items"])

    def delete(self, kind: str, name: str) -> None:
        """Returns once it is gone."""
        self.kubectl("delete", kind, name, "--ignore-not-found")

    def until(self, kind: str, name: str, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The object once that holds."""

        def look() -> dict[str, Any] | None:
            found = self.get(kind, name)
            return found if found and holds(found) else None

        return eventually(look, f"{kind} {name}: {what}")

    def logs(self, pod: str) -> str:
        return self.kubectl("logs", pod)

    def running(self, labels: str, count: int) -> list[dict[str, Any]]:
        """The pods with these labels once so many run."""

        def look() -> list[dict[str, Any]] | None:
            found = [pod for pod in self.all("pods", labels) if pod["status"]["phase"] == "Running"]
            return found if len(found) == count else None

        return eventually(look, f"{count} running pods of {labels}")

    # ------------------------------------------------------------------ its node

    def node(self) -> tuple[str, str]:
        """Name and address. Pods reach this host by that address."""
        (node,) = self.all("nodes")
        addresses = {at["type"]: at["address"] for at in node["status"]["addresses"]}
        return node["metadata"]["name"], addresses["InternalIP"]

    def server(self) -> str:
        """The API server's URL."""
        return self.kubectl("config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")

    # ------------------------------------------------------------------ jobs

    def spark_submit(self, python: Path, image: str, *words: str, executors: int = 2) -> Job:
        """Stock spark-submit of the pyspark beside `python`, in the background; `words` are further options, the application
        and its arguments. `image` has a JRE and the Python of the driver's minor version."""
        home, jar, address = spark_home(python), bridge_jar(), self.node()[1]
        conf = {
            "spark.kubernetes.namespace": self.namespace,
            "spark.kubernetes.container.image": image,
            "spark.kubernetes.container.image.pullPolicy": "Never",
            "spark.kubernetes.executor.podTemplateFile": self._template(home, jar.parent),
            "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR,
            "spark.kubernetes.executor.request.cores": "0.1",
            "spark.executor.instances": executors,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_JVM,
            "spark.driver.memory": "512m",
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            "spark.pyspark.python": "python3",
            "spark.pyspark.driver.python": python,
            "spark.ui.enabled": "false",
        }
        number = len(self.jobs)
        out, err = (self.folder / f"job-{number}.{name}" for name in ("out", "err"))
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [str(python.parent / "spark-submit"), "--master", f"k8s://{self.server()}", *conf_words(conf), *words],
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
        return {**plain, "KUBECONFIG": str(self.kubeconfig), "SPARK_HOME": str(home), "JDK_JAVA_OPTIONS": quick}

    def _template(self, *shown: Path) -> Path:
        """A pod template with these folders of this host, read-only at the same paths; the first is Spark's home."""
        container = {
            "name": EXECUTOR,
            "command": ["/bin/bash", "-euc", ENTRY],
            "env": [{"name": "SPARK_HOME", "value": str(shown[0])}],
            "volumeMounts": [{"name": f"host-{n}", "mountPath": str(at), "readOnly": True} for n, at in enumerate(shown)],
        }
        volumes = [{"name": f"host-{n}", "hostPath": {"path": str(at), "type": "Directory"}} for n, at in enumerate(shown)]
        spec = {"automountServiceAccountToken": False, "containers": [container], "volumes": volumes}
        file = self.folder / f"template-{len(self.jobs)}.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": spec}))
        return file


@contextmanager
def namespace(kubeconfig: Path, folder: Path) -> Iterator[Kubernetes]:
    """A fresh one, and its end with whatever runs in it."""
    folder.mkdir()
    cluster = Kubernetes(kubeconfig, f"test-{uuid.uuid4().hex[:8]}", folder)
    cluster.kubectl("create", "namespace", cluster.namespace)
    try:
        cluster.until("serviceaccount", "default", lambda _: True, "made for the namespace")
        yield cluster
    finally:
        for job in cluster.jobs:
            job.kill()
        # The namespace itself takes five seconds more, in which it harms nobody.
        cluster.kubectl("delete", "namespace", cluster.namespace, "--wait=false", "--ignore-not-found")
        eventually(lambda: not cluster.all("pods"), "the end of the namespace's pods")


def load_image(image: str) -> None:
    """From the Docker engine, unless the node has it."""
    done = subprocess.run([SCRIPT, "load", image], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
