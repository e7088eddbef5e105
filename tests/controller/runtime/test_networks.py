"""The networks of applications: pools, subnets, names, and which packet rules there are. No engine, no iptables."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Network

import pytest

from controller.runtime import networks
from controller.runtime.base import OwnNetwork
from controller.runtime.networks import DEFAULT_POOL, METADATA, both, chains, free_subnet, parse_pool, restore_text, room_for
from stage_model.errors import BadInput, RuntimeFailed

OWN = OwnNetwork("172.17.0.1", (40_001, 40_002))
NAMES = networks.network_names("cluster", "app-1")
RESOLVER = "192.0.2.53"


@pytest.mark.parametrize(
    "text",
    ["", "10.201.0.0", "10.201.0.1/16", "10.201.0.0/29", "10.201.0.0/16:30", "10.201.0.0/16:12", "fd00::/64", "x", "a:b:c"],
)
def test_what_is_no_pool_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--network-pool"):
        parse_pool(text)


def test_a_pool_reads_back_as_it_was_written() -> None:
    assert str(parse_pool(DEFAULT_POOL)) == DEFAULT_POOL
    assert str(parse_pool("10.201.0.0/16:26")) == "10.201.0.0/16:26"
    assert parse_pool("10.201.0.0/24").subnets == 16


def test_a_subnet_has_room_for_the_executors_of_all_workers() -> None:
    """A subnet of 2**n addresses loses three; 64 workers are the most."""
    assert [room_for(parse_pool("10.0.0.0/16"), workers).bits for workers in (1, 13, 14, 29, 30, 61, 64)] == [
        *(28, 28, 27, 27, 26, 26, 25)
    ]


def test_subnets_are_taken_in_turn_and_overlap_no_other_network() -> None:
    pool = parse_pool("10.201.0.0/24")
    taken = [IPv4Network(one) for one in ("10.201.0.0/28", "10.201.0.20/30", "10.201.0.64/26", "10.9.0.0/16")]
    found: list[IPv4Network] = []
    for _ in range(10):
        found.append(free_subnet(pool, [*taken, *found]))
    assert [str(one) for one in found] == [f"10.201.0.{at}/28" for at in (32, 48, 128, 144, 160, 176, 192, 208, 224, 240)]
    with pytest.raises(RuntimeFailed, match=r" 16 .*10\.201\.0\.0/24.*-pool"):
        free_subnet(pool, [*taken, *found])


def test_a_route_over_a_whole_base_sends_networks_to_the_next() -> None:
    assert str(free_subnet(parse_pool(DEFAULT_POOL), [IPv4Network("10.0.0.0/8")])) == "172.30.0.0/28"


def test_routes_are_read_and_default_routes_left_out() -> None:
    table = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
        "eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
        "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    )
    assert networks.routes(table) == [IPv4Network("172.17.0.0/16")]


def test_names_differ_by_cluster_and_application_and_fit_the_kernel() -> None:
    others = [networks.network_names(*parts) for parts in (("cluster", "app-2"), ("other", "app-1"), ("cluster", "app 1"))]
    assert len({one.network for one in (NAMES, *others)}) == len({one.interface for one in (NAMES, *others)}) == 4
    assert len(NAMES.interface) <= 15
    for chain in both(NAMES.chain):
        assert len(chain.name) <= 28
        assert chain.jump == ("-i", NAMES.interface, "-j", chain.name)
        assert chain.name.startswith(networks.chain_prefix("cluster"))
        assert not chain.name.startswith(networks.chain_prefix("other"))


def test_name_servers_on_loopback_are_the_engines_to_ask() -> None:
    text = "# nameserver 8.8.4.4\nnameserver 127.0.0.53\nnameserver 192.0.2.53\nnameserver fd00::1\noptions edns0\n"
    assert networks.resolvers([text, "nameserver 192.0.2.53\n"]) == (RESOLVER,)


# ---------------------------------------------------------------- rules, judged as the kernel does


def verdict(packet: dict[str, str], own: OwnNetwork) -> str:
    """Return the verdict of the rules on a packet from the network: the target of the first rule that matches, ACCEPT where
    none does."""
    host, on = chains(NAMES, own, [RESOLVER])
    for rule in (on if packet.get("out") else host).rules:
        words = dict(zip(rule[::2], rule[1::2], strict=True))
        asked: dict[str, Callable[[str], bool]] = {
            "-p": lambda kind: packet.get("p", "tcp") == kind,
            "-d": lambda net: IPv4Network(packet["d"]).subnet_of(IPv4Network(net)),
            "-o": lambda name: packet.get("out") == name,
            "-m": lambda _: True,
            "-j": lambda _: True,
            "--dport": lambda port: packet.get("port") == port,
            "--dports": lambda ports: packet.get("port") in ports.split(","),
            "--ctstate": lambda states: packet.get("state", "NEW") in states.split(","),
        }
        if all(asked[option](value) for option, value in words.items()):
            return words["-j"]
    return "ACCEPT"


@pytest.mark.parametrize("closed", [False, True])
def test_the_host_takes_in_only_packets_to_the_drivers_ports(closed: bool) -> None:
    own = OwnNetwork(OWN.address, OWN.ports, closed)
    assert [verdict({"d": "172.17.0.1", "port": port}, own) for port in ("40001", "40002")] == ["ACCEPT"] * 2
    for other in (
        {"d": "172.17.0.1", "port": "7070"},
        {"d": "172.17.0.1", "port": "40001", "p": "udp"},
        {"d": "192.0.2.2", "port": "40001"},
        {"d": "10.201.0.1", "port": "22"},
        {"d": "172.17.0.1", "p": "icmp"},
    ):
        assert verdict(other, own) == "DROP"
    assert verdict({"d": "172.17.0.1", "port": "999", "state": "ESTABLISHED"}, own) == "ACCEPT"


def test_the_outside_is_reached_unless_it_is_closed_and_the_metadata_address_never() -> None:
    closed = OwnNetwork(OWN.address, OWN.ports, closed=True)
    outside = {"d": "203.0.113.1", "port": "443", "out": "eth0"}
    assert (verdict(outside, OWN), verdict(outside, closed)) == ("ACCEPT", "DROP")
    for network in METADATA:
        packet = {"d": str(IPv4Network(network)[0]), "port": "80", "out": "eth0"}
        assert verdict(packet, OWN) == verdict(packet, closed) == "DROP"
    assert verdict({"d": "169.254.169.254", "port": "80", "out": "eth0"}, OWN) == "DROP"
    for own in (OWN, closed):
        assert verdict({"d": "10.201.0.3", "port": "1", "out": NAMES.interface}, own) == "RETURN"
        assert verdict({**outside, "state": "RELATED"}, own) == "RETURN"


def test_name_servers_are_asked_where_they_are_unless_it_is_closed() -> None:
    """A name server is at the metadata address on some clouds, so name servers come first."""
    closed = OwnNetwork(OWN.address, OWN.ports, closed=True)
    for kind in ("udp", "tcp"):
        here = {"d": RESOLVER, "port": "53", "p": kind}
        assert (verdict(here, OWN), verdict(here, closed)) == ("ACCEPT", "DROP")
        assert (verdict({**here, "out": "eth0"}, OWN), verdict({**here, "out": "eth0"}, closed)) == ("RETURN", "DROP")


def test_both_chains_are_written_at_once() -> None:
    lines = restore_text(chains(NAMES, OWN, [])).splitlines()
    assert lines[0] == "*filter"
    assert lines[-1] == "COMMIT"
    assert [line for line in lines if line.startswith(":")] == [f":{chain.name} - [0:0]" for chain in both(NAMES.chain)]
    assert f"-A {NAMES.chain}-H -p tcp -d 172.17.0.1 -m multiport --dports 40001,40002 -j ACCEPT" in lines
