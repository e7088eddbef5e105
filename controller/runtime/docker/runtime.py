"""The row `docker`: executors in containers. The row ends the executors that outlived their agent, and any other
containers, by their labels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from docker import APIClient
from docker.errors import DockerException

from controller.machine.addresses import is_local
from controller.machine.waiting import wait_until
from controller.runtime.base import Runtime
from controller.runtime.docker import container as docker_container
from controller.runtime.docker.client import connect, docker_version
from controller.runtime.docker.engine import DockerRuntime
from controller.runtime.docker.networks import DockerNetworks, bridge_address
from controller.runtime.ending import GONE_S
from controller.runtime.networks import DEFAULT_POOL, parse_pool, shaper_prefix
from controller.runtime.rates import lift_network_rates
from controller.runtime.table import Owner
from stage_model.errors import Unavailable

ENGINE_S = 10
"""Longest wait for one answer of the engine."""


def check(namespace: str | None) -> str:  # noqa: ARG001 - Kubernetes' only
    """Return the engine's version and place. Raise as `docker_version`."""
    return docker_version()


def make(owner: Owner) -> Runtime:
    return DockerRuntime(
        owner.cluster_id,
        owner.worker_id,
        owner.folder / "containers",
        image=owner.image,
        base_image=os.environ.get("SPARKPACE_BASE_IMAGE"),
        networks=None if owner.pool is None else DockerNetworks(owner.cluster_id, owner.pool, _lock(owner)),
        tmp_mb=owner.tmp_mb,
    )


def _lock(owner: Owner) -> Path:
    """Return the lock file of all agents of the home."""
    return owner.folder.parent / "networks.lock"


def end_all(owner: Owner) -> int:
    try:
        ended = end_containers({docker_container.CLUSTER: owner.cluster_id, docker_container.WORKER: owner.worker_id})
        with _answering("its networks") as client:
            # the networks of all its workers here, because they share them; networks with other containers are left
            DockerNetworks(owner.cluster_id, parse_pool(DEFAULT_POOL), _lock(owner)).clear(client)
    finally:
        lift_network_rates(shaper_prefix(owner.cluster_id, owner.worker_id))
    return ended


def driver_address() -> str:
    """Return an address of this machine that executors in networks of their own reach: the gateway of the engine's default
    bridge. Raise `Unavailable`."""
    with _answering("its networks") as client:
        found = bridge_address(client)
    if found is None or not is_local(found):
        what = "no address" if found is None else f"the address {found}, which this machine has not"
        raise Unavailable(
            f"the Docker engine's default bridge has {what}; name an address of this machine that containers reach with "
            "--driver-host, or choose --network host"
        )
    return found


def end_containers(labels: Mapping[str, str]) -> int:
    """Remove the containers with these labels; return how many there were, ended ones included. Raise `Unavailable` when the
    engine does not answer or remove them."""
    seen: set[str] = set()
    with _answering("its containers") as client:

        def none_left() -> bool:
            found = docker_container.clear(client, labels)
            seen.update(found)
            return not found

        if not wait_until(none_left, GONE_S):
            raise DockerException(f"some are there after {GONE_S:g} s")
    return len(seen)


@contextmanager
def _answering(what: str) -> Iterator[APIClient]:
    """Provide a client whose answers are awaited for a while. Raise `Unavailable` instead of its errors."""
    client = connect()
    try:
        client.timeout = ENGINE_S
        yield client
    except (DockerException, OSError) as error:  # requests' errors are OSErrors
        raise Unavailable(f"the Docker engine does not see to {what} ({error}); try again once it answers") from error
    finally:
        client.close()
