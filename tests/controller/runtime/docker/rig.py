"""A rig of the docker runtime, on the engine that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from controller.runtime import launching
from controller.runtime.base import ExecutorKey
from controller.runtime.docker import container as docker_container
from controller.runtime.docker.client import connect
from controller.runtime.docker.engine import DockerRuntime
from tests.controller.runtime.rigs import KEY, StartingRig


class DockerRig(StartingRig[DockerRuntime]):
    base_url: str | None = None
    """URL of the engine; None: the engine's own."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.client = connect()  # past `base_url`

    def make(self, worker: str, **settings: Any) -> DockerRuntime:
        given: dict[str, Any] = {"records": self.records(worker), "base_url": self.base_url, **settings}
        return DockerRuntime(self.cluster, worker, **given)

    def runtime(self, worker: str = "w1", **settings: Any) -> DockerRuntime:
        """Make a runtime with arguments of its own."""
        made = self.make(worker, **settings)
        self._open.append(made)
        return made

    def records(self, worker: str = "w1") -> Path:
        return self.directory / "records" / worker

    def inspect(self, key: ExecutorKey = KEY, worker: str = "w1") -> dict[str, Any]:
        """Return what the engine says of an executor's container."""
        found: dict[str, Any] = self.client.inspect_container(launching.unique_name(self.cluster, worker, key))
        return found

    def close(self) -> None:
        for runtime in self._open:
            runtime.close()
        docker_container.clear(self.client, {docker_container.CLUSTER: self.cluster})
        self.client.close()
