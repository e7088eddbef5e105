"""Objects that deploy/kubernetes makes on a real cluster: the master as a Deployment, an agent on its node as a DaemonSet.

Both are gone afterwards, and so is what they kept on the node. Not covered: jobs (the tests).
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from controller.asks.properties import parse_properties
from controller.runs.run_folder import SAMPLES, read_samples
from controller.wire.command import ApplicationView
from controller.wire.worker import Sample
from experiments.harness.one_node import STATE, load_image
from stage_model.errors import Unavailable
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.local_cluster import eventually

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
HOME = "/var/lib/sparkpace/home"


def kustomized(kubernetes: Kubernetes, part: str, image: str, patches: Sequence[Mapping[str, Any]]) -> Path:
    """Make an overlay of one of the folders for this namespace and image."""
    name, _, tag = image.partition(":")
    overlay = kubernetes.folder / part
    overlay.mkdir()
    files = [f"patch-{number}.json" for number in range(len(patches))]
    for file, patch in zip(files, patches, strict=True):
        (overlay / file).write_text(json.dumps(patch))
    kustomization = {
        "namespace": kubernetes.namespace,
        "resources": [os.path.relpath(DEPLOY / part, overlay)],
        "images": [{"name": "sparkpace-node", "newName": name, "newTag": tag}],
        "patchesStrategicMerge": files,
    }
    (overlay / "kustomization.yaml").write_text(json.dumps(kustomization))
    return overlay


@contextmanager
def applied(kubernetes: Kubernetes, overlay: Path) -> Iterator[None]:
    kubernetes.kubectl("apply", "-k", str(overlay))
    try:
        yield
    finally:
        kubernetes.kubectl("delete", "-k", str(overlay), "--ignore-not-found")


class InMaster:
    """Commands in the master's pod."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self.kubernetes = kubernetes
        [self.pod] = kubernetes.running("app=sparkpace-master", 1)
        self.address = self.pod["status"]["podIP"]
        self.url = f"https://{self.address}:7070"

    def run(self, *words: str) -> str:
        return self.kubernetes.kubectl("exec", self.pod["metadata"]["name"], "--", *words)

    def sparkpace(self, *words: str) -> str:
        return self.run("env", f"SPARKPACE_MASTER={self.url}", "sparkpace", *words)

    def ca(self) -> str:
        return self.run("cat", f"{HOME}/ca.pem")

    def submit_token(self) -> str:
        return self.run("cat", f"{HOME}/submit.token")

    def bridge_jar(self) -> bytes:
        return base64.b64decode(self.run("sh", "-c", 'base64 "$(sparkpace jar)"'))

    def job_settings(self) -> dict[str, str]:
        """Return the settings of a job whose driver is a pod."""
        return parse_properties(self.sparkpace("conf", "--attach", "--kubernetes"))

    def summary(self, name: str = "last") -> dict[str, Any]:
        """Return the newest record of that name, once all of that name are over."""
        eventually(lambda: all(view.finished for view in self.views(name)), f"the record of {name}")
        return dict(json.loads(self.sparkpace("report", name, "--output", "json")))

    def samples(self, name: str) -> list[Sample]:
        """Return the samples of the newest run of that name so far."""
        folder, copy = self.views(name)[-1].run_dir, self.kubernetes.folder
        (copy / SAMPLES).write_text(self.run("sh", "-c", f"cat {folder}/{SAMPLES} || true"))
        return read_samples(copy)

    def sampled(self, name: str, *, more_than: Mapping[str, int]) -> Counter[str] | None:
        """Count the samples of each executor in the newest run of that name; None until each number exceeds `more_than`."""
        found = Counter(sample.executor_id for sample in self.samples(name))
        return found if len(found) == 2 and all(number > more_than[executor] for executor, number in found.items()) else None

    def views(self, name: str) -> list[ApplicationView]:
        every = msgspec.json.decode(self.sparkpace("ps", "--output", "json"), type=list[ApplicationView])
        return [view for view in every if view.name == name]


@contextmanager
def turn() -> Iterator[None]:
    """Take turns: agents of all namespaces keep their records in one folder of the node, which goes with the first that
    leaves."""
    folder = STATE if STATE.is_dir() else Path(tempfile.gettempdir())  # the script takes STATE's files away again
    with (folder / "sparkpace-deployed.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def deployed(kubernetes: Kubernetes, image: str) -> Iterator[InMaster]:
    """Deploy master and agent, one deployment on this machine at a time."""
    load_image(image)
    with turn(), _deployed(kubernetes, image) as inside:
        yield inside


def make_agents_secret(inside: InMaster) -> None:
    """Make the secret with the token of the agent on the node, once the master has its home."""
    eventually(lambda: "ca.pem" in inside.run("find", str(Path(HOME).parent)), "the master's first start")
    node, _ = inside.kubernetes.node()
    tokens = {node: inside.run("cat", inside.run("sparkpace", "token", node).strip()), "ca.pem": inside.ca()}
    inside.kubernetes.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sparkpace-agents"}, "stringData": tokens}
    )


def clear_node() -> None:
    """Remove the folder that agents leave on their node; it must be empty."""
    assert list(Path("/run/sparkpace").iterdir()) == [], "an agent that was stopped leaves no records on its node"
    Path("/run/sparkpace").rmdir()


def _print_logs(kubernetes: Kubernetes) -> None:
    """Print the logs, which pytest shows of a test that failed: the pods do not stay."""
    for app in ("sparkpace-master", "sparkpace-agent"):
        try:
            print(kubernetes.kubectl("logs", "--selector", f"app={app}", "--tail=1000"))
        except Unavailable as problem:  # the logs of a test that passed are not needed
            print(problem)


@contextmanager
def _deployed(kubernetes: Kubernetes, image: str) -> Iterator[InMaster]:
    volume: dict[str, Any] = {"name": "home", "emptyDir": {}, "persistentVolumeClaim": None}
    master = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "sparkpace-master"},
        "spec": {"template": {"spec": {"volumes": [volume]}}},
    }
    with applied(kubernetes, kustomized(kubernetes, "master", image, [master])):
        inside = InMaster(kubernetes)
        make_agents_secret(inside)
        container = {"name": "agent", "env": [{"name": "MASTER", "value": inside.url}]}
        agent = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "sparkpace-agent"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        with applied(kubernetes, kustomized(kubernetes, "node-mode", image, [agent])):
            kubernetes.running("app=sparkpace-agent", 1)
            yield inside
            _print_logs(kubernetes)
        eventually(lambda: not kubernetes.all("pods", "app=sparkpace-agent"), "the agent's end")
    eventually(lambda: not kubernetes.all("pods", "app=sparkpace-master"), "the master's end")
    clear_node()
