"""The API server of a Kubernetes cluster: its pods of Spark executors, and the moving of their CPU limits.

Only this module talks to the server. It needs `list` and `watch` of pods and `patch` of `pods/resize`.
lightkube finds it and the credentials. Every call has a time-out, a watch too: the server ends a watch after `WATCH_S`, so a
watch that is silent for longer hangs. A patch says the whole limit of one container, so a lost patch is simply sent again.

A patch has three outcomes: the server accepts it, or this pod is tried later (`PodLater`), or the server is (`ServerLater`).
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import yaml
from lightkube import ConfigError, KubeConfig, SingleConfig
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.models import User

from controller.runtime.kubernetes.pod_cpu import PodCpu, pod_cpu, shortened
from controller.runtime.kubernetes.pod_resize import PodLater, ServerLater, TooOld
from stage_model.decoding import UNREADABLE
from stage_model.errors import Unavailable

CALL_S = 10.0
"""Longest wait for the next word of an answer."""
PATCH_S = 3.0
"""Longest wait for the answer to a patch: a webhook that is slow for one pod delays the patches of all others."""
WATCH_S = 20
"""Time after which the server ends a watch."""
KEPT_S = 60.0
"""Time for which an idle connection is kept; servers close them after 90 s or more."""
EXECUTORS = {"labelSelector": "spark-role=executor"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
AGAIN = "its quota stays as it is, and it is tried again"
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY, OWN_FAULT, UNAVAILABLE = 401, 403, 404, 409, 429, 500, 503
_ODD = (httpx2.HTTPError, httpx2.StreamError, ConfigError, OSError, LookupError, TypeError, ValueError, *UNREADABLE)
"""Errors of a lost connection, a program that gives no token, or a strange answer."""


class KubernetesApi:
    """One API server. `namespace` None: pods of all. Its methods raise `ServerLater` where no server answers."""

    def __init__(self, config: SingleConfig, namespace: str | None = None) -> None:
        user = config.user or User()
        self._http = httpx2.Client(
            base_url=config.cluster.server,
            auth=user_auth(user),
            timeout=CALL_S,
            transport=httpx2.HTTPTransport(
                verify=verify_cluster(config.cluster, user, config.abs_file), limits=httpx2.Limits(keepalive_expiry=KEPT_S)
            ),
        )
        self._path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
        self._watch: Any = None
        self._watch_over = False

    def pods(self) -> tuple[list[PodCpu], str]:
        """Return all executors' pods, and the version to watch from."""
        with self._look(CALL_S, {}) as answer:
            listed = msgspec.json.decode(answer.read())
            found = [pod_cpu(one) for one in listed["items"]]
            return [pod for pod in found if pod is not None], listed["metadata"]["resourceVersion"]

    def changes(self, version: str) -> Iterator[dict[str, PodCpu | None]]:
        """Yield pods by uid as they change, None for each that is gone, for as long as the connection lasts and the server
        knows what came after that version. Yield `{}` whenever a watch begins, which it does again every `WATCH_S`."""
        while True:
            params = {"watch": "true", "timeoutSeconds": str(WATCH_S), "resourceVersion": version}
            with self._look(WATCH_S + CALL_S, params) as answer:
                self._watch = answer.extensions.get("network_stream")
                if self._watch_over:
                    return
                yield {}
                for line in _lines(answer):
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        raise ServerLater(f"the API server ended a watch ({shortened(str(event['object']))})")
                    pod = pod_cpu(event["object"])
                    if pod is not None:
                        version = str(pod.version or version)
                        yield {pod.uid: None if event["type"] == "DELETED" else pod}

    @contextlib.contextmanager
    def _look(self, read_s: float, params: dict[str, str]) -> Iterator[httpx2.Response]:
        """Ask for pods. Turn the errors of asking and reading into `ServerLater`."""
        waits = httpx2.Timeout(CALL_S, read=read_s)
        try:
            with self._http.stream("GET", self._path, params=EXECUTORS | params, timeout=waits) as answer:
                if not answer.is_success:
                    raise _unseen(answer)
                yield answer
        except _ODD as error:
            raise _silence(error) from error

    def resize(self, pod: PodCpu, limit_m: int) -> PodCpu:
        """Set the CPU limit of the pod's container, in thousandths of a core; return the pod as it is then. Raise `PodLater`,
        too."""
        container = {"name": pod.container, "resources": {"limits": {"cpu": f"{limit_m}m"}}}
        try:
            answer = self._http.patch(
                f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/resize",
                content=msgspec.json.encode({"spec": {"containers": [container]}}),
                headers=STRATEGIC,
                timeout=httpx2.Timeout(CALL_S, read=PATCH_S),
            )
        except httpx2.ReadTimeout as error:  # a webhook may be slow only for this pod
            raise PodLater(f"the API server has not answered for its pod within {PATCH_S:g} s; {AGAIN}") from error
        except _ODD as error:
            raise _silence(error) from error
        with contextlib.suppress(*UNREADABLE):
            if answer.is_success and (resized := pod_cpu(msgspec.json.decode(answer.content))) is not None:
                return resized
        raise _refusal(answer, pod)

    def end_watch(self) -> None:
        """End the watch that is under way, and each that begins after it."""
        self._watch_over = True
        with contextlib.suppress(OSError, AttributeError):  # it has ended already
            self._watch.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._http.close()


def connect_kubernetes(namespace: str | None) -> KubernetesApi:
    """Connect to the cluster of the pod that this runs in, else of KUBECONFIG or ~/.kube/config. Raise `Unavailable`."""
    try:
        config = KubeConfig.from_env().get()
        if config is None:
            raise ConfigError("it has no current context")
        api = KubernetesApi(config, namespace)
    except (ConfigError, yaml.YAMLError, OSError, AttributeError, LookupError, TypeError, ValueError, *UNREADABLE) as error:
        raise Unavailable(
            f"the runtime kubernetes finds no cluster ({shortened(str(error))}); run it in a pod with a service account, or "
            "name the cluster by KUBECONFIG or ~/.kube/config"
        ) from error
    logging.getLogger(httpx2.__name__).setLevel(logging.WARNING)  # else it writes a line for each call
    return api


# ---------------------------------------------------------------- what an answer means


class _Status(msgspec.Struct):
    """The server's words on a call, and the name of the thing that they are about."""

    message: str = ""
    details: dict[str, Any] = {}


def _status(answer: httpx2.Response) -> _Status:
    try:
        return msgspec.json.decode(answer.read(), type=_Status)
    except UNREADABLE:
        return _Status()


def _lines(answer: httpx2.Response) -> Iterator[bytes]:
    """Yield an answer's lines. Those of httpx2 end at other characters, too, which a pod's annotations may have."""
    rest = b""
    for part in answer.iter_bytes():
        *lines, rest = (rest + part).split(b"\n")
        yield from lines


def _silence(error: Exception) -> ServerLater:
    why = shortened(str(error) or type(error).__name__)
    return ServerLater(f"the API server does not answer ({why}), so quotas stay as they are")


def _unseen(answer: httpx2.Response) -> ServerLater:
    """Return the error of an answer that shows no pods."""
    words = shortened(_status(answer).message or answer.reason_phrase)
    if answer.status_code != FORBIDDEN:
        return _busy(answer, words)
    return ServerLater(
        f"this agent may not look at pods ({words}); allow it to list and watch pods and to patch pods/resize, or name a "
        "namespace where it may by --namespace"
    )


def _busy(answer: httpx2.Response, words: str) -> ServerLater:
    """Return the error of a busy server, with the seconds that it asks for; a date is left to our own pause."""
    asked = answer.headers.get("Retry-After", "")
    asked_s = float(asked) if re.fullmatch("[0-9]{1,4}", asked) else 0.0
    return ServerLater(f"the API server answers {answer.status_code} ({words}), so quotas stay as they are", asked_s)


def _refusal(answer: httpx2.Response, pod: PodCpu) -> PodLater | ServerLater:
    """Return the outcome of a patch whose answer shows no pod."""
    code, status = answer.status_code, _status(answer)
    words = shortened(status.message or answer.reason_phrase)
    if answer.is_success:
        return PodLater(f"the API server's answer for its pod cannot be read; {AGAIN}")
    if code in (UNAUTHORIZED, TOO_MANY, UNAVAILABLE):
        return _busy(answer, words)
    if code == NOT_FOUND and status.details.get("name") != pod.name:  # the way to resize it is missing
        return TooOld()
    if code in (NOT_FOUND, CONFLICT) or code >= OWN_FAULT or not status.message:
        return PodLater(f"the API server answers {code} for its pod ({words}); {AGAIN}")
    if code != FORBIDDEN:
        return PodLater(f"the API server refused to resize its pod ({code}: {words})", refused=True)
    if "pods/resize" in status.message:
        return PodLater(f"this agent may not resize its pod ({words}); allow it to patch pods/resize")
    return PodLater(
        f"the cluster does not allow this CPU limit ({words}), so it has as much as is allowed; raise the LimitRange or the "
        "quota",
        refused=True,
    )
