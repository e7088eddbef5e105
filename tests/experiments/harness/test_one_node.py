"""Facts that pods of executors see of their node, and the sentence where there is no Kubernetes. A script stands for
`kubectl`; the real one is in `tests/integration`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.harness import one_node
from experiments.harness.one_node import OneNode, find_kubeconfig, fresh_namespace, pod_template
from stage_model.errors import Unavailable

KUBECTL = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do shift 2; done
echo "$@" >> words
case "$1 $2" in
    "get serviceaccount") echo serviceaccount/default;;
    "get nodes") echo '{"items": [{"metadata": {"name": "one"}, "status": {"addresses": [
        {"type": "Hostname", "address": "one"}, {"type": "InternalIP", "address": "10.0.0.1"}]}}]}';;
    "config view") printf https://10.0.0.1;;
    "fail now") echo "no route" >&2; exit 3;;
esac
"""


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the file into which the stand-in writes its arguments."""
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "words"


def test_a_namespace_goes_with_its_block_and_one_that_a_crash_left_behind_goes_first(kubectl: Path, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), fresh_namespace(tmp_path / "config", "mine", tmp_path / "folder") as cluster:
        raise ZeroDivisionError(cluster.kubectl("in", "the", "block"))
    assert kubectl.read_text().splitlines() == [
        "delete namespace mine --ignore-not-found",
        "create namespace mine",
        "get serviceaccount default --ignore-not-found -o name",
        "in the block",
        "delete namespace mine --wait=false --ignore-not-found",
        "delete pods --all",
    ]


def test_what_kubectl_complains_of_is_one_sentence(kubectl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = OneNode(tmp_path / "config", "mine", tmp_path)
    with pytest.raises(Unavailable, match=r"`kubectl fail now` .* 3: no route"):
        cluster.kubectl("fail", "now")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(Unavailable, match=r"`kubectl get x` .*No such file"):
        cluster.kubectl("get", "x")


def test_a_driver_gets_its_address_its_namespace_and_a_template_that_stays(kubectl: Path, tmp_path: Path) -> None:
    cluster = OneNode(tmp_path / "config", "mine", tmp_path)
    settings = cluster.settings("image:1", Path("/spark"), [Path("/jars")])
    assert cluster.master() == "k8s://https://10.0.0.1"
    assert cluster.variables() == {"KUBECONFIG": f"{tmp_path}/config"}
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "10.0.0.1"
    assert settings["spark.kubernetes.namespace"] == "mine"
    assert not [key for key in settings if "limit" in key]
    template = Path(settings["spark.kubernetes.executor.podTemplateFile"])
    other = cluster.settings("image:1", Path("/another"), [Path("/jars")])["spark.kubernetes.executor.podTemplateFile"]
    assert other != str(template)
    assert json.loads(template.read_text()) == pod_template(Path("/spark"), [Path("/jars")])


def test_a_pod_sees_each_folder_once_and_writes_none() -> None:
    made = pod_template(Path("/spark"), [Path("/in"), Path("/spark"), Path("/in")])
    [container] = made["spec"]["containers"]
    hosts = {volume["name"]: volume["hostPath"]["path"] for volume in made["spec"]["volumes"]}
    mounts = container["volumeMounts"]
    assert [mount["mountPath"] for mount in mounts] == [hosts[mount["name"]] for mount in mounts] == ["/spark", "/in"]
    assert all(mount["readOnly"] for mount in mounts)
    assert container["env"] == [{"name": "SPARK_HOME", "value": "/spark"}]
    assert "resources" not in container, "what Spark asks for is all that a pod has"


def test_a_cluster_that_is_named_for_tests_goes_before_the_script_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_node, "STATE", tmp_path)
    with pytest.raises(Unavailable, match=f"{tmp_path}/admin.kubeconfig.*`make kubernetes`"):
        find_kubeconfig({"KUBECONFIG": "/of/the/user"})
    (tmp_path / "admin.kubeconfig").touch()
    assert find_kubeconfig({}) == tmp_path / "admin.kubeconfig"
    with pytest.raises(Unavailable, match="/none"):
        find_kubeconfig({"SPARKPACE_TEST_KUBECONFIG": "/none"})
    (tmp_path / "named").touch()
    assert find_kubeconfig({"SPARKPACE_TEST_KUBECONFIG": str(tmp_path / "named")}) == tmp_path / "named"
