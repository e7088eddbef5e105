"""The Helm chart on a real cluster: Helm's own code installs it, changes it and takes it away again.

Not covered: jobs that are paced by what it makes, because it makes the objects of deploy/kubernetes, which have such tests.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from experiments.harness.one_node import load_image
from tests.helm import CHART, helm
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.kubernetes_deployed import InMaster, clear_node, kustomized, make_agents_secret, turn
from tests.integration.local_cluster import eventually
from tests.test_helm import by_name

pytestmark = [pytest.mark.slow, pytest.mark.docker, pytest.mark.kubernetes, pytest.mark.helm]

NAME = "sparkpace"
OWNER = 10001
"""The user and group of the master's pod."""
REQUESTS = {"requests": {"cpu": "30m", "memory": "70Mi"}}
TAINTS = [{"key": "spark", "operator": "Exists"}]


@pytest.fixture
def volume(kubernetes: Kubernetes) -> Iterator[None]:
    """Provide a volume for the master's claim: the cluster makes none by itself."""
    folder = kubernetes.folder / "volume"
    folder.mkdir()
    os.chown(folder, OWNER, OWNER)
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "claimRef": {"namespace": kubernetes.namespace, "name": "sparkpace-home"},
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": str(folder)},
    }
    name = kubernetes.namespace
    kubernetes.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec})
    yield
    kubernetes.delete("persistentvolume", name)


class Release:
    """A release of the chart in a namespace."""

    def __init__(self, kubernetes: Kubernetes) -> None:
        self._cluster = {"kubeconfig_path": kubernetes.kubeconfig, "namespace": kubernetes.namespace}

    def helm(self, action: str, *words: Any, **options: Any) -> Any:
        return helm(action, *words, cluster=self._cluster, wait="hookOnly", **options)

    @contextmanager
    def installed(self, values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        try:
            yield self.helm("install", CHART, NAME, values)
        finally:
            self.helm("uninstall", NAME, ignore_not_found=True)

    def upgrade(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self.helm("upgrade", CHART, NAME, values))


def kustomize(kubernetes: Kubernetes, part: str, image: str) -> list[dict[str, Any]]:
    """Return what `kubectl apply -k` makes for this namespace and image, without the namespace itself."""
    shown = kubernetes.kubectl("kustomize", str(kustomized(kubernetes, part, image, [])))
    # kustomize does not know that these are names of the namespace
    shown = shown.replace("sparkpace-master.sparkpace", f"sparkpace-master.{kubernetes.namespace}")
    return [one for one in yaml.safe_load_all(shown) if one["kind"] != "Namespace"]


def ours(kubernetes: Kubernetes) -> set[str]:
    """Return the namespace's objects, of all kinds, whose names contain that of the release."""
    kinds = kubernetes.kubectl("api-resources", "--namespaced", "--verbs=list", "--output=name").split()
    listed = ",".join(kind for kind in kinds if not kind.startswith("events"))
    return {one for one in kubernetes.kubectl("get", listed, "--output=name").split() if NAME in one}


def test_it_is_installed_changed_and_taken_away(kubernetes: Kubernetes, node_image: str, volume: None) -> None:
    load_image(node_image)
    release = Release(kubernetes)
    values = {"image": node_image}
    with turn():
        with release.installed(values) as made:
            parts = kustomize(kubernetes, "master", node_image) + kustomize(kubernetes, "node-mode", node_image)
            assert by_name(list(yaml.safe_load_all(made["manifest"]))) == by_name(parts)
            inside = InMaster(kubernetes)
            make_agents_secret(inside)
            kubernetes.running("app=sparkpace-agent", 1)

            changed = release.upgrade({**values, "agents": {"resources": REQUESTS, "tolerations": TAINTS}})
            assert (changed["revision"], changed["status"]) == (2, "deployed")

            def renewed() -> bool:
                [pod] = kubernetes.running("app=sparkpace-agent", 1)
                return bool(pod["spec"]["containers"][0]["resources"] == REQUESTS)

            eventually(renewed, "an agent with the new requests")
            [agent] = kubernetes.running("app=sparkpace-agent", 1)
            assert TAINTS[0] in agent["spec"]["tolerations"]
            [master] = kubernetes.running("app=sparkpace-master", 1)
            assert master["metadata"]["uid"] == inside.pod["metadata"]["uid"], "what has not changed goes on"

            release.upgrade({**values, "mode": "api", "api": {"namespace": kubernetes.namespace}})
            eventually(lambda: not kubernetes.all("pods", "app=sparkpace-agent"), "the end of the agent on the node")
            assert kubernetes.all("daemonsets") == []
            allowed = "--as", f"system:serviceaccount:{kubernetes.namespace}:sparkpace-pods"
            assert kubernetes.kubectl("auth", "can-i", "patch", "pods", "--subresource=resize", *allowed).strip() == "yes"
        eventually(lambda: ours(kubernetes) == {"secret/sparkpace-agents"}, "the end of all that Helm made")
        clear_node()
