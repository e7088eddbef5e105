"""The API server of the test cluster as a newer one would answer spark-submit.

Spark applies its driver's service with ports that say no protocol. Servers default it to TCP; Kubernetes 1.20 as
`dockerfiles/kubernetes.sh` builds it refuses such a port when it is applied. This one stands before it and says TCP. All else
goes through as it is. It listens on loopback and is spoken to without TLS; watches are not for it.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.local_cluster import PATIENCE_S


@contextmanager
def with_protocols(kubernetes: Kubernetes) -> Iterator[str]:
    """Serve the API server with the protocols added; provide the URL."""
    found = json.loads(kubernetes.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    [cluster], [user] = found["clusters"], found["users"]
    context = ssl.create_default_context(cafile=cluster["cluster"]["certificate-authority"])
    token = user["user"]["token"]
    behind = urlsplit(cluster["cluster"]["server"])

    class Handler(BaseHTTPRequestHandler):
        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.command == "PATCH" and "/services/" in self.path:
                service = json.loads(body)
                for port in service["spec"]["ports"]:
                    port.setdefault("protocol", "TCP")
                body = json.dumps(service).encode()
            headers = {name: self.headers[name] for name in ("Accept", "Content-Type") if name in self.headers}
            connection = http.client.HTTPSConnection(behind.netloc, timeout=PATIENCE_S, context=context)
            try:
                connection.request(self.command, self.path, body, {**headers, "Authorization": f"Bearer {token}"})
                answer = connection.getresponse()
                content = answer.read()
            finally:
                connection.close()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward  # noqa: N815 - the names that http.server looks for

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
