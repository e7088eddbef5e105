"""Sets containers' CPU quotas at the engine over its socket: what `docker update` does, and what an agent does most.

The same request through the client library costs the agent more than twice the CPU, and would keep its threads apart. Engines
that are not reached over a local socket are asked through the library. Not here: which errors are ordinary (`docker_engine`).
"""

from __future__ import annotations

import http.client
import json
import socket
import threading

import docker
from docker.errors import APIError

from controller.runtime.base import CPU_PERIOD_US

TIMEOUT_S = 30.0


class Updates:
    """Usable on several threads at once; each has a connection of its own, kept open."""

    def __init__(self, client: docker.APIClient) -> None:
        self._client = client
        self._socket: str | None = getattr(client.get_adapter(client.base_url), "socket_path", None)
        self._own = threading.local()
        self._open: list[_Connection] = []

    def set_quota(self, container: str, quota_us: int) -> None:
        """Raises `APIError` when the engine refuses, `OSError` when it does not answer."""
        if self._socket is None:
            self._client.update_container(container, cpu_period=CPU_PERIOD_US, cpu_quota=quota_us)
            return
        body = json.dumps({"CpuPeriod": CPU_PERIOD_US, "CpuQuota": quota_us})
        path = f"/v{self._client.api_version}/containers/{container}/update"
        try:
            status, answer = self._post(self._socket, path, body)
        except OSError:
            # the engine may have closed a connection that was idle, or started anew; a quota may be set twice
            status, answer = self._post(self._socket, path, body)
        if status >= 300:
            raise APIError(f"the engine refused with status {status}: {answer[:200].decode(errors='replace')}")

    def close(self) -> None:
        """Closes every thread's connection; none may be in use."""
        for connection in self._open:
            connection.close()

    def _post(self, path_of_socket: str, path: str, body: str) -> tuple[int, bytes]:
        """Status and answer. After an `OSError` the next request opens this thread's connection anew."""
        connection: _Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = _Connection(path_of_socket)
            self._open.append(connection)
        try:
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise OSError(f"no answer at {path_of_socket}: {error}") from error


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT_S)
        self.sock.connect(self._path)
