"""The API server of a Kubernetes cluster: its pods of Spark executors, and the moving of their CPU limits.

The only module that talks to the server, by lightkube. It needs `list` and `watch` of pods and `patch` of `pods/resize`.
Every call has a time-out, a watch too: the server ends a watch after `WATCH_S`, so a watch that is silent for longer hangs.
A patch says the whole limit of one container, so a patch that may have been lost with its connection is simply sent again.

A patch has three outcomes: the server accepts it, or this pod is tried later (`PodLater`), or the server is (`ServerLater`).
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import httpx2
import yaml
from lightkube import ALL_NS, ApiError, Client, ConfigError, KubeConfig, SingleConfig
from lightkube.config.client_adapter import verify_cluster
from lightkube.core.resource import ApiInfo, NamespacedResourceG, NamespacedSubResource, ResourceDef
from lightkube.generic_resource import Generic

from controller.runtime.kubernetes.pod_cpu import PodCpu, pod_cpu, shortened
from stage_model.decoding import UNREADABLE
from stage_model.errors import RuntimeFailed, Unavailable

CALL_S = 10.0
"""Longest wait for the next word of an answer."""
PATCH_S = 3.0
"""Longest wait for the answer to a patch: a webhook that is slow for one pod delays the patches of all others."""
WATCH_S = 20
"""Time after which the server ends a watch."""
SILENT_S = 10.0
"""Time beyond `WATCH_S` after which a silent watch hangs."""
KEPT_S = 60.0
"""Time for which an idle connection is kept; servers close them after 90 s or more."""
PAGE = 500
"""Number of pods in one answer."""
AGAIN = "its quota stays as it is, and it is tried again"
EXECUTORS = {"spark-role": "executor"}
POD = ResourceDef("", "v1", "Pod")
TOO_OLD = (
    "pacing by the API server needs Kubernetes 1.33 or newer, and this one cannot resize pods; start an agent with "
    "`--runtime adopt` on each node"
)
UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY, OWN_FAULT, UNAVAILABLE = 401, 403, 404, 409, 429, 500, 503
_CUT = (httpx2.RemoteProtocolError, httpx2.NetworkError)
"""Errors of a connection that the server has closed, as it may with one that was kept."""
_NOBODY = (httpx2.TransportError, ConfigError, OSError)
"""Errors of a lost connection or of a program that gives no token."""
_ODD = (httpx2.HTTPError, httpx2.StreamError, LookupError, *UNREADABLE, *_NOBODY)
"""Errors of a strange answer, and those above."""

T = TypeVar("T")


class ServerLater(RuntimeFailed):
    """No server answers, or none that can. `asked_s`: seconds in which it wants no further call, by its `Retry-After`.
    `too_old`: it can resize none."""

    def __init__(self, sentence: str, asked_s: float = 0.0, *, too_old: bool = False) -> None:
        super().__init__(sentence)
        self.asked_s, self.too_old = asked_s, too_old


class PodLater(RuntimeFailed):
    """One pod's patch was not accepted, or may not have been; that says nothing of other pods. `refused`: the cluster does
    not allow this limit."""

    def __init__(self, sentence: str, *, refused: bool = False) -> None:
        super().__init__(sentence)
        self.refused = refused


class _Pods(NamespacedResourceG, Generic):  # type: ignore[misc]
    _api_info = ApiInfo(POD, "pods", ["global_list", "global_watch", "list", "watch"])


class _Resizes(NamespacedSubResource, Generic):  # type: ignore[misc]
    _api_info = ApiInfo(POD, "pods", ["patch"], parent=POD, action="resize")


class _Line(httpx2.HTTPTransport):
    """Connections that give a watch a time-out, which lightkube lets wait for ever, and that can end it for good."""

    def __init__(self, **options: Any) -> None:
        super().__init__(limits=httpx2.Limits(keepalive_expiry=KEPT_S), **options)
        self.answered: Callable[[], None] = lambda: None
        self._watch: Any = None
        self._over = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        timeout = dict(request.extensions.get("timeout") or {})
        watches = timeout.get("read") is None
        if watches:
            timeout["read"] = WATCH_S + SILENT_S
        elif request.method == "PATCH":
            timeout["read"] = PATCH_S
        request.extensions = {**request.extensions, "timeout": timeout}
        response = super().handle_request(request)
        if watches:
            self.answered()
            self._watch = response.extensions.get("network_stream")
            if self._over:  # meanwhile
                self.end_watch()
        return response

    def end_watch(self) -> None:
        self._over = True
        with contextlib.suppress(OSError, AttributeError):  # it has ended already
            self._watch.get_extra_info("socket").shutdown(socket.SHUT_RDWR)


class KubernetesApi:
    """One API server. `namespace` None: pods of all. Its methods raise `ServerLater` where no server answers."""

    def __init__(self, config: SingleConfig, namespace: str | None = None) -> None:
        self._namespace = namespace or ALL_NS
        verify = verify_cluster(config.cluster, config.user, config.abs_file) if config.user else True
        self._line = _Line(verify=verify)
        self._client = Client(config, timeout=httpx2.Timeout(CALL_S), transport=self._line)

    def on_answer(self, answered: Callable[[], None]) -> None:
        """Have `answered` called whenever a watch begins again, which it does at least every `WATCH_S`."""
        self._line.answered = answered

    def pods(self) -> tuple[list[PodCpu], str]:
        """Return all executors' pods, and the version to watch from."""
        with _away():
            return _sent(self._list)

    def _list(self) -> tuple[list[PodCpu], str]:
        listed = self._client.list(_Pods, namespace=self._namespace, labels=EXECUTORS, chunk_size=PAGE)  # type: ignore[arg-type]
        found = [pod_cpu(one) for one in listed]
        return [pod for pod in found if pod is not None], listed.resourceVersion

    def changes(self, version: str) -> Iterator[tuple[PodCpu, bool]]:
        """Yield pods as they change, each with True if it is there still, for as long as the connection lasts and the server
        knows what came after that version."""
        with _away():
            events = self._client.watch(
                _Pods,
                namespace=self._namespace,
                labels=EXECUTORS,  # type: ignore[arg-type]
                server_timeout=WATCH_S,
                resource_version=version,
            )
            for kind, one in events:
                pod = pod_cpu(one)
                if pod is not None:
                    yield pod, kind != "DELETED"

    def resize(self, pod: PodCpu, limit_m: int) -> PodCpu | None:
        """Set the CPU limit of the pod's container, in thousandths of a core; return the pod as it is then. Raise `PodLater`,
        too."""
        container = {"name": pod.container, "resources": {"limits": {"cpu": f"{limit_m}m"}}}
        patch = {"spec": {"containers": [container]}}
        try:
            return pod_cpu(_sent(lambda: self._client.patch(_Resizes, pod.name, patch, namespace=pod.namespace)))
        except httpx2.HTTPStatusError as error:
            raise _refusal(error, pod) from error
        except httpx2.ReadTimeout as error:  # a webhook may be slow only for this pod
            raise PodLater(f"the API server has not answered for its pod within {PATCH_S:g} s; {AGAIN}") from error
        except _NOBODY as error:
            raise ServerLater(_away_sentence(error)) from error
        except _ODD as error:
            raise PodLater(f"the API server's answer for its pod cannot be read; {AGAIN}") from error

    def end_watch(self) -> None:
        """End the watch that is under way, and each that begins after it."""
        self._line.end_watch()

    def close(self) -> None:
        self._client.close()


def connect_kubernetes(namespace: str | None = None) -> KubernetesApi:
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


def _sent(call: Callable[[], T]) -> T:
    """Return the answer to a call, which is sent again over a new connection where the kept one was closed."""
    try:
        return call()
    except _CUT:
        return call()


@contextlib.contextmanager
def _away() -> Iterator[None]:
    """Turn the errors of looking at pods into `ServerLater`."""
    try:
        yield
    except httpx2.HTTPStatusError as error:
        if _code(error) != FORBIDDEN:
            raise _busy(error) from error
        raise ServerLater(
            f"this agent may not look at pods ({_words(error)}); allow it to list and watch pods and to patch pods/resize, "
            "or name a namespace where it may by --namespace"
        ) from error
    except _ODD as error:
        raise ServerLater(_away_sentence(error)) from error


def _away_sentence(error: Exception) -> str:
    return f"the API server does not answer ({shortened(str(error) or type(error).__name__)}), so quotas stay as they are"


def _code(error: httpx2.HTTPStatusError) -> int:
    if isinstance(error, ApiError):
        return error.status.code or 0
    return error.response.status_code


def _words(error: httpx2.HTTPStatusError) -> str:
    said = error.status.message if isinstance(error, ApiError) else str(error)
    return shortened(said or str(_code(error)))


def _busy(error: httpx2.HTTPStatusError) -> ServerLater:
    """Return the error of a busy server, with the seconds that it asks for; a date is left to our own pause."""
    told = getattr(error.response, "headers", {}).get("Retry-After", "")  # an event of a watch has no response of its own
    asked_s = float(told) if re.fullmatch("[0-9]{1,4}", told) else 0.0
    return ServerLater(f"the API server answers {_code(error)} ({_words(error)}), so quotas stay as they are", asked_s)


def _refusal(error: httpx2.HTTPStatusError, pod: PodCpu) -> PodLater | ServerLater:
    """Return the outcome that the API server's answer to a patch is."""
    code, words = _code(error), _words(error)
    if code in (UNAUTHORIZED, TOO_MANY, UNAVAILABLE):
        return _busy(error)
    if code == NOT_FOUND and not _names(error, pod):
        return ServerLater(TOO_OLD, too_old=True)
    if code in (NOT_FOUND, CONFLICT) or code >= OWN_FAULT:
        return PodLater(f"the API server answers {code} for its pod ({words}); {AGAIN}")
    if code == FORBIDDEN and "pods/resize" in words:
        return PodLater(f"this agent may not resize its pod ({words}); allow it to patch pods/resize")
    if code == FORBIDDEN:
        return PodLater(
            f"the cluster does not allow this CPU limit ({words}), so it has as much as is allowed; raise the LimitRange or "
            "the quota",
            refused=True,
        )
    return PodLater(f"the API server refused to resize its pod ({code}: {words})", refused=True)


def _names(error: httpx2.HTTPStatusError, pod: PodCpu) -> bool:
    """Return True if the answer is about that pod, and not about the way to it."""
    details = error.status.details if isinstance(error, ApiError) else None
    return details is not None and details.name == pod.name
