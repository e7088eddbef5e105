"""A Kubernetes whose one node is this machine (`dockerfiles/kubernetes.sh`): a namespace, an image, and what spark-submit is
told so that a job's executors are pods there. Experiments use it, and the tests on a real Kubernetes.

The executor image holds no Spark: pods mount it, and whatever else they read, from this machine. Not covered: what is
submitted (`local_cluster`, and the tests' own spark-submit).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller.waiting import wait_until
from experiments.harness.machine import PROJECT
from stage_model.errors import Unavailable

SCRIPT = PROJECT / "dockerfiles" / "kubernetes.sh"
STATE = Path(os.environ.get("SPARKPACE_KUBERNETES_DIR") or "/run", "sparkpace-kubernetes")
"""Where the script keeps its kubeconfig and its daemons' pids."""
VARIABLE = "SPARKPACE_TEST_KUBECONFIG"
"""Of its own, so that a user's cluster is touched only if they say so."""
CALL_S = 300.0
"""Longest call. All of them take seconds, but a machine may be loaded."""
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
class OneNode:
    """A namespace. `folder` gets what `kubectl` writes, and pod templates."""

    kubeconfig: Path
    namespace: str
    folder: Path

    def kubectl(self, *words: str, given: str = "", timeout_s: float = CALL_S) -> str:
        """Its stdout; `given` is its stdin. Raises `Unavailable` when it fails."""
        files = ("--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.folder / "cache"))
        command = ["kubectl", *files, "--namespace", self.namespace, *words]
        return _call(command, f"kubectl {' '.join(words)}", given, timeout_s)

    def node(self) -> tuple[str, str]:
        """Name and address. Pods reach this machine by that address."""
        (node,) = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        addresses = {at["type"]: at["address"] for at in node["status"]["addresses"]}
        return node["metadata"]["name"], addresses["InternalIP"]

    def master(self) -> str:
        """Spark's master URL of it."""
        return f"k8s://{self.kubectl('config', 'view', '--minify', '-o', 'jsonpath={.clusters[0].cluster.server}')}"

    def variables(self) -> dict[str, str]:
        """What the environment of a driver must have."""
        return {"KUBECONFIG": str(self.kubeconfig)}

    def settings(self, image: str, home: Path, shown: Sequence[Path]) -> dict[str, str]:
        """Of a driver on this machine whose executors are pods of this namespace, with a small request of CPU and no limit.
        `image` has a JRE and a Python; `home` is Spark's; pods see it and the folders `shown`."""
        address = self.node()[1]
        template = json.dumps(pod_template(home, shown))
        file = self.folder / f"template-{hashlib.sha256(template.encode()).hexdigest()[:8]}.json"
        file.write_text(template)
        return {
            "spark.kubernetes.namespace": self.namespace,
            "spark.kubernetes.container.image": image,
            "spark.kubernetes.container.image.pullPolicy": "Never",
            "spark.kubernetes.executor.podTemplateFile": str(file),
            "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR,
            "spark.kubernetes.executor.request.cores": "0.1",
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
        }


def pod_template(home: Path, shown: Sequence[Path]) -> dict[str, Any]:
    """Of an executor's pod, with these folders of the node, read-only at the same paths."""
    folders = [str(folder) for folder in dict.fromkeys((home, *shown))]
    container = {
        "name": EXECUTOR,
        "command": ["/bin/bash", "-euc", ENTRY],
        "env": [{"name": "SPARK_HOME", "value": str(home)}],
        "volumeMounts": [{"name": f"host-{n}", "mountPath": at, "readOnly": True} for n, at in enumerate(folders)],
    }
    volumes = [{"name": f"host-{n}", "hostPath": {"path": at, "type": "Directory"}} for n, at in enumerate(folders)]
    spec = {"automountServiceAccountToken": False, "containers": [container], "volumes": volumes}
    return {"apiVersion": "v1", "kind": "Pod", "spec": spec}


@contextmanager
def fresh_namespace(kubeconfig: Path, name: str, folder: Path) -> Iterator[OneNode]:
    """A new one, up until the end of the block; then it goes with whatever runs in it. One of that name that a crash left
    behind goes first. Raises `Unavailable` where no cluster answers."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = OneNode(kubeconfig, name, folder)
    cluster.kubectl("delete", "namespace", name, "--ignore-not-found")
    cluster.kubectl("create", "namespace", name)
    try:
        account = ("get", "serviceaccount", "default", "--ignore-not-found", "-o", "name")
        if not wait_until(lambda: bool(cluster.kubectl(*account)), CALL_S):
            raise Unavailable(f"namespace {name} has no service account after {CALL_S:g} s; is the controller manager up?")
        yield cluster
    finally:
        # The namespace itself takes five seconds more, in which it harms nobody.
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
        cluster.kubectl("delete", "pods", "--all")


def namespace_of(folder: Path) -> str:
    """The name of an experiment's namespace, so that the next run in that folder finds what a crash left behind."""
    return f"experiment-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def find_kubeconfig(environment: Mapping[str, str]) -> Path:
    """An administrator's, of the cluster that is named for tests or else the script's. Raises `Unavailable` without one."""
    found = Path(environment.get(VARIABLE) or STATE / "admin.kubeconfig")
    if not found.is_file():
        raise Unavailable(
            f"there is no kubeconfig {found}, and executors of this kind are pods of a Kubernetes whose one node is this "
            f"machine; start one with `make kubernetes`, or name it with {VARIABLE}"
        )
    return found


def load_image(image: str) -> None:
    """From the Docker engine, unless the node has it. Raises `Unavailable` when it cannot be."""
    _call([str(SCRIPT), "load", image], f"{SCRIPT.name} load {image}")


def _call(command: Sequence[str], said: str, given: str = "", timeout_s: float = CALL_S) -> str:
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unavailable(f"`{said}` did not run through: {problem}") from problem
    if done.returncode != 0:
        raise Unavailable(f"`{said}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
