"""The manifests of the mode that asks only the API server: it may do what it needs and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from controller.cli.services import agent

API_MODE = Path(__file__).resolve().parents[1] / "deploy/kubernetes/api-mode"


def manifests() -> list[dict[str, Any]]:
    listed = yaml.safe_load((API_MODE / "kustomization.yaml").read_text())["resources"]
    return [one for name in listed for one in yaml.safe_load_all((API_MODE / name).read_text())]


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [one for one in manifests() if one["kind"] == kind]
    return found


def test_it_may_look_at_pods_and_resize_them_and_nothing_else() -> None:
    allowed = {
        (group, resource, verb)
        for rule in of_kind("ClusterRole")["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    pods = {("", "pods", verb) for verb in ("get", "list", "watch")}
    assert allowed == pods | {("", "pods/resize", "patch")}


def test_the_role_is_the_agents() -> None:
    account, binding = of_kind("ServiceAccount")["metadata"]["name"], of_kind("ClusterRoleBinding")
    assert binding["roleRef"]["name"] == of_kind("ClusterRole")["metadata"]["name"]
    assert [(one["kind"], one["name"]) for one in binding["subjects"]] == [("ServiceAccount", account)]
    assert of_kind("Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == account


def test_there_is_one_agent_without_rights_on_its_node() -> None:
    deployment = of_kind("Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "Recreate")
    pod = deployment["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert not {"hostPID", "hostNetwork", "hostIPC"} & pod.keys()
    assert not any("hostPath" in volume for volume in pod["volumes"])
    for container in pod["initContainers"] + pod["containers"]:
        context = container["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["capabilities"]["drop"] == ["ALL"]


def test_its_words_are_options_of_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (container,) = of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
    command, *words = container["args"]
    assert command == "agent"
    # it gets as far as to its token, which is not here
    done = CliRunner().invoke(agent, [*words, "--home", str(tmp_path / "home")])
    assert "token" in str(done.exception or done.output)
    assert "No such option" not in done.output
