"""The Helm chart makes the objects of the manifests, and each value changes what it names and nothing else."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.version import VERSION
from tests.helm import CHART, Refused, helm
from tests.test_deploy import manifests, of_file

pytestmark = pytest.mark.helm

Object = dict[str, Any]
Change = Callable[[Object], None]
"""A change of a pod's spec."""


def rendered(values: Mapping[str, Any], namespace: str = "sparkpace", chart: Path = CHART) -> list[Object]:
    return list(yaml.safe_load_all(_rendered(json.dumps(values), namespace, chart)))


@cache
def _rendered(values: str, namespace: str, chart: Path) -> str:
    files = helm("render", chart, json.loads(values), name="sparkpace", namespace=namespace)
    return "".join(files.values())


def applied(folder: str) -> list[Object]:
    """Return the objects that `kubectl apply -k` makes, without the namespace itself."""
    kustomization = yaml.safe_load((CHART / folder / "kustomization.yaml").read_text())
    assert kustomization.keys() == {"apiVersion", "kind", "namespace", "resources"}, "nothing else is done to the manifests"
    return [in_namespace(one, kustomization["namespace"]) for one in manifests(folder) if one["kind"] != "Namespace"]


def in_namespace(made: Object, namespace: str) -> Object:
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert len(named) == len(objects)
    return named


def pods(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """Yield the name and the pod's spec of each workload."""
    for one in objects:
        if "template" in one.get("spec", {}):
            yield one["metadata"]["name"], one["spec"]["template"]["spec"]


def containers(pod: Object) -> list[Object]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def test_by_default_it_makes_what_the_manifests_of_node_mode_make() -> None:
    assert by_name(rendered({})) == by_name(applied("master") + applied("node-mode"))


def test_in_api_mode_it_makes_what_those_manifests_make_and_the_rights_in_the_namespace_of_the_jobs() -> None:
    rights = [in_namespace(one, "jobs") for one in of_file("api-mode/rights.yaml")]
    assert by_name(rendered({"mode": "api"})) == by_name(applied("master") + applied("api-mode") + rights)


def test_without_a_namespace_of_jobs_the_agent_has_rights_in_all() -> None:
    made = by_name(rendered({"mode": "api", "api": {"namespace": ""}}))
    rights = by_name(list(of_file("api-mode/rights-everywhere.yaml")))
    assert {key: made[key] for key in rights} == rights
    assert not {kind for kind, _ in made} & {"Role", "RoleBinding"}
    (container,) = made["Deployment", "sparkpace-pods"]["spec"]["template"]["spec"]["containers"]
    assert not [word for word in container["args"] if word.startswith("--namespace")]


def test_the_masters_names_and_the_agents_account_are_of_the_namespace_of_the_release() -> None:
    for mode in ("node", "api"):
        here, there = (rendered({"mode": mode}, namespace) for namespace in ("sparkpace", "elsewhere"))
        moved = yaml.safe_dump_all(here)
        moved = moved.replace("namespace: sparkpace\n", "namespace: elsewhere\n")
        moved = moved.replace("sparkpace-master.sparkpace", "sparkpace-master.elsewhere")
        assert by_name(there) == by_name(list(yaml.safe_load_all(moved)))
        assert "sparkpace-master.elsewhere.svc" in moved


def set_images(pod: Object) -> None:
    for container in containers(pod):
        container["image"] = "registry.example/pace:1"


def set_secret(pod: Object) -> None:
    for volume in pod["volumes"]:
        if volume["name"] == "tokens":
            volume["secret"]["secretName"] = "mine"


def set_requests(pod: Object) -> None:
    pod["containers"][0]["resources"] = {"requests": {"cpu": "30m"}}


PULL = [{"name": "registry"}]
NODES = {"disktype": "ssd"}
TAINTS = [{"key": "spark", "operator": "Exists"}]
ALL = ("sparkpace-master", "sparkpace-agent", "sparkpace-pods")
AGENTS = ALL[1:]


@pytest.mark.parametrize("mode", ["node", "api"])
@pytest.mark.parametrize(
    ("values", "change", "changed"),
    [
        ({"image": "registry.example/pace:1"}, set_images, ALL),
        ({"imagePullSecrets": PULL}, lambda pod: pod.update(imagePullSecrets=PULL), ALL),
        ({"agentsSecret": "mine"}, set_secret, AGENTS),
        ({"agents": {"resources": {"requests": {"cpu": "30m"}}}}, set_requests, AGENTS),
        ({"agents": {"nodeSelector": NODES}}, lambda pod: pod.update(nodeSelector=NODES), AGENTS),
        ({"agents": {"tolerations": TAINTS}}, lambda pod: pod.update(tolerations=TAINTS), AGENTS),
        ({"master": {"resources": {"requests": {"cpu": "30m"}}}}, set_requests, ALL[:1]),
        ({"master": {"nodeSelector": NODES}}, lambda pod: pod.update(nodeSelector=NODES), ALL[:1]),
        ({"master": {"tolerations": TAINTS}}, lambda pod: pod.update(tolerations=TAINTS), ALL[:1]),
    ],
)
def test_a_value_changes_what_it_names(mode: str, values: dict[str, Any], change: Change, changed: tuple[str, ...]) -> None:
    plain = rendered({"mode": mode})
    expected = copy.deepcopy(plain)
    for name, pod in pods(expected):
        if name in changed:
            change(pod)
    assert expected != plain
    assert by_name(rendered({"mode": mode, **values})) == by_name(expected)


def test_values_of_the_agent_that_asks_the_api_server_are_its_words() -> None:
    made = dict(pods(rendered({"mode": "api", "api": {"namespace": "etl", "cores": 7.5, "nodes": 12}})))
    (container,) = made["sparkpace-pods"]["containers"]
    plain = dict(pods(rendered({"mode": "api"})))
    words = [word.partition("=")[0] for word in plain["sparkpace-pods"]["containers"][0]["args"]]
    assert [word.partition("=")[0] for word in container["args"]] == words
    assert {"--namespace=etl", "--cores=7.5", "--nodes=12"} <= set(container["args"])


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"mode": "nodes"}, "mode"),
        ({"image": ""}, "image"),
        ({"agent": {}}, "agent"),
        ({"agents": {"nodeselector": {}}}, "nodeselector"),
        ({"api": {"cores": 0}}, "cores"),
        ({"api": {"nodes": 2.5}}, "nodes"),
        ({"api": {"namespace": None}}, "namespace"),
        ({"agents": {"resources": {"limits": {"cpu": "1"}}}}, "agents.resources.limits is given, but in node mode an agent"),
    ],
)
def test_values_that_cannot_be_meant_are_refused_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(Refused, match=named):
        rendered(values)


def test_limits_of_the_agent_that_asks_the_api_server_are_taken() -> None:
    limits = {"limits": {"memory": "256Mi"}}
    made = dict(pods(rendered({"mode": "api", "agents": {"resources": limits}})))
    assert made["sparkpace-pods"]["containers"][0]["resources"] == limits


def test_helm_finds_no_fault() -> None:
    for values in ({}, {"mode": "api"}):
        report = helm("lint", CHART, values, strict=True)
        assert report["errors"] == []
        assert [one for one in report["messages"] if one["severity"] > 1] == []


def test_its_versions_are_those_of_the_project() -> None:
    described = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (described["version"], described["appVersion"]) == (VERSION, VERSION)


def test_a_packaged_chart_has_all_that_it_needs(tmp_path: Path) -> None:
    packaged = Path(helm("package", CHART, destination=tmp_path))
    for mode in ("node", "api"):
        assert by_name(rendered({"mode": mode}, chart=packaged)) == by_name(rendered({"mode": mode}))
