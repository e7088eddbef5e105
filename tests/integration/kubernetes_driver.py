"""Stock Spark jobs with drivers in pods, too: `spark-submit --deploy-mode cluster`.

The test image holds no Spark, so pod templates show it this host's and do what the entry point of Spark's own images does. In
the one-node cluster nothing resolves the name of a driver's service, so executors have its address in a file of theirs.
A user's job gets all of Sparkpace by settings only. Not covered: the assertions about jobs (the tests).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from experiments.harness.live_cluster import spark_home
from experiments.harness.one_node import ENTRY, EXECUTOR
from tests.integration.kubernetes_cluster import BOTH_FIRST, Kubernetes
from tests.integration.kubernetes_defaults import with_protocols
from tests.integration.kubernetes_deployed import InMaster
from tests.integration.local_cluster import APPS, JOB_S, PATIENCE_S, QUICK_JVM, Finished, conf_words, eventually

DRIVER = "spark-kubernetes-driver"
"""Spark's name of its container."""
ACCOUNT = "spark"
NOBODY = 65534
"""User of drivers: the one in Spark's own images, not root."""
DRIVER_ENTRY = """\
exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \\
    --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
"""
EXECUTOR_ENTRY = f"""\
service=${{SPARK_DRIVER_URL#*@}}
echo "$SPARK_DRIVER_POD_IP ${{service%:*}}" >>/etc/hosts
{ENTRY}"""


@dataclass(frozen=True, slots=True)
class DriverPod:
    kubernetes: Kubernetes
    name: str

    def finish(self) -> Finished:
        """Wait until the driver's container has ended. A pod's log holds both the driver's messages and its answer."""

        def look() -> dict[str, Any] | None:
            pod = self.kubernetes.get("pod", self.name)
            assert pod is not None, f"the driver's pod {self.name} is gone"
            return pod if pod["status"]["phase"] in ("Succeeded", "Failed") else None

        pod = eventually(look, f"the end of {self.name}", JOB_S)
        [container] = pod["status"]["containerStatuses"]
        log = self.kubernetes.logs(self.name)
        return Finished(container["state"]["terminated"]["exitCode"], log, log)

    def touch(self, file: str) -> None:
        """Make a file in the driver's container."""
        self.kubernetes.kubectl("exec", self.name, "--", "touch", file)

    def kill(self) -> None:
        """Kill the driver's JVM at once, so that it has no last words. A pod that is deleted has, because it is asked to end
        first."""
        pod = self.kubernetes.get("pod", self.name)
        assert pod is not None
        word = f"spark.driver.bindAddress={pod['status']['podIP']}"
        found = [one for one in psutil.process_iter(["cmdline"]) if word in (one.info["cmdline"] or ())]
        [jvm] = [one for one in found if "org.apache.spark.deploy.SparkSubmit" in one.info["cmdline"]]
        jvm.kill()


def prepare(kubernetes: Kubernetes, inside: InMaster) -> dict[str, str]:
    """Make what a namespace of jobs needs (docs/kubernetes.md): secrets and an account. Return the settings of a job."""
    files = {"ca.pem": inside.ca(), "submit.token": inside.submit_token()}
    kubernetes.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sparkpace-submit"}, "stringData": files})
    jar = kubernetes.folder / "sparkpace-bridge.jar"
    jar.write_bytes(inside.bridge_jar())
    kubernetes.kubectl("create", "secret", "generic", "sparkpace-bridge", "--from-file", str(jar))
    kubernetes.kubectl("create", "serviceaccount", ACCOUNT)
    subject = f"--serviceaccount={kubernetes.namespace}:{ACCOUNT}"
    kubernetes.kubectl("create", "rolebinding", ACCOUNT, "--clusterrole=edit", subject)
    return inside.job_settings()


def submit(
    kubernetes: Kubernetes, python: Path, image: str, settings: Mapping[str, str], name: str, *words: str
) -> DriverPod:
    """Start stock spark-submit of the pyspark of `python`; return when the driver's pod is made. `words` are further options,
    then the application, which is a file of `apps`, and its arguments. `image` has a JRE and a Python."""
    home = spark_home(python)
    application = next(word for word in words if word.endswith(".py"))
    words = tuple(f"local://{APPS / word}" if word == application else word for word in words)
    pod = f"{name}-{len(list(kubernetes.folder.glob('driver-*.json')))}"
    conf = {
        "spark.app.name": name,
        "spark.kubernetes.namespace": kubernetes.namespace,
        "spark.kubernetes.container.image": image,
        "spark.kubernetes.container.image.pullPolicy": "Never",
        "spark.kubernetes.driver.pod.name": pod,
        "spark.kubernetes.driver.master": kubernetes.master().removeprefix("k8s://"),
        "spark.kubernetes.driver.podTemplateFile": _template(
            kubernetes, f"driver-{pod}", DRIVER, DRIVER_ENTRY, [home, APPS], {"runAsUser": NOBODY, "runAsGroup": NOBODY}
        ),
        "spark.kubernetes.driver.podTemplateContainerName": DRIVER,
        "spark.kubernetes.executor.podTemplateFile": _template(
            kubernetes, f"executor-{pod}", EXECUTOR, EXECUTOR_ENTRY, [home], {}
        ),
        "spark.kubernetes.executor.podTemplateContainerName": EXECUTOR,
        "spark.kubernetes.authenticate.driver.serviceAccountName": ACCOUNT,
        "spark.kubernetes.driver.request.cores": "0.1",
        "spark.kubernetes.executor.request.cores": "0.1",
        "spark.kubernetes.submission.waitAppCompletion": "false",
        **BOTH_FIRST,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JVM,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.pyspark.python": "python3",
        "spark.ui.enabled": "false",
        **settings,
    }
    plain = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    quick = f"{QUICK_JVM} -Djava.io.tmpdir={kubernetes.folder}"
    with with_protocols(kubernetes) as server:
        done = subprocess.run(
            [
                *(str(python.parent / "spark-submit"), "--master", f"k8s://{server}"),
                *("--deploy-mode", "cluster", *conf_words(conf), *words),
            ],
            env={**plain, "KUBECONFIG": str(kubernetes.kubeconfig), "SPARK_HOME": str(home), "JDK_JAVA_OPTIONS": quick},
            cwd=kubernetes.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-6000:]
    return DriverPod(kubernetes, pod)


def _template(
    kubernetes: Kubernetes, name: str, container: str, entry: str, shown: list[Path], security: Mapping[str, Any]
) -> Path:
    """Make a pod template with these folders of this host, read-only at the same paths; the first is Spark's home."""
    mounts = [{"name": f"host-{n}", "mountPath": str(at), "readOnly": True} for n, at in enumerate(shown)]
    volumes = [{"name": f"host-{n}", "hostPath": {"path": str(at), "type": "Directory"}} for n, at in enumerate(shown)]
    spec = {
        "containers": [
            {
                "name": container,
                "command": ["/bin/bash", "-euc", entry],
                "env": [{"name": "SPARK_HOME", "value": str(shown[0])}],
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
        "securityContext": dict(security),
    }
    file = kubernetes.folder / f"{name}.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", "spec": spec}))
    return file
