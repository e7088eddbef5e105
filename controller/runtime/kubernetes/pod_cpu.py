"""A Spark executor's pod as it describes itself and its CPU, from the API server's JSON, and the search for it. Pure.

Any user who may create pods writes most of this, so it is hostile input: what does not fit its type makes no `PodCpu`. Cores
are whole thousandths here, as Kubernetes counts them ("250m" is 250), because sums of floats drift.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from controller.runtime.claimed_process import Serves
from stage_model.errors import RuntimeFailed, RuntimeRefused

CONTAINER = "spark-kubernetes-executor"
"""Name that Spark gives the container, unless a pod template names another."""
APPLICATION_LABEL, EXECUTOR_LABEL = "spark-app-selector", "spark-exec-id"
DRIVER_ENV, EXECUTOR_ENV, APPLICATION_ENV = "SPARK_DRIVER_URL", "SPARK_EXECUTOR_ID", "SPARK_APPLICATION_ID"
GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
MOST_CORES_M = 1_000_000
_QUANTITY = re.compile(r"([0-9]{1,9})(?:\.([0-9]{0,9}))?(n|u|m|k)?")
_EXPONENT = {"n": -9, "u": -6, "m": -3, None: 0, "k": 3}


@dataclass(frozen=True, slots=True)
class PodCpu:
    """A pod, with its CPU in thousandths of a core (None: no amount is set). `limit_m` and `request_m` are what the pod's
    spec asks for, `in_force_m` the limit that its node has put into force (that of the spec where the node does not say).
    `pending` is why its last resize has not been carried out: Infeasible, Deferred, or another word of the node's (empty:
    none waits). `driver_url` and what follows is what its environment and its labels say it is."""

    uid: str
    namespace: str
    name: str
    container: str
    version: int = 0
    """Number that grows with every change."""
    node: str = ""
    ip: str = ""
    ended: bool = False
    leaving: bool = False
    """True if the pod is about to be ended."""
    qos: str = BURSTABLE
    limit_m: int | None = None
    request_m: int | None = None
    in_force_m: int | None = None
    pending: str = ""
    message: str = ""
    driver_url: str = ""
    executor_id: str = ""
    application_id: str = ""
    labels: tuple[str, str] = ("", "")
    """Application and executor, as the pod's labels have them."""


def parse_cores_m(quantity: object) -> int | None:
    """Return thousandths of a core, rounded up; None for what is no amount of CPU."""
    found = _QUANTITY.fullmatch(str(quantity)) if isinstance(quantity, str | int | float) else None
    if found is None:
        return None
    whole, part = found[1], (found[2] or "").ljust(9, "0")
    shift = _EXPONENT[found[3]] + 3 - 9
    value = int(whole + part)
    cores_m = value * 10**shift if shift >= 0 else -(-value // 10**-shift)
    return cores_m if cores_m <= MOST_CORES_M else None


def shortened(words: str, most: int = 200) -> str:
    """Shorten another program's words for use within a sentence of ours."""
    words = " ".join(words.split())
    return words if len(words) <= most else words[: most - 3] + "..."


class _Metadata(msgspec.Struct):
    uid: str
    namespace: str
    name: str
    labels: dict[str, str] | None = None
    deletionTimestamp: Any = None  # noqa: N815 - as Kubernetes has it, here and below
    resourceVersion: str = ""  # noqa: N815


class _Resources(msgspec.Struct):
    limits: dict[str, Any] | None = None
    requests: dict[str, Any] | None = None


class _Env(msgspec.Struct):
    name: str
    value: str | None = None


class _Container(msgspec.Struct):
    name: str
    env: list[_Env] | None = None
    resources: _Resources | None = None


class _Spec(msgspec.Struct):
    containers: list[_Container]
    nodeName: str | None = None  # noqa: N815


class _State(msgspec.Struct):
    terminated: dict[str, Any] | None = None


class _ContainerStatus(msgspec.Struct):
    name: str
    state: _State | None = None
    resources: _Resources | None = None


class _Condition(msgspec.Struct):
    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _Status(msgspec.Struct):
    phase: str = ""
    podIP: str | None = None  # noqa: N815
    qosClass: str | None = None  # noqa: N815
    conditions: list[_Condition] | None = None
    containerStatuses: list[_ContainerStatus] | None = None  # noqa: N815


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec
    status: _Status = msgspec.field(default_factory=_Status)


def pod_cpu(pod: Mapping[str, Any]) -> PodCpu | None:
    """Return the pod; None for what is no pod with a container."""
    try:
        read = msgspec.convert(dict(pod), _Pod)
    except (msgspec.ValidationError, RecursionError):
        return None
    if not read.spec.containers:
        return None
    metadata, status = read.metadata, read.status
    container = next((one for one in read.spec.containers if one.name == CONTAINER), read.spec.containers[0])
    told = {one.name: one.value or "" for one in container.env or ()}
    shown = next((one for one in status.containerStatuses or () if one.name == container.name), None)
    state = shown.state if shown else None
    pending, message = _pending(status.conditions or ())
    labels, asked = metadata.labels or {}, container.resources or _Resources()
    in_force = shown.resources if shown and shown.resources else asked
    return PodCpu(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        container=container.name,
        version=int(metadata.resourceVersion) if re.fullmatch("[0-9]{1,18}", metadata.resourceVersion) else 0,
        node=read.spec.nodeName or "",
        ip=status.podIP or "",
        ended=status.phase in ("Succeeded", "Failed") or (state is not None and state.terminated is not None),
        leaving=metadata.deletionTimestamp is not None,
        qos=status.qosClass or "",
        limit_m=_cpu_of(asked.limits),
        request_m=_cpu_of(asked.requests),
        in_force_m=_cpu_of(in_force.limits),
        pending=pending,
        message=message,
        driver_url=told.get(DRIVER_ENV, ""),
        executor_id=told.get(EXECUTOR_ENV, ""),
        application_id=told.get(APPLICATION_ENV, ""),
        labels=(labels.get(APPLICATION_LABEL, ""), labels.get(EXECUTOR_LABEL, "")),
    )


def _pending(conditions: Sequence[_Condition]) -> tuple[str, str]:
    """Return reason and message of a resize that waits, or that was begun and failed. A resize that is merely under way is no
    news."""
    for one in conditions:
        if one.status == "False":
            continue
        if one.type == "PodResizePending" or (one.type == "PodResizeInProgress" and one.reason):
            return one.reason or "Deferred", one.message or ""
    return "", ""


def _cpu_of(amounts: Mapping[str, Any] | None) -> int | None:
    return parse_cores_m(amounts.get("cpu")) if amounts else None


def find_claimed_pod(pods: Iterable[PodCpu], serves: Serves, host: str) -> PodCpu:
    """Return the pod of that executor, which its driver knows at the address `host`. Raise `RuntimeRefused` for a pod that is
    not what it says, `RuntimeFailed` while no such pod is seen.

    Anybody who may create pods can give one the labels of another's. So labels, environment and address must all be those of
    this executor: Spark has started the pod for this driver, application and number, and the driver has heard from it at that
    address."""
    labels = (serves.spark_application_id, serves.executor_id)
    labelled = [pod for pod in pods if pod.labels == labels and not pod.ended]
    if not labelled:
        raise RuntimeFailed(f"no pod that this agent sees has the labels of executor {serves.executor_id}; looked for again")
    meant = (serves.driver_url, serves.executor_id, serves.spark_application_id)
    alike = [pod for pod in labelled if (pod.driver_url, pod.executor_id, pod.application_id) == meant]
    if not alike:
        raise RuntimeRefused(
            f"pod {_name(labelled[0])} has its labels, but by its environment Spark has not started it for this driver"
        )
    there = [pod for pod in alike if host and pod.ip == host.strip("[]")]
    if len(there) > 1:
        raise RuntimeRefused(f"pods {_name(there[0])} and {_name(there[1])} both say that they are it, at one address")
    if there:
        return there[0]
    if not alike[0].ip:
        raise RuntimeFailed(f"pod {_name(alike[0])} has no address yet; looked for again")
    raise RuntimeRefused(
        f"pod {_name(alike[0])} says that it is it, but has address {alike[0].ip}, not {host[:80]}, from where the executor "
        "speaks"
    )


def _name(pod: PodCpu) -> str:
    return f"{pod.namespace}/{pod.name}"
