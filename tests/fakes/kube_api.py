"""A stand-in for a Kubernetes API server with one kubelet, for tests: pods, their watch, and their `resize`.

Its contract is that of real servers from 1.33 on, as seen on 1.36: a resize may change only CPU and memory, must keep the
QoS class, and is refused with 403 where a LimitRange, a quota or the caller's rights do not allow it. Not here: what only
changed requests bring about (a node without room, Deferred); all pods have room. The same suite runs on a real server
(`tests/controller/runtime/kubernetes/test_api.py`). What a real server does seldom, a test orders here: `Orders`.
"""

from __future__ import annotations

import copy
import json
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lightkube import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.utils.quantity import parse_quantity

from controller.runtime.claimed_process import Serves
from controller.runtime.kubernetes.pod_cpu import (
    APPLICATION_ENV,
    APPLICATION_LABEL,
    CONTAINER,
    DRIVER_ENV,
    EXECUTOR_ENV,
    EXECUTOR_LABEL,
)

Json = dict[str, Any]
NODE = "node-1"
STRATEGIC = "application/strategic-merge-patch+json"


def _open_gate() -> threading.Event:
    gate = threading.Event()
    gate.set()
    return gate


@dataclass(slots=True)
class Orders:
    """Orders to this server to do what a healthy one seldom does."""

    has_resize: bool = True
    """True from 1.33 on."""
    may_resize: bool = True
    may_watch: bool = True
    may_watch_all: bool = True
    """False: only the pods of one namespace at a time."""
    denials: int = 0
    """Number of lists that are denied, as by a server that has just started and does not know its roles yet."""
    kubelet_away: bool = False
    """Resizes are taken in and not carried out."""
    infeasible: str = ""
    """Message with which the node refuses every resize."""
    refuse: list[tuple[int, bytes, str]] = field(default_factory=list)
    """Answers to the next patches: status, body, content type."""
    refuse_pods: dict[str, int] = field(default_factory=dict)
    """Status that every patch of such a pod gets."""
    retry_after: str = ""
    """Header of every answer that is not 200."""
    gate: threading.Event = field(default_factory=_open_gate)
    """A gate for which patches wait while it is closed, all or those of the `gated` pods."""
    gated: frozenset[str] = frozenset()
    mute: int = 0
    """Number of patches that are carried out and never answered."""
    close: int = 0
    """Number of patches that are carried out, and whose connections are closed before the answer."""


class Refused(Exception):
    def __init__(self, code: int, message: str, name: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.status: Json = {
            "kind": "Status",
            "status": "Failure",
            "message": message,
            "details": {"name": name} if name else {},
            "code": code,
        }


class KubeState:
    """Everything that the server knows. All times are real; nothing waits but watches."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.pods: dict[tuple[str, str], Json] = {}
        self.ranges: dict[str, Json] = {}
        self.quotas: dict[str, float] = {}
        """Cores that the limits of a namespace's pods may sum up to."""
        self.events: list[tuple[int, str, Json]] = []
        self.version = 100
        self.oldest = 100
        """Watches from before cannot go on."""
        self.orders = Orders()
        self.patches: list[tuple[float, str, Json]] = []
        """Time, pod and content of each patch."""
        self.tries: list[str] = []
        """Pod of each patch that came, refused ones, too."""
        self.watches = 0
        """Number of breaks; watches end whenever it grows."""
        self.closing = False

    # ---------------------------------------------------------------- pods

    def create(self, namespace: str, pod: Json) -> Json:
        with self.changed:
            pod = copy.deepcopy(pod)
            metadata, spec = pod["metadata"], pod["spec"]
            metadata |= {"namespace": namespace, "uid": f"uid-{self.version}-{metadata['name']}"}
            for container in spec["containers"]:
                resources = container.setdefault("resources", {})
                for what, amount in resources.get("limits", {}).items():
                    resources.setdefault("requests", {}).setdefault(what, amount)
            pod["status"] = {"phase": "Pending", "qosClass": qos_class(spec), "conditions": []}
            self.pods[namespace, metadata["name"]] = pod
            self._start(pod)
            self._event("ADDED", pod)
            return copy.deepcopy(pod)

    def _start(self, pod: Json) -> None:
        pod["spec"]["nodeName"] = NODE
        pod["status"] |= {
            "phase": "Running",
            "podIP": f"10.0.0.{self.version % 250 + 1}",
            "conditions": [],
            "containerStatuses": [
                {
                    "name": one["name"],
                    "image": one["image"],
                    "imageID": "",
                    "ready": True,
                    "restartCount": 0,
                    "state": {"running": {}},
                }
                for one in pod["spec"]["containers"]
            ],
        }
        self._carry_out(pod)

    def delete(self, namespace: str, name: str) -> None:
        with self.changed:
            self._event("DELETED", self._pod(namespace, name))
            del self.pods[namespace, name]

    def finish(self, namespace: str, name: str, code: int) -> None:
        """End the pod's program with that exit code."""
        with self.changed:
            pod = self._pod(namespace, name)
            pod["status"]["phase"] = "Failed" if code else "Succeeded"
            for one in pod["status"]["containerStatuses"]:
                one["state"] = {"terminated": {"exitCode": code}}
            self._event("MODIFIED", pod)

    def resize(self, namespace: str, name: str, patch: Json) -> Json:
        with self.changed:
            if not self.orders.may_resize:
                raise Refused(
                    403,
                    f'pods "{name}" is forbidden: User "agent" cannot patch resource "pods/resize" in API group "" in the '
                    f'namespace "{namespace}"',
                    name,
                )
            if not self.orders.has_resize:
                raise Refused(404, "the server could not find the requested resource")
            pod = self._pod(namespace, name)
            self.patches.append((time.monotonic(), name, patch))
            resized = merged(pod, patch)
            self._check(pod, resized)
            pod["spec"] = resized["spec"]
            self._event("MODIFIED", pod)
            answer = copy.deepcopy(pod)
            self.kubelet()
            return answer

    def _check(self, pod: Json, resized: Json) -> None:
        name = pod["metadata"]["name"]
        if qos_class(resized["spec"]) != pod["status"]["qosClass"]:
            raise Refused(422, f'Pod "{name}" is invalid: spec: Pod QOS Class may not change as a result of resizing', name)
        for container in resized["spec"]["containers"]:
            gets = container["resources"]
            for what, amount in gets.get("requests", {}).items():
                if amount_of(gets.get("limits", {}), what, None) is not None and number(amount) > number(
                    gets["limits"][what]
                ):
                    raise Refused(422, f'Pod "{name}" is invalid: requests: must be less than or equal to {what} limit', name)
            if why := self._why_out_of_range(pod["metadata"]["namespace"], gets):
                raise Refused(403, f'pods "{name}" is forbidden: {why}', name)
        if why := self._why_beyond_quota(pod, resized):
            raise Refused(403, f'pods "{name}" is forbidden: {why}', name)

    def _why_out_of_range(self, namespace: str, gets: Json) -> str:
        """Say what of a container's CPU the namespace's LimitRange does not allow; empty if it allows all."""
        limit = amount_of(gets.get("limits", {}), "cpu", None)
        request = amount_of(gets.get("requests", {}), "cpu", 0.0) or 0.0
        for one in self.ranges.get(namespace, {}).get("spec", {}).get("limits", []):
            most, least = (amount_of(one.get(name, {}), "cpu", None) for name in ("max", "min"))
            ratio = amount_of(one.get("maxLimitRequestRatio", {}), "cpu", None)
            if limit is not None and most is not None and limit > most:
                return f"maximum cpu usage per Container is {most:g}, but limit is {limit:g}"
            if least is not None and request < least:
                return f"minimum cpu usage per Container is {least:g}, but request is {request:g}"
            if limit is not None and ratio is not None and limit > ratio * request:
                return f"cpu max limit to request ratio per Container is {ratio:g}, but provided ratio is {limit / request:f}"
        return ""

    def _why_beyond_quota(self, pod: Json, resized: Json) -> str:
        """Say why a quota does not allow a resize; empty if it does. A resize that asks for no more is always allowed."""
        namespace = pod["metadata"]["namespace"]
        has, gets = limited(pod["spec"]), limited(resized["spec"])
        used = sum(limited(other["spec"]) for (there, _), other in self.pods.items() if there == namespace and alive(other))
        hard = self.quotas.get(namespace, float("inf"))
        if gets <= has or used - has + gets <= hard + 1e-9:
            return ""
        return f"exceeded quota: cores, requested: limits.cpu={gets - has:g}, used: limits.cpu={used:g}, limited: {hard:g}"

    def _pod(self, namespace: str, name: str) -> Json:
        try:
            return self.pods[namespace, name]
        except KeyError:
            raise Refused(404, f'pods "{name}" not found', name) from None

    # ---------------------------------------------------------------- the kubelet

    def kubelet(self) -> None:
        """Carry out the resizes that wait."""
        with self.changed:
            if self.orders.kubelet_away:
                return
            for pod in self.pods.values():
                if not _waits(pod):
                    continue
                if self.orders.infeasible:
                    pod["status"]["conditions"] = [_pending("Infeasible", self.orders.infeasible)]
                else:
                    pod["status"]["conditions"] = []
                    self._carry_out(pod)
                self._event("MODIFIED", pod)

    @staticmethod
    def _carry_out(pod: Json) -> None:
        for container, status in zip(pod["spec"]["containers"], pod["status"]["containerStatuses"], strict=True):
            status["resources"] = copy.deepcopy(container["resources"])

    # ---------------------------------------------------------------- what is reported

    def _event(self, kind: str, pod: Json) -> None:
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        self.events.append((self.version, kind, copy.deepcopy(pod)))
        self.changed.notify_all()

    def forget(self) -> None:
        """Forget old events: watches that have not seen all must list again."""
        with self.changed:
            self.oldest = self.version = self.version + 1
            self.events.clear()

    def end_watches(self) -> None:
        with self.changed:
            self.watches += 1
            self.changed.notify_all()

    def listed(self, namespace: str | None, labels: Mapping[str, str]) -> Json:
        with self.changed:
            pods = [copy.deepcopy(pod) for (there, _), pod in self.pods.items() if namespace in (None, there)]
            items = [pod for pod in pods if labels.items() <= pod["metadata"].get("labels", {}).items()]
            return {
                "kind": "PodList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(self.version)},
                "items": items,
            }

    def watched(self, namespace: str | None, labels: Mapping[str, str], version: int, seconds: float) -> Iterator[Json]:
        """Yield events after that version, until the time is over."""
        end_s = time.monotonic() + seconds
        with self.changed:
            watches = self.watches
        while True:
            with self.changed:
                if version < self.oldest:
                    gone = Refused(410, f"too old resource version: {version} ({self.oldest})")
                    yield {"type": "ERROR", "object": gone.status}
                    return
                news = [event for event in self.events if event[0] > version]
                if not news:
                    left_s = end_s - time.monotonic()
                    if left_s <= 0 or self.closing or self.watches != watches:
                        return
                    self.changed.wait(left_s)
                    continue
            version = news[-1][0]
            for _, kind, pod in news:
                metadata = pod["metadata"]
                if namespace in (None, metadata["namespace"]) and labels.items() <= metadata.get("labels", {}).items():
                    yield {"type": kind, "object": pod}


def executor_pod(
    name: str,
    serves: Serves,
    *,
    limit: str | None = "500m",
    request: str | None = "200m",
    memory: str | None = "64Mi",
    memory_request: str | None = None,
    image: str = "localhost/pause:1",
) -> Json:
    """Make a pod as Spark makes one for an executor. By default limit and request of its memory are equal, as Spark's are."""
    limits = {"cpu": limit, "memory": memory}
    requests = {"cpu": request, "memory": memory_request or memory}
    environment = {
        DRIVER_ENV: serves.driver_url,
        EXECUTOR_ENV: serves.executor_id,
        APPLICATION_ENV: serves.spark_application_id,
    }
    container = {
        "name": CONTAINER,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "resources": {
            "limits": {what: amount for what, amount in limits.items() if amount is not None},
            "requests": {what: amount for what, amount in requests.items() if amount is not None},
        },
    }
    labels = {"spark-role": "executor", APPLICATION_LABEL: serves.spark_application_id, EXECUTOR_LABEL: serves.executor_id}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [container],
        },
    }


def merged(pod: Json, patch: Json) -> Json:
    """Merge strategically: containers are known by their names. Only resources may be in the patch."""
    name = pod["metadata"]["name"]
    resized = copy.deepcopy(pod)
    if patch.keys() != {"spec"} or patch["spec"].keys() != {"containers"}:
        raise Refused(422, f'Pod "{name}" is invalid: spec: Forbidden: only cpu and memory resources are mutable', name)
    containers = {one["name"]: one for one in resized["spec"]["containers"]}
    for change in patch["spec"]["containers"]:
        if change.keys() != {"name", "resources"} or change["name"] not in containers:
            raise Refused(422, f'Pod "{name}" is invalid: spec: Forbidden: only cpu and memory resources are mutable', name)
        has = containers[change["name"]]["resources"]
        for kind, amounts in change["resources"].items():
            has[kind] = {**has.get(kind, {}), **amounts}
    return resized


def qos_class(spec: Json) -> str:
    all_of = [
        (one.get("resources", {}).get("limits", {}), one.get("resources", {}).get("requests", {}))
        for one in spec["containers"]
    ]
    if not any(limits or requests for limits, requests in all_of):
        return "BestEffort"
    for limits, requests in all_of:
        for what in ("cpu", "memory"):
            limit = amount_of(limits, what, None)
            if limit is None or limit != amount_of(requests, what, limit):
                return "Burstable"
    return "Guaranteed"


def number(quantity: str) -> float:
    amount = parse_quantity(quantity)
    assert amount is not None
    return float(amount)


def amount_of(amounts: Json, what: str, otherwise: float | None) -> float | None:
    return number(amounts[what]) if amounts.get(what) is not None else otherwise


def limited(spec: Json) -> float:
    return sum(amount_of(one["resources"].get("limits", {}), "cpu", 0.0) or 0.0 for one in spec["containers"])


def alive(pod: Json) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _waits(pod: Json) -> bool:
    return alive(pod) and any(
        one["resources"] != status.get("resources")
        for one, status in zip(pod["spec"]["containers"], pod["status"]["containerStatuses"], strict=True)
    )


def _pending(reason: str, message: str) -> Json:
    return {"type": "PodResizePending", "status": "True", "reason": reason, "message": message}


# ---------------------------------------------------------------- over HTTP


class KubeServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, state: KubeState) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.state = state

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: clients hang up when they like."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: KubeServer

    def do_GET(self) -> None:
        self._answered(self._get)

    def do_POST(self) -> None:
        self._answered(self._post)

    def do_PATCH(self) -> None:
        self._answered(self._patch)

    def do_DELETE(self) -> None:
        self._answered(self._delete)

    def _answered(self, answer: Callable[[list[str], dict[str, str], Json], Json | None]) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            said = answer(url.path.strip("/").split("/")[2:], query, json.loads(body or b"{}"))
        except Refused as error:
            self._say(error.code, json.dumps(error.status).encode())
            return
        if said is not None:
            self._say(200, json.dumps(said).encode())

    def _say(self, code: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if code != 200 and (after := self.server.state.orders.retry_after):
            self.send_header("Retry-After", after)
        self.end_headers()
        self.wfile.write(body)

    def _get(self, path: list[str], query: dict[str, str], _body: Json) -> Json | None:
        state = self.server.state
        match path:
            case ["pods"]:
                namespace = None
            case ["namespaces", there, "pods"]:
                namespace = there
            case ["namespaces", there, "pods", name]:
                with state.changed:
                    return copy.deepcopy(state._pod(there, name))
            case _:
                raise Refused(404, "the server could not find the requested resource")
        orders, denied = state.orders, state.orders.denials > 0 and "watch" not in query
        orders.denials -= denied
        if denied or not orders.may_watch or (namespace is None and not orders.may_watch_all):
            raise Refused(
                403, 'pods is forbidden: User "agent" cannot list resource "pods" in API group "" at the cluster scope'
            )
        labels = dict(one.split("=", 1) for one in query.get("labelSelector", "").split(",") if one)
        if "watch" not in query:
            return state.listed(namespace, labels)
        self._stream(namespace, labels, int(query["resourceVersion"]), float(query["timeoutSeconds"]))
        return None

    def _stream(self, namespace: str | None, labels: dict[str, str], version: int, seconds: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in self.server.state.watched(namespace, labels, version, seconds):
            line = json.dumps(event, ensure_ascii=False).encode() + b"\n"  # as a real server, which is written in Go
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.write(b"0\r\n\r\n")

    def _post(self, path: list[str], _query: dict[str, str], body: Json) -> Json:
        match path:
            case ["namespaces"]:
                return body
            case ["namespaces", there, "pods"]:
                return self.server.state.create(there, body)
            case ["namespaces", there, "limitranges"]:
                self.server.state.ranges[there] = body
                return body
        raise Refused(404, "the server could not find the requested resource")

    def _patch(self, path: list[str], _query: dict[str, str], body: Json) -> Json | None:
        if self.headers["Content-Type"] != STRATEGIC:
            raise Refused(415, "the body of the request was in an unknown format")
        match path:
            case ["namespaces", there, "pods", name, "resize"]:
                with self.server.state.changed:
                    self.server.state.tries.append(name)
                return self._resize(there, name, body)
            case _:
                raise Refused(404, "the server could not find the requested resource")

    def _resize(self, there: str, name: str, body: Json) -> Json | None:
        orders = self.server.state.orders
        if not orders.gated or name in orders.gated:
            orders.gate.wait()
        if orders.refuse:
            code, said, kind = orders.refuse.pop(0)
            self._say(code, said, kind)
            return None
        if code := orders.refuse_pods.get(name, 0):
            raise Refused(code, f'pods "{name}": as it was ordered')
        pod = self.server.state.resize(there, name, body)
        if orders.mute:
            orders.mute -= 1
            with self.server.state.changed:
                self.server.state.changed.wait_for(lambda: self.server.state.closing, 60.0)
        if orders.close:
            orders.close -= 1
            self.close_connection = True
            return None
        return pod

    def _delete(self, path: list[str], _query: dict[str, str], _body: Json) -> Json:
        match path:
            case ["namespaces", there, "pods", name]:
                self.server.state.delete(there, name)
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def log_message(self, *_: object) -> None:
        """Keep stderr quiet."""


@contextmanager
def kube_server(state: KubeState) -> Iterator[SingleConfig]:
    """Run the server; provide the way to reach it."""
    with KubeServer(state) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield config_of(f"http://127.0.0.1:{server.server_port}")
        with state.changed:
            state.closing = True
            state.changed.notify_all()
        server.shutdown()
        thread.join()


def config_of(url: str) -> SingleConfig:
    config = KubeConfig.from_one(cluster=Cluster(server=url), user=User(token="of-a-test")).get()
    assert config is not None
    return config
