"""The manifests of Kubernetes: an agent that asks only the API server may do what it needs and nothing else, and pods that
need no node meet the Pod Security Standard `restricted`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from controller.cli.services import agent
from controller.home import Home

KUBERNETES = Path(__file__).resolve().parents[1] / "deploy/kubernetes"
RIGHTS = ("rights.yaml", "rights-everywhere.yaml")


def manifests(folder: str) -> list[dict[str, Any]]:
    """Return the manifests that `kubectl apply -k` applies."""
    listed = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())["resources"]
    return [one for name in listed for one in of_file(f"{folder}/{name}")]


def of_file(name: str) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load_all((KUBERNETES / name).read_text())


def deployment(folder: str) -> dict[str, Any]:
    (found,) = [one for one in manifests(folder) if one["kind"] == "Deployment"]
    return found


@pytest.mark.parametrize("name", RIGHTS)
def test_it_may_look_at_pods_and_resize_them_and_nothing_else(name: str) -> None:
    role, binding = of_file(f"api-mode/{name}")
    allowed = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed == {("", "pods", "list"), ("", "pods", "watch"), ("", "pods/resize", "patch")}
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == (role["kind"], role["metadata"]["name"])


@pytest.mark.parametrize("name", RIGHTS)
def test_the_role_is_the_agents(name: str) -> None:
    account = deployment("api-mode")["spec"]["template"]["spec"]["serviceAccountName"]
    assert account in [one["metadata"]["name"] for one in manifests("api-mode") if one["kind"] == "ServiceAccount"]
    _, binding = of_file(f"api-mode/{name}")
    there = yaml.safe_load((KUBERNETES / "api-mode/kustomization.yaml").read_text())["namespace"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": there}]


def test_the_default_is_one_namespace() -> None:
    assert [one["kind"] for one in of_file("api-mode/rights.yaml")] == ["Role", "RoleBinding"]
    assert not any("namespace" in one["metadata"] for one in of_file("api-mode/rights.yaml")), "kubectl -n names it"
    assert {one["kind"] for one in manifests("api-mode")} == {"ServiceAccount", "Deployment"}
    (container,) = deployment("api-mode")["spec"]["template"]["spec"]["containers"]
    assert [word for word in container["args"] if word.startswith("--namespace=")]


@pytest.mark.parametrize("folder", ["api-mode", "master"])
def test_what_needs_no_node_is_restricted(folder: str) -> None:
    spec = deployment(folder)["spec"]
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
    pod = spec["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostPID", "hostNetwork", "hostIPC"} & pod.keys()
    assert not any("hostPath" in volume for volume in pod["volumes"])
    for container in pod.get("initContainers", []) + pod["containers"]:
        context = container["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["capabilities"]["drop"] == ["ALL"]


def test_an_agent_is_ready_once_it_has_joined_and_goes_on() -> None:
    spec = deployment("api-mode")["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    (home,) = [Path(one["value"]) for one in container["env"] if one["name"] == "SPARKPACE_HOME"]
    joined = Home(home).agent("pods") / "cluster_id"  # as `controller.agent.membership` writes it
    assert container["readinessProbe"]["exec"]["command"] == ["test", "-f", str(joined)]
    assert spec["minReadySeconds"] > 0


def test_its_words_are_options_of_the_agent(tmp_path: Path) -> None:
    (container,) = deployment("api-mode")["spec"]["template"]["spec"]["containers"]
    command, *words = container["args"]
    assert command == "agent"
    # it gets as far as to its token, which is not here
    done = CliRunner().invoke(agent, [*words, "--home", str(tmp_path / "home")])
    assert "token" in str(done.exception or done.output)
    assert "No such option" not in done.output
