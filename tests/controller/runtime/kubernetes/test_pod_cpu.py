"""A pod's JSON as an API server has it, and malformed JSON."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.runtime.claimed_process import Serves
from controller.runtime.kubernetes.pod_cpu import parse_cores_m, pod_cpu
from tests.fakes.kube_pods import executor_pod
from tests.fakes.kube_state import KubeState

SERVES = Serves("spark-1", "4", "spark://CoarseGrainedScheduler@driver:7078")


def made(**changed: Any) -> dict[str, Any]:
    return KubeState().create("jobs", executor_pod("exec-4", SERVES) | changed)


@pytest.mark.parametrize(
    ("quantity", "cores_m"),
    [
        ("500m", 500),
        ("1", 1000),
        ("1.5", 1500),
        ("0.0001", 1),
        ("100500u", 101),
        ("1n", 1),
        ("2k", None),
        ("0", 0),
        (2, 2000),
        (0.5, 500),
        ("1Mi", None),
        ("-1", None),
        ("1e3", None),
        ("", None),
        (None, None),
        ("9" * 4000, None),
        ([], None),
    ],
)
def test_amounts_of_cpu(quantity: object, cores_m: int | None) -> None:
    assert parse_cores_m(quantity) == cores_m


def test_what_a_pod_says() -> None:
    pod = pod_cpu(made())
    assert pod is not None
    assert (pod.namespace, pod.name, pod.container, pod.node) == ("jobs", "exec-4", "spark-kubernetes-executor", "node-1")
    assert (pod.qos, pod.limit_m, pod.request_m, pod.in_force_m, pod.pending) == ("Burstable", 500, 200, 500, "")
    assert (pod.serves, pod.labels, pod.ended, pod.leaving) == (SERVES, ("spark-1", "4"), False, False)
    assert pod.version > 0


def test_the_first_container_is_the_executor_where_none_has_sparks_name() -> None:
    raw = made()
    raw["spec"]["containers"][0]["name"] = raw["status"]["containerStatuses"][0]["name"] = "mine"
    pod = pod_cpu(raw)
    assert pod is not None
    assert (pod.container, pod.limit_m, pod.request_m, pod.in_force_m) == ("mine", 500, 200, 500)


@pytest.mark.parametrize(
    ("said", "in_force_m"),
    [({"limits": {"cpu": "300m"}}, 300), ({"requests": {"cpu": "200m"}}, None), (None, 500)],
)
def test_the_limit_in_force_is_the_nodes_or_else_that_of_the_spec(
    said: dict[str, Any] | None, in_force_m: int | None
) -> None:
    raw = made()
    raw["status"]["containerStatuses"][0]["resources"] = said
    pod = pod_cpu(raw)
    assert pod is not None
    assert (pod.limit_m, pod.in_force_m) == (500, in_force_m)


@pytest.mark.parametrize(
    ("condition", "pending"),
    [
        ({"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "full"}, "Deferred: full"),
        ({"type": "PodResizePending", "status": "True", "reason": "Infeasible"}, "Infeasible"),
        ({"type": "PodResizeInProgress", "status": "True"}, ""),
        ({"type": "PodResizeInProgress", "status": "True", "reason": "Error", "message": "x"}, "Error: x"),
        ({"type": "PodResizePending", "status": "False", "reason": "Deferred"}, ""),
        ({"type": "Ready", "status": "True"}, ""),
    ],
)
def test_what_waits(condition: dict[str, str], pending: str) -> None:
    raw = made()
    raw["status"]["conditions"] = [condition]
    pod = pod_cpu(raw)
    assert pod is not None
    assert pod.pending == pending


def test_one_that_is_over_or_about_to_be() -> None:
    over = made()
    over["status"]["phase"] = "Failed"
    stopped = made()
    stopped["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 137}}
    leaving = made()
    leaving["metadata"]["deletionTimestamp"] = "2026-11-25T07:00:00Z"
    found = [pod_cpu(raw) for raw in (over, stopped, leaving)]
    assert [(pod.ended, pod.leaving) for pod in found if pod] == [(True, False), (True, False), (False, True)]


@pytest.mark.parametrize(
    "broken",
    [{}, {"metadata": 1}, {"spec": {"containers": []}}, {"spec": {"containers": [{"name": 1}]}}, {"status": {"phase": []}}],
)
def test_what_is_no_pod_is_none(broken: dict[str, Any]) -> None:
    assert pod_cpu(made() | broken if broken else {}) is None


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(anything, st.sampled_from(["metadata", "spec", "status"]), st.sampled_from(["containers", "labels", "conditions", ""]))
def test_whatever_is_in_it_it_is_a_pod_or_none(odd: Any, part: str, name: str) -> None:
    raw = made()
    if name:
        raw[part][name] = odd
    else:
        raw[part] = odd
    pod_cpu(raw)
