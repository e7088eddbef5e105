"""A Kubernetes whose one node is this machine (`dockerfiles/kubernetes.sh`): a namespace, an image, and the options of
spark-submit with which a job's executors are pods there. Experiments use it, and the tests on a real Kubernetes.

The executor image holds no Spark: pods mount it, and everything else that they read, from this machine. Not covered:
submitting (`local_cluster`, and the tests' own spark-submit).
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

from controller.machine.waiting import wait_until
from experiments.harness.machine import PROJECT
from stage_model.errors import Unavailable

SCRIPT = PROJECT / "dockerfiles" / "kubernetes.sh"
STATE = Path(os.environ.get("SPARKPACE_KUBERNETES_DIR") or "/run", "sparkpace-kubernetes")
"""Folder in which the script keeps its kubeconfig and its daemons' pids."""
VARIABLE = "SPARKPACE_TEST_KUBECONFIG"
"""A variable of its own, so that a user's cluster is touched only if they say so."""
CALL_S = 300.0
"""Seconds of the longest call. All calls take seconds, but a machine may be loaded."""
EXECUTOR = "spark-kubernetes-executor"
"""Spark's name of an executor's container."""
ENTRY = """\
readarray -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort -t_ -k4 -n | cut -d= -f2-)
exec java "${options[@]}" "-Xmx$SPARK_EXECUTOR_MEMORY" -cp "${SPARK_CLASSPATH:+$SPARK_CLASSPATH:}$SPARK_HOME/jars/*" \\
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend --driver-url "$SPARK_DRIVER_URL" \\
    --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \\
    --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
"""
"""The command that the entry point of Spark's own images runs for an executor; our image holds no Spark."""


@dataclass(frozen=True, slots=True)
class OneNode:
    """A namespace. `folder` gets the files of `kubectl`, and pod templates."""

    kubeconfig: Path
    namespace: str
    folder: Path

    def kubectl(self, *words: str, given: str = "", timeout_s: float = CALL_S) -> str:
        """Return the stdout of `kubectl`; `given` is its stdin. Raise `Unavailable` when it fails."""
        files = ("--kubeconfig", str(self.kubeconfig), "--cache-dir", str(self.folder / "cache"))
        command = ["kubectl", *files, "--namespace", self.namespace, *words]
        return _call(command, f"kubectl {' '.join(words)}", given, timeout_s)

    def node(self) -> tuple[str, str]:
        """Return the node's name and address. Pods reach this machine by that address."""
        (node,) = json.loads(self.kubectl("get", "nodes", "-o", "json"))["items"]
        addresses = {at["type"]: at["address"] for at in node["status"]["addresses"]}
        return node["metadata"]["name"], addresses["InternalIP"]

    def master(self) -> str:
        """Return Spark's master URL of the cluster."""
        return f"k8s://{self.kubectl('config', 'view', '--minify', '-o', 'jsonpath={.clusters[0].cluster.server}')}"

    def variables(self) -> dict[str, str]:
        """Return the variables that the environment of a driver must have."""
        return {"KUBECONFIG": str(self.kubeconfig)}

    def settings(self, image: str, home: Path, shown: Sequence[Path]) -> dict[str, str]:
        """Return the settings of a driver on this machine whose executors are pods of this namespace, with a small request of
        CPU and no limit. `image` has a JRE and a Python; `home` is Spark's; pods see it and the folders `shown`."""
        address = self.node()[1]
        template = json.dumps(pod_template(home, shown))
        file = self.folder / f"template-{hashlib.sha256(template.encode()).hexdigest()[:8]}.json"
        if not file.exists():  # a driver that was started before may be reading it
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
    """Return the template of an executor's pod, with these folders of the node, read-only at the same paths."""
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
    """Create a namespace, and delete it with everything that runs in it after the block. A namespace of that name that a
    crash left behind goes first. Raise `Unavailable` where no cluster answers."""
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
        # The namespace itself takes five seconds more, in which it harms no one.
        cluster.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
        cluster.kubectl("delete", "pods", "--all")


def namespace_of(folder: Path) -> str:
    """Return the name of an experiment's namespace, so that the next run in that folder finds the leftovers of a crash."""
    return f"experiment-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"


def find_kubeconfig(environment: Mapping[str, str]) -> Path:
    """Return an administrator's kubeconfig, of the cluster that is named for tests or else the script's. Raise `Unavailable`
    where none exists."""
    found = Path(environment.get(VARIABLE) or STATE / "admin.kubeconfig")
    if not found.is_file():
        raise Unavailable(
            f"there is no kubeconfig {found}, and executors of this kind are pods of a Kubernetes whose one node is this "
            f"machine; start one with `make kubernetes`, or name it with {VARIABLE}"
        )
    return found


def load_image(image: str) -> None:
    """Load an image from the Docker engine, unless the node has it. Raise `Unavailable` when it cannot be loaded."""
    _call([str(SCRIPT), "load", image], f"{SCRIPT.name} load {image}")


def _call(command: Sequence[str], said: str, given: str = "", timeout_s: float = CALL_S) -> str:
    try:
        done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise Unavailable(f"`{said}` did not run through: {problem}") from problem
    if done.returncode != 0:
        raise Unavailable(f"`{said}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout
