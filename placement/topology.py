"""The host, rack and switch of an address, by the longest prefix that is known of it. Document 003.

The store is a table per prefix length, looked up from the longest down: a radix tree's answer from dictionaries, with no tree
to walk in Python. Libraries with a tree in C need a compiler at installation or have few wheels
(docs/decisions/0017-placement.md). `parse_topology` fills it from a text; the caller reads the file.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stage_model.errors import BadInput


@dataclass(frozen=True, slots=True)
class Location:
    """The place of an address; a part that is empty is not known."""

    host: str = ""
    rack: str = ""
    switch: str = ""


NOWHERE = Location()
_PARTS = ("host", "rack", "switch")


class Topology:
    """Locations by network; `locate` finds the location of the longest prefix which holds an address. A topology never
    changes: a reload makes a new one."""

    def __init__(self, entries: Iterable[tuple[str, Location]] = ()) -> None:
        tables: dict[int, dict[int, dict[int, Location]]] = {4: {}, 6: {}}
        for prefix, location in entries:
            network = ipaddress.ip_network(prefix)
            shift = network.max_prefixlen - network.prefixlen
            tables[network.version].setdefault(shift, {})[int(network.network_address) >> shift] = location
        # the shortest shift is the longest prefix
        self._tables = {version: sorted(by_shift.items()) for version, by_shift in tables.items()}

    def __len__(self) -> int:
        return sum(len(table) for tables in self._tables.values() for _, table in tables)

    def locate(self, address: str) -> Location:
        """Return the address's location; `NOWHERE` for a name, or an address in no network that is known."""
        # inet_pton takes a tenth of the time that `ipaddress` does
        version, family = (6, socket.AF_INET6) if ":" in address else (4, socket.AF_INET)
        try:
            number = int.from_bytes(socket.inet_pton(family, address))
        except (OSError, ValueError):
            return NOWHERE
        for shift, table in self._tables[version]:
            location = table.get(number >> shift)
            if location is not None:
                return location
        return NOWHERE


def parse_topology(text: str, *, source: str = "topology") -> Topology:
    """Parse lines `PREFIX host=H rack=R switch=S`, each part once and at least one of them; `#` begins a comment. A prefix
    without a length is one address. Raise `BadInput` with the number of the first line that cannot be read."""
    entries: dict[str, Location] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            prefix = str(ipaddress.ip_network(words[0]))
        except ValueError as error:
            raise BadInput(f"{source}, line {number}: {error}; give a network, as 10.1.2.0/24, or an address") from None
        if prefix in entries:
            raise BadInput(f"{source}, line {number}: {prefix} is there twice; name each network once")
        entries[prefix] = Location(**_parts(words[1:], f"{source}, line {number}"))
    return Topology(entries.items())


def _parts(words: Iterable[str], where: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        if name not in _PARTS or not value or name in found:
            raise BadInput(f"{where}: {word[:60]!r} is not known; accepted: host=, rack= and switch=, each once")
        found[name] = value
    if not found:
        raise BadInput(f"{where}: nothing is said of this network; add host=, rack= or switch=")
    return found
