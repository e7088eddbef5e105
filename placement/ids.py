"""The pieces of a resource that an executor holds: whole ones, or a share of one (document 001; docs/design.md, section 3).

Shares of two pieces are never joined (0.5 of piece 0 and 0.5 of piece 1 are not 0.75), pieces that are split already are
shared first, and a returned share makes a piece whole again. Amounts are units of 1/10000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placement.resources import SCALE, ResourceSet

Held = Mapping[int, int]
"""Units held of each piece, by its id."""


class Pool:
    """The pieces of one resource on one worker, ids 0 to `count` - 1, less what is `held`.

    The size may have changed since pieces were taken: no one can have any part of a piece that is there no more."""

    def __init__(self, count: int, held: Iterable[Held] = ()) -> None:
        self._free = dict.fromkeys(range(count), SCALE)
        for one in held:
            for piece in self._free.keys() & one.keys():
                self._free[piece] -= one[piece]

    @property
    def free_units(self) -> int:
        """Units that no one holds; they need not come from one piece."""
        return sum(max(0, units) for units in self._free.values())

    def find(self, units: int) -> Held | None:
        """Return a whole number of pieces or a share of one that are free; None where not that much is free. Raise
        `ValueError` for an amount above 1 that is not whole."""
        if units >= SCALE:
            if units % SCALE:
                raise ValueError(f"{units} units are more than a piece and not whole")
            whole = [piece for piece, free in sorted(self._free.items()) if free == SCALE][: units // SCALE]
            return dict.fromkeys(whole, SCALE) if len(whole) == units // SCALE else None
        # the fullest split piece that has room, so that larger shares stay possible; else a whole one is split
        room = [(free == SCALE, free, piece) for piece, free in self._free.items() if free >= units]
        return {min(room)[2]: units} if room else None


def find_all(pools: Mapping[str, Pool], asked: ResourceSet) -> dict[str, Held] | None:
    """Return the free pieces of every resource asked for; None if any resource has too few."""
    found = {name: pools[name].find(units) if name in pools else None for name, units in asked.items()}
    held = {name: pieces for name, pieces in found.items() if pieces is not None}
    return held if len(held) == len(found) else None
