"""The networks of applications in a Docker engine: each has one on this host, made with its first executor, shared by the
workers here, removed with its last; and the packet rules that go with it (`packet_filter`).

The rules are there before any container of the network runs, are set again with each executor that starts, and go after the
network has. Agents of one home take turns. Not here: names, subnets and what the rules are (`controller.runtime.networks`).
"""

from __future__ import annotations

import logging
from contextlib import suppress
from ipaddress import IPv4Network
from pathlib import Path

import docker
from docker.errors import APIError, NotFound
from docker.types import IPAMConfig, IPAMPool

from controller.machine.files import locked
from controller.runtime import networks
from controller.runtime.base import OwnNetwork
from controller.runtime.docker import packet_filter
from controller.runtime.docker.container import APPLICATION, CLUSTER
from controller.runtime.networks import NetworkNames, NetworkPool
from stage_model.errors import RuntimeFailed, RuntimeRefused

INTERFACE = "com.docker.network.bridge.name"
ROUTES = Path("/proc/net/route")
RESOLVER_FILES = (Path("/etc/resolv.conf"), Path("/run/systemd/resolve/resolv.conf"))
"""Files of name servers that an engine may give containers."""
MOST_TRIES = 64
"""Number of subnets that are tried: the engine may refuse a subnet that it knows to be in use."""
TURN_S = 60.0
"""Longest wait for the other agents of the home; each call to the engine and to iptables has a time-out of its own."""
IN_USE, GONE = 403, 404

log = logging.getLogger(__name__)


class DockerNetworks:
    """The networks of one cluster. `lock` is a file that all its agents of this host share."""

    def __init__(self, cluster_id: str, pool: NetworkPool, lock: Path) -> None:
        self._cluster_id, self._pool, self._lock = cluster_id, pool, lock
        self._warned: set[str] = set()
        self._can_filter = False

    def ensure(self, client: docker.APIClient, application_id: str, own: OwnNetwork) -> str:
        """Return the id of the application's network, with its rules. Raise the client's errors, `RuntimeFailed`, and
        `RuntimeRefused` for a network that is to be closed and cannot be."""
        names = networks.network_names(self._cluster_id, application_id)
        doubt = self._why_not() or ("" if own.ports else "its driver does not tell its ports")
        if doubt and own.closed:
            raise _not_closed(application_id, doubt)
        with locked(self._lock, TURN_S):
            found = _find(client, names, self._labels(application_id)) or self._make(client, names, application_id)
            if not doubt and not packet_filter.visible(names.interface):
                doubt = f"the interface {names.interface} of its network is not seen from here"
            if doubt and own.closed:
                raise _not_closed(application_id, doubt)
            if doubt:
                self._tell(application_id, doubt)
            else:
                packet_filter.ensure(networks.chains(names, own, networks.resolvers(_texts(RESOLVER_FILES))))
        return found

    def drop(self, client: docker.APIClient, application_id: str) -> None:
        """Remove the application's network, unless containers of it run. Raise as `ensure` does."""
        names = networks.network_names(self._cluster_id, application_id)
        with locked(self._lock, TURN_S):
            found = _find(client, names, self._labels(application_id))
            if (found is None or _removed(client, found)) and not self._why_not():
                packet_filter.remove(names.chain)

    def clear(self, client: docker.APIClient) -> None:
        """Remove all networks of the cluster that no container is in, and rules without a network."""
        with locked(self._lock, TURN_S):
            label = {"label": f"{CLUSTER}={self._cluster_id}"}
            gone = [one for one in client.networks(filters=label) if _removed(client, one["Id"])]
            for one in gone if not self._why_not() else ():
                packet_filter.remove(networks.network_names(self._cluster_id, one["Labels"][APPLICATION]).chain)
            if not client.networks(filters=label) and not self._why_not():
                packet_filter.remove_all(networks.chain_prefix(self._cluster_id))

    def _make(self, client: docker.APIClient, names: NetworkNames, application_id: str) -> str:
        taken = networks.routes(ROUTES.read_text()) + [
            IPv4Network(part["Subnet"], strict=False)
            for one in client.networks()
            for part in (one.get("IPAM") or {}).get("Config") or ()
            if ":" not in part.get("Subnet", ":")
        ]
        for _ in range(MOST_TRIES):
            subnet = networks.free_subnet(self._pool, taken)
            pool = IPAMPool(subnet=str(subnet), gateway=str(subnet.network_address + 1))
            try:
                made = client.create_network(
                    names.network,
                    driver="bridge",
                    options={INTERFACE: names.interface},
                    ipam=IPAMConfig(driver="default", pool_configs=[pool]),
                    check_duplicate=True,
                    labels=self._labels(application_id),
                )
            except APIError as error:
                said = str(error.explanation or error)
                if "overlap" not in said.lower():
                    raise RuntimeFailed(
                        f"the Docker engine made no network for {application_id} ({said}); mend it, or choose --network host"
                    ) from error
                taken.append(subnet)
                continue
            log.info("%s has network %s", application_id, subnet)
            return str(made["Id"])
        raise RuntimeFailed(
            f"the Docker engine refuses {MOST_TRIES} subnets of the pool {self._pool}; give another --network-pool"
        )

    def _why_not(self) -> str:
        """Return the reason why no packet rules can be set, empty where they can. A positive answer is remembered; the reason
        against packet rules may pass."""
        why = "" if self._can_filter else packet_filter.why_not()
        self._can_filter = not why
        return why

    def _labels(self, application_id: str) -> dict[str, str]:
        return {CLUSTER: self._cluster_id, APPLICATION: application_id}

    def _tell(self, application_id: str, doubt: str) -> None:
        if doubt not in self._warned:
            self._warned.add(doubt)
            log.warning("%s: %s, %s", application_id, doubt, packet_filter.BEYOND)


def bridge_address(client: docker.APIClient) -> str | None:
    """Return the gateway of the engine's default bridge: an address of the host that containers of all its networks reach."""
    try:
        found = client.inspect_network("bridge")
    except NotFound:
        return None
    parts = (found.get("IPAM") or {}).get("Config") or ()
    gateways = [part["Gateway"] for part in parts if ":" not in part.get("Gateway", ":")]
    if not gateways:
        # an engine without containers may not name the gateway of a bridge that it did not make
        subnets = [part["Subnet"] for part in parts if ":" not in part.get("Subnet", ":")]
        gateways = [str(IPv4Network(subnet).network_address + 1) for subnet in subnets]
    return gateways[0].partition("/")[0] if gateways else None


def _not_closed(application_id: str, doubt: str) -> RuntimeRefused:
    return RuntimeRefused(
        f"the network of {application_id} is to be closed and cannot be, because {doubt}; run the agent as root with "
        "iptables, or submit without --network closed"
    )


def _find(client: docker.APIClient, names: NetworkNames, labels: dict[str, str]) -> str | None:
    """Return the id of the network with that name. Raise `RuntimeRefused` if the network is a stranger's."""
    for one in client.networks(names=[names.network]):
        if one["Name"] == names.network:
            if any((one["Labels"] or {}).get(label) != value for label, value in labels.items()):
                raise RuntimeRefused(f"network name {names.network} is taken by a foreign network; rename or remove that one")
            return str(one["Id"])
    return None


def _removed(client: docker.APIClient, network: str) -> bool:
    """Remove a network; return False when containers are in it."""
    try:
        client.remove_network(network)
    except APIError as error:
        if error.status_code == IN_USE:
            return False
        if error.status_code != GONE:
            raise
    return True


def _texts(paths: tuple[Path, ...]) -> list[str]:
    texts = []
    for path in paths:
        with suppress(OSError):
            texts.append(path.read_text(errors="replace"))
    return texts
