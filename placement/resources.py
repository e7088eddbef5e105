"""Amounts of resources in fixed point: whole counts of 1/10000, so that no sum ever drifts (document 001; docs/design.md).

Names: `cpu` (cores), `memory` (MiB), `gpu`, and anything else that a worker advertises. `cpu` and `memory` are plain amounts;
everything else comes in pieces with ids of their own, of which an executor holds whole ones, or a share of one
(docs/design.md, section 3). Shares of two pieces are never joined (0.5 of piece 0 and 0.5 of piece 1 are not 0.75), pieces
that are split already are shared first, and a returned share makes a piece whole again. Not covered: whether a worker has
room (`filters`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from stage_model.errors import BadInput
from stage_model.units import comma_separated

SCALE = 10_000
"""Units of a whole (Ray's kResourceConversionFactor)."""
CPU, MEMORY, GPU = "cpu", "memory", "gpu"
MOST_PIECES = 4096
"""Most pieces of one resource on one worker; each is kept account of."""
PLAIN = frozenset((CPU, MEMORY))
"""Resources that no one counts in pieces."""

_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,62}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{1,4})?", re.ASCII)


class ResourceSet(Mapping[str, int]):
    """The amount of each resource, in units of 1/10000; a resource that is not named has 0. The set never changes."""

    __slots__ = ("_units",)

    def __init__(self, units: Mapping[str, int] | None = None) -> None:
        self._units = {name: count for name, count in (units or {}).items() if count}
        if any(count < 0 for count in self._units.values()):
            raise ValueError(f"negative amount in {self._units}")

    @staticmethod
    def of(**amounts: float) -> ResourceSet:
        """Return the set of plain numbers: `ResourceSet.of(cpu=1.5, memory=512)`; raise `ValueError` below 0."""
        return ResourceSet({name: round(amount * SCALE) for name, amount in amounts.items()})

    def __getitem__(self, name: str) -> int:
        return self._units.get(name, 0)

    def __iter__(self) -> Iterator[str]:
        return iter(self._units)

    def __len__(self) -> int:
        return len(self._units)

    def __contains__(self, name: object) -> bool:
        return name in self._units

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ResourceSet) and self._units == other._units

    def __hash__(self) -> int:
        return hash(frozenset(self._units.items()))

    def __repr__(self) -> str:
        return f"ResourceSet({self})"

    def __str__(self) -> str:
        return ",".join(f"{name}={amount(count)}" for name, count in sorted(self._units.items())) or "nothing"

    def within(self, other: Mapping[str, int]) -> bool:
        """Check that `other` has as much of everything."""
        return all(count <= other.get(name, 0) for name, count in self._units.items())

    def lacking(self, other: Mapping[str, int]) -> list[str]:
        """Return the names of which `other` has less."""
        return sorted(name for name, count in self._units.items() if count > other.get(name, 0))

    def __add__(self, other: ResourceSet) -> ResourceSet:
        return ResourceSet({name: self[name] + other[name] for name in (*self, *other)})


NOTHING = ResourceSet()

Held = Mapping[int, int]
"""Units held of each piece, by its id."""


class Pool:
    """The pieces of one resource on one worker, ids 0 to `count` - 1, less what is `held`.

    The size may have changed since pieces were taken: no executor can have a part of a piece that no longer exists."""

    def __init__(self, count: int, held: Iterable[Held] = ()) -> None:
        self._free = dict.fromkeys(range(count), SCALE)
        for one in held:
            for piece in self._free.keys() & one.keys():
                self._free[piece] -= one[piece]

    @property
    def free_units(self) -> int:
        """Free units; they need not come from one piece."""
        return sum(max(0, units) for units in self._free.values())

    def find(self, units: int) -> Held | None:
        """Return free pieces, or a piece that has such a share free; None where not that much is free. Raise `ValueError` for
        an amount above 1 that is not whole."""
        if units >= SCALE:
            if units % SCALE:
                raise ValueError(f"{units} units are more than a piece and not whole")
            whole = [piece for piece, free in sorted(self._free.items()) if free == SCALE][: units // SCALE]
            return dict.fromkeys(whole, SCALE) if len(whole) == units // SCALE else None
        # take the fullest split piece that has room, so that larger shares stay possible; else split a whole piece
        room = [(free == SCALE, free, piece) for piece, free in self._free.items() if free >= units]
        return {min(room)[2]: units} if room else None


def find_all(pools: Mapping[str, Pool], asked: ResourceSet) -> dict[str, Held] | None:
    """Return the free pieces of every resource asked for; None if any resource has too few."""
    found = {name: pools[name].find(units) if name in pools else None for name, units in asked.items()}
    held = {name: pieces for name, pieces in found.items() if pieces is not None}
    return held if len(held) == len(found) else None


def amount(units: int) -> str:
    """Return the units as people write them."""
    return f"{units / SCALE:.4f}".rstrip("0").rstrip(".")


def parse_advertised(text: str, *, option: str = "--resources") -> ResourceSet:
    """Parse a worker's resources in pieces: "gpu=2,ssd=1". Raise `BadInput`."""
    found = _parse(text, option)
    for name, units in found.items():
        if units % SCALE:
            raise BadInput(f"{option} {name}={amount(units)} is not a whole number; give the number of whole pieces")
        if units > MOST_PIECES * SCALE:
            raise BadInput(f"{option} {name}={amount(units)} is too large; give {MOST_PIECES} at most")
    return found


def parse_asked(text: str, *, option: str = "spark.pace.placement.resources") -> ResourceSet:
    """Parse an executor's needs of resources: "gpu=0.5,ssd=1"; whole numbers or a fraction of one piece. Raise `BadInput`."""
    found = _parse(text, option)
    for name, units in found.items():
        if units > SCALE and units % SCALE:  # pieces are had whole, or one is shared
            said = f"{option} {name}={amount(units)} is more than one and not whole"
            raise BadInput(f"{said}; give a whole number, or a fraction below 1")
    return found


def _parse(text: str, option: str) -> ResourceSet:
    units: dict[str, int] = {}
    for word in comma_separated(text):
        name, equals, number = word.partition("=")
        if not equals or not _NAME.fullmatch(name) or name in units:
            raise BadInput(f"{option} {word[:60]!r} is not a resource; give NAME=AMOUNT once for each, as gpu=1,ssd=2")
        if name in PLAIN:
            raise BadInput(f"{option} {word[:60]!r}: {name} has options of its own; use gpu or names of your own")
        if not _NUMBER.fullmatch(number):
            said = f"{option} {name}={number[:40]} is not an amount"
            raise BadInput(f"{said}; give a number of 0 or more, with four decimals at most")
        units[name] = round(float(number) * SCALE)
    return ResourceSet(units)
