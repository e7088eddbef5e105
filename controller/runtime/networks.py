"""The network that an application's executors have on a host: its names, its subnet out of a pool, and the rules of iptables'
table `filter` for the packets that the host takes in and hands on from it. Pure.

Two chains per network, which only its packets come through. To this host: to the driver's ports and to name servers, and
answers to what the host began. Beyond it: to the application's other executors, and outside unless that is closed; never to a
cloud's metadata address. The engine keeps its networks apart by itself, and containers without NET_ADMIN and NET_RAW, in a
network without IPv6, have no other way out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network

from controller.runtime.base import ExecutorKey, OwnNetwork
from stage_model.errors import BadInput, RuntimeFailed

DEFAULT_POOL = "10.201.0.0/16,172.30.0.0/16,192.168.224.0/19"
"""Networks that engines and home routers do not take first; three, because a company's routes may cover one."""
SUBNET_BITS = 28
LOST_ADDRESSES = 3
"""Number of addresses that each subnet loses: its own, the gateway's, the broadcast's."""
METADATA = ("169.254.0.0/16", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32")
"""Addresses where clouds hand out credentials: link-local (most), Alibaba, Oracle, Azure."""
ANSWERS = ("-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED")
Rule = tuple[str, ...]


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
            f"--network-pool {text[:80]!r} is not a pool of networks; give IPv4 networks as 10.201.0.0/16, several with "
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


def shaper_prefix(cluster_id: str, worker_id: str) -> str:
    """Return the beginning of the names of all interfaces that hold what the worker's executors send, and of no others."""
    return f"sq{_digest(cluster_id, worker_id)}"


def shaper_name(prefix: str, key: ExecutorKey) -> str:
    """Return the name of an executor's interface, of 14 letters: the kernel takes 15."""
    return f"{prefix}{_digest(key.text)}"


def chain_prefix(cluster_id: str) -> str:
    """Return the beginning of all chain names of a cluster, and of no others."""
    return f"SPARKPACE-{_digest(cluster_id)}"


def resolvers(texts: Collection[str]) -> tuple[str, ...]:
    """Return the name servers of resolv.conf files (their texts) that containers ask by themselves; the engine asks the name
    servers on loopback for them."""
    found = re.findall(r"^nameserver\s+(\d+\.\d+\.\d+\.\d+)\s*$", "\n".join(texts), re.MULTILINE)
    named = set()
    for one in found:
        with suppress(ValueError):  # containers cannot ask it, either
            named.add(IPv4Address(one))
    return tuple(str(one) for one in sorted(named) if not one.is_loopback)


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of rules. `parents`: the first of these that exists leads here, by `jump`."""

    name: str
    parents: tuple[str, ...]
    jump: Rule
    rules: tuple[Rule, ...] = ()


def chains(names: NetworkNames, own: OwnNetwork, name_servers: Sequence[str]) -> tuple[Chain, Chain]:
    """Return the chain of packets to the host and that of packets handed on. `name_servers` are addresses."""
    servers = () if own.closed else name_servers
    names_asked = [("-p", kind, "-d", server, "--dport", "53") for server in servers for kind in ("udp", "tcp")]
    ports = ",".join(map(str, sorted(set(own.ports))))
    to_host = (
        (*ANSWERS, "-j", "ACCEPT"),
        ("-p", "tcp", "-d", own.address, "-m", "multiport", "--dports", ports, "-j", "ACCEPT"),
        *((*asked, "-j", "ACCEPT") for asked in names_asked),
        ("-j", "DROP"),
    )
    handed_on = (
        ("-o", names.interface, "-j", "RETURN"),
        (*ANSWERS, "-j", "RETURN"),
        *((*asked, "-j", "RETURN") for asked in names_asked),
        *(("-d", network, "-j", "DROP") for network in METADATA),
        *([("-j", "DROP")] if own.closed else []),
    )
    host, on = both(names.chain)
    return replace(host, rules=to_host), replace(on, rules=handed_on)


def both(chain: str) -> tuple[Chain, Chain]:
    """Return the two chains of a network without their rules."""
    interface = f"sp{chain.removeprefix('SPARKPACE-')[:12]}"  # as `network_names` says
    # DOCKER-USER is where the engine lets others decide before it does; an engine that keeps no rules does not have it
    places = (("H", ("INPUT",)), ("F", ("DOCKER-USER", "FORWARD")))
    made = [Chain(f"{chain}-{end}", parents, ("-i", interface, "-j", f"{chain}-{end}")) for end, parents in places]
    return made[0], made[1]


def restore_text(chains: Sequence[Chain]) -> str:
    """Return text for `iptables-restore --noflush`: all of these chains at once, whatever was in them before."""
    made = [f":{chain.name} - [0:0]" for chain in chains]
    rules = [" ".join(("-A", chain.name, *rule)) for chain in chains for rule in chain.rules]
    return "\n".join(("*filter", *made, *rules, "COMMIT", ""))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:6]
