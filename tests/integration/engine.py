"""Containers of one cluster, as the Docker engine shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docker.errors import NotFound

from tests.integration.local_cluster import LocalCluster, cluster_in, eventually


@dataclass(frozen=True, slots=True)
class Container:
    """A container as the engine lists it."""

    id: str
    labels: dict[str, str]


@dataclass(frozen=True, slots=True)
class Engine:
    """The Docker containers of one cluster."""

    client: Any
    cluster_id: str

    def containers(self, application_id: str | None = None, *, ended: bool = True) -> list[Container]:
        labels = [f"sparkpace.cluster={self.cluster_id}"]
        if application_id is not None:
            labels.append(f"sparkpace.application={application_id}")
        listed = self.client.api.containers(all=ended, filters={"label": labels})
        return [Container(found["Id"], found["Labels"]) for found in listed]

    def await_none(self, application_id: str | None = None) -> None:
        eventually(lambda: not self.containers(application_id), f"the end of {application_id or 'all'} containers")

    def kill_executor(self, application_id: str, executor_id: str) -> None:
        """Kill an executor as `docker kill` does."""
        found = (c.id for c in self.containers(application_id) if c.labels["sparkpace.executor"] == executor_id)
        self.client.api.kill(next(found))

    def remove(self, container: Container) -> None:
        self.client.api.remove_container(container.id, force=True)

    def inspect(self, container: Container) -> dict[str, Any] | None:
        """Return the facts that `docker inspect` shows; None once the container is gone."""
        try:
            return dict(self.client.api.inspect_container(container.id))
        except NotFound:
            return None

    def quota(self, container: Container) -> int:
        """Return the quota in microseconds per period of 100000; 0 once the container is gone."""
        found = self.inspect(container)
        return int(found["HostConfig"]["CpuQuota"]) if found else 0


@contextmanager
def containers_in(client: Any, place: Path, *options: str) -> Iterator[LocalCluster]:
    """Keep a cluster up as `cluster_in` does, with executors in containers; none of those may stay, either."""
    with cluster_in(place, "docker", *options) as cluster:
        engine = Engine(client, cluster.cluster().cluster_id)
        yield cluster
    forgotten = engine.containers()
    for container in forgotten:
        engine.remove(container)
    assert forgotten == [], "`down` left containers behind"
