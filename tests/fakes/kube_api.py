"""A stand-in for a Kubernetes API server, for tests: pods, their watches and their `resize`, over HTTP.

What it knows is in `kube_state`, and what it refuses in `kube_resizes`. The tests marked `kubernetes_api` also run on a real
server.
"""

from __future__ import annotations

import copy
import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lightkube import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User

from tests.fakes.kube_resizes import Json, Refused
from tests.fakes.kube_state import UNKNOWN, KubeState

STRATEGIC = "application/strategic-merge-patch+json"


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

    def answer(self) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            said = self._answered(url.path.strip("/").split("/")[2:], query, json.loads(body or b"{}"))
        except Refused as error:
            self._say(*error.answer)
            return
        if said is not None:
            self._say(200, json.dumps(said).encode())

    do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815 - the names that http.server looks for

    def _answered(self, path: list[str], query: dict[str, str], body: Json) -> Json | None:
        """Return the answer to a call; None if the caller has it already, or never gets one."""
        state = self.server.state
        match [self.command, *path]:
            case ["GET", "pods"]:
                return self._pods(None, query)
            case ["GET", "namespaces", there, "pods"]:
                return self._pods(there, query)
            case ["GET", "namespaces", there, "pods", name]:
                with state.changed:
                    return copy.deepcopy(state._pod(there, name))
            case ["POST", "namespaces", there, "pods"]:
                return state.create(there, body)
            case ["POST", "namespaces", there, "limitranges"]:
                state.ranges[there] = body
                return body
            case ["PATCH", "namespaces", there, "pods", name, "resize"]:
                return self._resize(there, name, body)
            case ["DELETE", "namespaces", there, "pods", name]:
                state.delete(there, name)
                return {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        raise Refused(404, UNKNOWN)

    def _say(self, code: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if code != 200 and (after := self.server.state.orders.retry_after):
            self.send_header("Retry-After", after)
        self.end_headers()
        self.wfile.write(body)

    def _pods(self, namespace: str | None, query: dict[str, str]) -> Json | None:
        state = self.server.state
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

    def _resize(self, there: str, name: str, body: Json) -> Json | None:
        state, orders = self.server.state, self.server.state.orders
        if self.headers["Content-Type"] != STRATEGIC:
            raise Refused(415, "the body of the request was in an unknown format")
        with state.changed:
            state.tries.append(name)
        if name in orders.gated:
            orders.gate.wait()
        if orders.refuse:
            self._say(*orders.refuse.pop(0))
            return None
        if code := orders.refuse_pods.get(name, 0):
            raise Refused(code, f'pods "{name}": as it was ordered')
        pod = state.resize(there, name, body)
        if orders.mute:
            orders.mute -= 1
            with state.changed:
                state.changed.wait_for(lambda: state.closing, 60.0)
        if orders.close:
            orders.close -= 1
            self.close_connection = True
            return None
        return pod

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
