"""Updates of a container's CPU quota or memory limit, sent over the engine's socket as `docker update` does: an agent's usual
request.

The same request through the client library costs the agent more than twice the CPU, and would keep its threads apart. Engines
that are not reached over a local socket are asked through the library. Not here: when and how often (`chores`), which errors
are ordinary (`state`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping

import docker
from docker.errors import APIError

from controller.machine.http import HttpConnection, to_socket
from controller.runtime.base import CPU_PERIOD_US

TIMEOUT_S = 5.0


class Updates:
    """Sender of updates, usable on several threads at once; each has a connection of its own, kept open. `client` is called
    when needed."""

    def __init__(self, client: Callable[[], docker.APIClient]) -> None:
        self._client = client
        self._own = threading.local()
        self._open: list[HttpConnection] = []

    def set_quota(self, container: str, quota_us: int) -> None:
        """Set the quota. Raise `APIError` when the engine refuses, `OSError` when it does not answer in time."""
        self._update(container, {"CpuPeriod": CPU_PERIOD_US, "CpuQuota": quota_us})

    def set_memory_limit(self, container: str, memory_bytes: int) -> None:
        """Set the limit, without swap. Raise as `set_quota`."""
        self._update(container, {"Memory": memory_bytes, "MemorySwap": memory_bytes})

    def close(self) -> None:
        """Close every thread's connection; none may be in use."""
        for connection in self._open:
            connection.close()

    def _update(self, container: str, values: Mapping[str, int]) -> None:
        client = self._client()
        path_of_socket: str | None = getattr(client.get_adapter(client.base_url), "socket_path", None)
        path = f"/v{client.api_version}/containers/{container}/update"
        if path_of_socket is None:
            response = client.post(f"{client.base_url}{path}", json=values, timeout=TIMEOUT_S)
            status, answer = response.status_code, response.content
        else:
            status, answer = self._post(path_of_socket, path, json.dumps(values).encode())
        if status >= 300:
            raise APIError(f"the engine refused with status {status}: {answer[:200].decode(errors='replace')}")

    def _post(self, path_of_socket: str, path: str, body: bytes) -> tuple[int, bytes]:
        connection: HttpConnection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = to_socket(path_of_socket, TIMEOUT_S)
            self._open.append(connection)
        try:
            answer = connection.ask("POST", path, body, {"Content-Type": "application/json"})
        except TimeoutError as error:
            raise OSError(f"no answer at {path_of_socket} within {TIMEOUT_S:g} s") from error
        except OSError as error:
            raise OSError(f"no answer at {path_of_socket}: {error}") from error
        return answer.status, answer.body
