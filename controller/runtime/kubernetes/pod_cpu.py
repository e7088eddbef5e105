"""A Spark executor's pod as it describes itself and its CPU, from the API server's JSON, and the search for it. Pure.

Any user who may create pods writes most of this, so it is hostile input: a pod with a field of another type makes no
`PodCpu`. Cores are whole thousandths here, as Kubernetes counts them ("250m" is 250), because sums of floats drift.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from controller.runtime.claimed_process import Serves
from stage_model.errors import RuntimeFailed, RuntimeRefused

CONTAINER = "spark-kubernetes-executor"
"""Name that Spark gives the container, unless a pod template names another."""
APPLICATION_LABEL, EXECUTOR_LABEL = "spark-app-selector", "spark-exec-id"
DRIVER_ENV, EXECUTOR_ENV, APPLICATION_ENV = "SPARK_DRIVER_URL", "SPARK_EXECUTOR_ID", "SPARK_APPLICATION_ID"
GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
UNKNOWN = Serves("", "", "")
MOST_CORES_M = 1_000_000
_QUANTITY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{0,9})?)(n|u|m|k|)")
_EXPONENT = {"n": -6, "u": -3, "m": 0, "": 3, "k": 6}
"""Powers of ten by which units are thousandths."""


@dataclass(frozen=True, slots=True)
class PodCpu:
    """A pod, with its CPU in thousandths of a core (None: no amount is set). `version` grows with every change; `leaving`: it
    is about to be ended. `limit_m` and `request_m` are what the pod's spec asks for, `in_force_m` the limit that its node
    has put into force (that of the spec where the node does not say). `pending`: the node's words on a resize that it has
    not carried out (empty: none waits). `serves` is what its environment says that it is; `labels`: application
    and executor by its labels."""

    uid: str
    namespace: str
    name: str
    container: str
    version: int = 0
    node: str = ""
    ip: str = ""
    ended: bool = False
    leaving: bool = False
    qos: str = BURSTABLE
    limit_m: int | None = None
    request_m: int | None = None
    in_force_m: int | None = None
    pending: str = ""
    serves: Serves = UNKNOWN
    labels: tuple[str, str] = ("", "")


def parse_cores_m(quantity: object) -> int | None:
    """Return thousandths of a core, rounded up; None for a value that is no amount of CPU."""
    found = _QUANTITY.fullmatch(str(quantity)) if isinstance(quantity, str | int | float) else None
    cores_m = math.ceil(Decimal(found[1]).scaleb(_EXPONENT[found[2]])) if found else None
    return cores_m if cores_m is not None and cores_m <= MOST_CORES_M else None


def shortened(words: str) -> str:
    """Shorten another program's words for use within a sentence of ours."""
    words = " ".join(words.split())
    return words if len(words) <= 200 else words[:197] + "..."


def pod_cpu(pod: Mapping[str, Any]) -> PodCpu | None:
    """Return the pod; None for data that describe no pod with a container."""
    try:
        return msgspec.convert(_fields(pod), PodCpu)
    except (msgspec.ValidationError, AttributeError, LookupError, TypeError, ValueError):
        return None


def _fields(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `PodCpu`, each of whatever type is there."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    container = next((one for one in spec["containers"] if one["name"] == CONTAINER), spec["containers"][0])
    said = {one["name"]: one.get("value") or "" for one in container.get("env") or ()}
    statuses: Sequence[Mapping[str, Any]] = status.get("containerStatuses") or ()
    shown = next((one for one in statuses if one["name"] == container["name"]), {})
    asked = container.get("resources") or {}
    labels, version = metadata.get("labels") or {}, metadata.get("resourceVersion", "")
    return {
        "uid": metadata["uid"],
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "container": container["name"],
        "version": int(version) if re.fullmatch("[0-9]{1,18}", version) else 0,
        "node": spec.get("nodeName") or "",
        "ip": status.get("podIP") or "",
        "ended": status.get("phase") in {"Succeeded", "Failed"} or (shown.get("state") or {}).get("terminated") is not None,
        "leaving": metadata.get("deletionTimestamp") is not None,
        "qos": status.get("qosClass") or "",
        "limit_m": _cores_m(asked, "limits"),
        "request_m": _cores_m(asked, "requests"),
        "in_force_m": _cores_m(shown.get("resources") or asked, "limits"),
        "pending": _pending(status.get("conditions") or ()),
        "serves": {
            "spark_application_id": said.get(APPLICATION_ENV, ""),
            "executor_id": said.get(EXECUTOR_ENV, ""),
            "driver_url": said.get(DRIVER_ENV, ""),
        },
        "labels": (labels.get(APPLICATION_LABEL, ""), labels.get(EXECUTOR_LABEL, "")),
    }


def _cores_m(resources: Mapping[str, Any], kind: str) -> int | None:
    return parse_cores_m((resources.get(kind) or {}).get("cpu"))


def _pending(conditions: Iterable[Mapping[str, Any]]) -> str:
    """Return the node's words on a resize that waits, or that was begun and failed. A resize that is merely under way is no
    news."""
    for one in conditions:
        kind, reason, message = one["type"], one.get("reason"), one.get("message")
        if one.get("status") != "False" and (kind == "PodResizePending" or (kind == "PodResizeInProgress" and reason)):
            return f"{reason or 'Deferred'}: {message}" if message else str(reason or "Deferred")
    return ""


def find_claimed_pod(pods: Iterable[PodCpu], serves: Serves, host: str) -> PodCpu:
    """Return the pod of that executor, which its driver knows at the address `host`. Raise `RuntimeRefused` for a pod that is
    not what it says, `RuntimeFailed` while no such pod is seen.

    Anybody who may create pods can give one the labels of another's. So labels, environment and address must all be those of
    this executor: Spark has started the pod for this driver, application and number, and the driver has heard from it at that
    address."""
    labels = (serves.spark_application_id, serves.executor_id)
    labelled = [pod for pod in pods if pod.labels == labels and not pod.ended]
    alike = [pod for pod in labelled if pod.serves == serves]
    there = [pod for pod in alike if host and pod.ip == host.strip("[]")]
    if len(there) == 1:
        return there[0]
    if not labelled:
        raise RuntimeFailed(
            f"no pod that this agent sees has the labels of executor {serves.executor_id}; the agent will look again"
        )
    first = (there or alike or labelled)[0]
    name = f"{first.namespace}/{first.name}"
    if there:
        other = f"{there[1].namespace}/{there[1].name}"
        raise RuntimeRefused(f"pods {name} and {other} both claim to be this executor, at one address")
    if not alike:
        raise RuntimeRefused(
            f"pod {name} has the labels of executor {serves.executor_id}, but its environment says that Spark has not "
            "started it for this driver"
        )
    if not first.ip:
        raise RuntimeFailed(f"pod {name} has no address yet; the agent will look again")
    raise RuntimeRefused(
        f"pod {name} claims to be this executor, but has address {first.ip}, not {host[:80]}, from which the executor speaks"
    )
