"""Rules of iptables' table `filter` for the packets that the host takes in and hands on from an application's network. Pure.

Two chains per network, which only its packets come through. To this host: to the driver's ports and to name servers, and
answers to what the host began. Beyond it: to the application's other executors, and outside unless that is closed; never to a
cloud's metadata address. The engine keeps its networks apart by itself, and containers without NET_ADMIN and NET_RAW, in a
network without IPv6, have no other way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from controller.runtime.base import OwnNetwork
from controller.runtime.networks import NetworkNames, interface_of

METADATA = ("169.254.0.0/16", "100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32")
"""Addresses where clouds hand out credentials: link-local (most), Alibaba, Oracle, Azure."""
ANSWERS = ("-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED")
Rule = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain of rules. `parents`: the first of these that exists leads here, by `jump`."""

    name: str
    parents: tuple[str, ...]
    jump: Rule
    rules: tuple[Rule, ...] = ()


def chains(names: NetworkNames, own: OwnNetwork, resolvers: Sequence[str]) -> tuple[Chain, Chain]:
    """Return the chain of packets to the host and that of packets handed on. `resolvers` are addresses of name servers."""
    servers = () if own.closed else resolvers
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
    interface = interface_of(chain)
    # DOCKER-USER is where the engine lets others decide before it does; an engine that keeps no rules does not have it
    places = (("H", ("INPUT",)), ("F", ("DOCKER-USER", "FORWARD")))
    made = [Chain(f"{chain}-{end}", parents, ("-i", interface, "-j", f"{chain}-{end}")) for end, parents in places]
    return made[0], made[1]


def restore_text(chains: Sequence[Chain]) -> str:
    """Return text for `iptables-restore --noflush`: all of these chains at once, whatever was in them before."""
    made = [f":{chain.name} - [0:0]" for chain in chains]
    rules = [" ".join(("-A", chain.name, *rule)) for chain in chains for rule in chain.rules]
    return "\n".join(("*filter", *made, *rules, "COMMIT", ""))
