"""The network that an application's executors have on a host: its names, and its subnet out of a pool. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from stage_model.errors import BadInput, RuntimeFailed

DEFAULT_POOL = "10.201.0.0/16,172.30.0.0/16,192.168.224.0/19"
"""Networks apart from those that engines and home routers take first; three, because a company's routes may cover one."""
SUBNET_BITS = 28
LOST_ADDRESSES = 3
"""Number of addresses that each subnet loses: its own, the gateway's, the broadcast's."""


@dataclass(frozen=True, slots=True)
class NetworkPool:
    """Address space of applications' networks. `bits` is the prefix length of each application's subnet."""

    bases: tuple[IPv4Network, ...]
    bits: int = SUBNET_BITS

    def __str__(self) -> str:
        bases = ",".join(map(str, self.bases))
        return bases if self.bits == SUBNET_BITS else f"{bases}:{self.bits}"

    @property
    def subnets(self) -> int:
        """Number of subnets."""
        return sum(1 << (self.bits - base.prefixlen) for base in self.bases)


@dataclass(frozen=True, slots=True)
class NetworkNames:
    """Names of one network. `network` is the engine's name, `interface` the host's (15 characters at most), `chain` the
    beginning of its chains' names."""

    network: str
    interface: str
    chain: str


def parse_pool(text: str) -> NetworkPool:
    """Parse 10.201.0.0/16, several with commas, and :26 behind them for subnets of another size. Raise `BadInput`."""
    bases, _, bits = text.partition(":")
    try:
        pool = NetworkPool(tuple(IPv4Network(base.strip()) for base in bases.split(",")), int(bits or SUBNET_BITS))
    except ValueError:
        pool = NetworkPool(())
    if not pool.bases or not 8 <= pool.bits <= 29 or any(base.prefixlen > pool.bits for base in pool.bases):
        raise BadInput(
            f"--network-pool {text[:80]!r} is no pool of networks; give IPv4 networks as 10.201.0.0/16, several with "
            f"commas, of /{SUBNET_BITS} or more each, and :26 behind them for subnets of another size than /{SUBNET_BITS}"
        )
    return pool


def room_for(pool: NetworkPool, executors: int) -> NetworkPool:
    """Return the same pool with subnets that hold that number of executors of one application; never smaller than they
    were."""
    bits = min(pool.bits, 32 - (executors + LOST_ADDRESSES - 1).bit_length())
    return NetworkPool(pool.bases, max(bits, *(base.prefixlen for base in pool.bases)))


def free_subnet(pool: NetworkPool, taken: Iterable[IPv4Network]) -> IPv4Network:
    """Return the first subnet of the pool that overlaps nothing that is taken. Raise `RuntimeFailed` when none is left."""
    size = 1 << (32 - pool.bits)
    used = sorted((int(one.network_address), int(one.broadcast_address)) for one in taken)
    for base in pool.bases:
        start, end = int(base.network_address), int(base.broadcast_address)
        for first, last in used:
            if start <= last and first < start + size:
                start = (last // size + 1) * size
        if start + size - 1 <= end:
            return IPv4Network((start, pool.bits))
    raise RuntimeFailed(
        f"no network is left for another application: each of the {pool.subnets} subnet(s) of the pool {pool} is used by a "
        "network or route of this machine; give another pool with --network-pool, or choose --network host"
    )


def routes(table: str) -> list[IPv4Network]:
    """Return the networks that /proc/net/route (its text) leads to, default routes apart."""
    found = []
    for line in table.splitlines()[1:]:
        words = line.split()
        destination, mask = (int.from_bytes(bytes.fromhex(words[at]), "little") for at in (1, 7))
        if mask:
            found.append(IPv4Network((destination, mask.bit_count()), strict=False))
    return found


def network_names(cluster_id: str, application_id: str) -> NetworkNames:
    """Return the same names for all agents of a cluster, so that its workers on one host share an application's network."""
    digest = _digest(cluster_id) + _digest(cluster_id, application_id)
    readable = re.sub(r"[^a-zA-Z0-9.-]+", "-", application_id)[:60]
    return NetworkNames(f"sparkpace-{readable}-{digest}", f"sp{digest}", f"{chain_prefix(cluster_id)}{digest[6:]}")


def chain_prefix(cluster_id: str) -> str:
    """Return the beginning of all chain names of a cluster, and of no others."""
    return f"SPARKPACE-{_digest(cluster_id)}"


def interface_of(chain: str) -> str:
    """Return the interface of the network that a chain (or the beginning of its name) belongs to."""
    return f"sp{chain.removeprefix('SPARKPACE-')[:12]}"


def resolvers(texts: Collection[str]) -> tuple[str, ...]:
    """Return the name servers of resolv.conf files (their texts) that containers ask by themselves; the engine asks those on
    loopback for them."""
    found = re.findall(r"^nameserver\s+(\d+\.\d+\.\d+\.\d+)\s*$", "\n".join(texts), re.MULTILINE)
    named = set()
    for one in found:
        with suppress(ValueError):  # containers cannot ask it, either
            named.add(IPv4Address(one))
    return tuple(str(one) for one in sorted(named) if not one.is_loopback)


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:6]
