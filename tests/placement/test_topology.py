"""Longest-prefix match."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.topology import NOWHERE, Location, Topology, parse_topology
from stage_model.errors import BadInput

TEXT = """
# the building
10.0.0.0/8       switch=core
10.1.0.0/16      rack=r1 switch=s1
10.1.2.0/24      host=h2 rack=r1 switch=s1   # a host's containers
10.1.2.7         host=h7 rack=r7 switch=s1
fd00:1::/32      rack=r6
"""


@pytest.mark.parametrize(
    ("address", "location"),
    [
        ("10.1.2.7", Location("h7", "r7", "s1")),
        ("10.1.2.8", Location("h2", "r1", "s1")),
        ("10.1.9.9", Location("", "r1", "s1")),
        ("10.9.9.9", Location("", "", "core")),
        ("192.168.0.1", NOWHERE),
        ("fd00:1::5", Location("", "r6", "")),
        ("a-name", NOWHERE),
    ],
)
def test_the_longest_prefix_wins(address: str, location: Location) -> None:
    assert parse_topology(TEXT).locate(address) == location


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("10.1.2.3/24 rack=r", r"10\.1\.2\.3/24"),
        ("10.1.2.300 rack=r", r"10\.1\.2\.300"),
        ("10.2.0.0/16", "line 3"),
        ("10.2.0.0/16 rock=r", "'rock=r'"),
        ("10.2.0.0/16 rack=", "'rack='"),
        ("10.2.0.0/16 rack=a rack=b", "'rack=b'"),
        ("10.1.0.0/16 rack=r", r"10\.1\.0\.0/16"),
    ],
)
def test_a_malformed_file_is_refused_with_the_lines_number(line: str, words: str) -> None:
    with pytest.raises(BadInput, match=words) as refused:
        parse_topology(f"# ours\n10.1.0.0/16 rack=r1\n{line}\n", source="racks.txt")
    assert "racks.txt, line 3" in str(refused.value)


networks = st.builds(
    lambda n, length: ipaddress.ip_network((n >> (32 - length) << (32 - length), length)),
    st.integers(0, 2**32 - 1),
    st.integers(1, 32),
)


@given(st.lists(networks, max_size=30, unique=True), st.integers(0, 2**32 - 1))
def test_every_answer_is_that_of_looking_at_all_prefixes(known: list[ipaddress.IPv4Network], number: int) -> None:
    topology = Topology((str(network), Location(rack=str(network))) for network in known)
    address = ipaddress.IPv4Address(number)
    holding = [network for network in known if address in network]
    best = max(holding, key=lambda network: network.prefixlen, default=None)
    assert topology.locate(str(address)) == (Location(rack=str(best)) if best else NOWHERE)
    assert len(topology) == len(known)
