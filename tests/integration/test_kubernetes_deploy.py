"""deploy/kubernetes on a real cluster: the master as a Deployment, an agent on its node as a DaemonSet, a job they pace."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.home import Home
from controller.submit.attaching import attach_settings
from controller.wire.command import ApplicationView
from tests.integration.kubernetes_cluster import Kubernetes, load_image
from tests.integration.local_cluster import conf_words, eventually
from tests.integration.pacing import AIM, assert_paced, deadline_for

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.kubernetes]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy" / "kubernetes"
JOB = ("stages.py", "--work", "40", "--tasks", "8", "--rounds", "3")
HOME = "/var/lib/sparkpace/home"


def kustomized(kubernetes: Kubernetes, part: str, image: str, patches: Sequence[Mapping[str, Any]]) -> Path:
    """An overlay of one of the folders for this namespace and image."""
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

    def views(self, name: str) -> list[ApplicationView]:
        found = json.loads(self.sparkpace("ps", "--json"))
        return [view for view in found["applications"] if view["name"] == name]


def test_a_job_is_paced_by_what_kustomize_deploys_and_nothing_stays(
    kubernetes: Kubernetes, executor_image: str, node_image: str, tmp_path: Path
) -> None:
    load_image(node_image)
    volume: dict[str, Any] = {"name": "home", "emptyDir": {}, "persistentVolumeClaim": None}
    master = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "sparkpace-master"},
        "spec": {"template": {"spec": {"volumes": [volume]}}},
    }
    node, _ = kubernetes.node()
    with applied(kubernetes, kustomized(kubernetes, "master", node_image, [master])):
        inside = InMaster(kubernetes)
        eventually(lambda: "ca.pem" in inside.run("ls", HOME), "the master's first start")
        tokens = {
            node: inside.run("cat", inside.run("sparkpace", "token", node).strip()),
            "ca.pem": inside.run("cat", f"{HOME}/ca.pem"),
        }
        kubernetes.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "sparkpace-agents"}, "stringData": tokens}
        )
        container = {"name": "agent", "env": [{"name": "MASTER", "value": inside.url}]}
        agent = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "sparkpace-agent"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
        with applied(kubernetes, kustomized(kubernetes, "node-mode", node_image, [agent])):
            kubernetes.running("app=sparkpace-agent", 1)
            home = Home(tmp_path / "home", inside.url)
            home.create()
            home.ca_file.write_text(tokens["ca.pem"])
            home.submit_token_file.write_text(inside.run("cat", f"{HOME}/submit.token"))
            settings = attach_settings(home, home.need_cluster())
            words = conf_words(settings)

            def run(*more: str) -> dict[str, Any]:
                job = kubernetes.spark_submit(Path(sys.executable), executor_image, *words, "--name", "deployed", *more, *JOB)
                assert job.finish().ok().answer["ok"]
                return dict(json.loads(inside.sparkpace("report", "last", "--json")))

            taught = run()
            assert taught["executors"] == 2
            paced = run("--conf", f"spark.pace.deadline={deadline_for(taught['end_s']):.0f}s", *AIM)
            assert paced["app_id"] != taught["app_id"]
            assert paced["deadline_s"] is not None
            assert_paced(paced, ())
        eventually(lambda: not kubernetes.all("pods", "app=sparkpace-agent"), "the agent's end")
    eventually(lambda: not kubernetes.all("pods"), "the end of all pods")
    assert list(Path("/run/sparkpace").iterdir()) == [], "an agent that was stopped leaves no records on its node"
    Path("/run/sparkpace").rmdir()
