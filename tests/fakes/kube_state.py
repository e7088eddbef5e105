"""The state of a Kubernetes API server with one kubelet: its pods, their watches and what they are resized to.

Not here: what only changed requests bring about (a node without room, Deferred); all pods have room. What a real server does
seldom, a test orders here: `Orders`.
"""

from __future__ import annotations

import copy
import math
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.fakes.kube_resizes import Answer, Json, Refused, check, forbidden, limited, merged, qos_class

NODE = "node-1"
UNKNOWN = "the server could not find the requested resource"


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
    refuse: list[Answer] = field(default_factory=list)
    """Answers to the next patches."""
    refuse_pods: dict[str, int] = field(default_factory=dict)
    """Status that every patch of such a pod gets."""
    retry_after: str = ""
    """Header of every answer that is not 200."""
    gate: threading.Event = field(default_factory=threading.Event)
    """An event for which patches of the `gated` pods wait."""
    gated: frozenset[str] = frozenset()
    mute: int = 0
    """Number of patches that are carried out and never answered."""
    close: int = 0
    """Number of patches that are carried out, and whose connections are closed before the answer."""


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
            fresh: Json = {"imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}
            spec["nodeName"] = NODE
            pod["status"] = {
                "phase": "Running",
                "qosClass": qos_class(spec),
                "conditions": [],
                "podIP": f"10.0.0.{self.version % 250 + 1}",
                "containerStatuses": [{"name": one["name"], "image": one["image"]} | fresh for one in spec["containers"]],
            }
            self.pods[namespace, metadata["name"]] = pod
            self._carry_out(pod)
            self._event("ADDED", pod)
            return copy.deepcopy(pod)

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
                right = f'resource "pods/resize" in API group "" in the namespace "{namespace}"'
                raise forbidden(name, f'User "agent" cannot patch {right}')
            if not self.orders.has_resize:
                raise Refused(404, UNKNOWN)
            pod = self._pod(namespace, name)
            self.patches.append((time.monotonic(), name, patch))
            resized = merged(pod, patch)
            here = (other for (there, _), other in self.pods.items() if there == namespace and _alive(other))
            used, hard = sum(limited(other["spec"]) for other in here), self.quotas.get(namespace, math.inf)
            check(pod, resized, self.ranges.get(namespace, {}), used, hard)
            pod["spec"] = resized["spec"]
            self._event("MODIFIED", pod)
            answer = copy.deepcopy(pod)
            self.kubelet()
            return answer

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
            infeasible = self.orders.infeasible
            pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": infeasible}
            for pod in self.pods.values():
                if not _waits(pod):
                    continue
                pod["status"]["conditions"] = [pending] if infeasible else []
                if not infeasible:
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
            return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)}, "items": items}

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


def _alive(pod: Json) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def _waits(pod: Json) -> bool:
    return _alive(pod) and any(
        one["resources"] != status.get("resources")
        for one, status in zip(pod["spec"]["containers"], pod["status"]["containerStatuses"], strict=True)
    )
