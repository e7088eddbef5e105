"""Which pieces of a resource somebody holds: whole ones, or a share of one (document 001; docs/design.md, section 3).

Shares of two pieces are never joined (0.5 of piece 0 and 0.5 of piece 1 are not 0.75), pieces that are split already are
shared first, and what comes back makes a piece whole again. Amounts are units of 1/10000.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from placement.resources import SCALE, ResourceSet

Held = Mapping[int, int]
"""Units held of each piece, by its id."""


class Pool:
    """The pieces of one resource on one worker, ids 0 to `count` - 1, less what is `held`.

    Its size may change at run time: a piece that is in use when it is taken away goes when it comes back (the backlog)."""

    def __init__(self, count: int, held: Iterable[Held] = ()) -> None:
        self._free = dict.fromkeys(range(count), SCALE)
        self.count = count
        for one in held:
            for piece, units in one.items():
                # a piece taken away while somebody holds it: it counts with what nobody can have
                self._free[piece] = self._free.get(piece, SCALE if piece < count else 0) - units

    @property
    def free_units(self) -> int:
        """What nobody holds; it need not come from one piece."""
        return sum(max(0, units) for units in self._free.values())

    @property
    def backlog(self) -> int:
        """Units in use of pieces that are there no more."""
        return -sum(min(0, units) for units in self._free.values())

    def fits(self, units: int) -> bool:
        return self._find(units) is not None

    def acquire(self, units: int) -> Held | None:
        """Takes a whole number of pieces or a share of one; None where there is not as much. Raises `ValueError` for an
        amount above 1 that is not whole."""
        found = self._find(units)
        for piece, part in (found or {}).items():
            self._free[piece] -= part
        return found

    def release(self, held: Held) -> None:
        """Gives back what was acquired; raises `ValueError` where that is more than was held."""
        for piece, units in held.items():
            if self._free.get(piece, 0) + units > (SCALE if piece < self.count else 0):
                raise ValueError(f"{units} units of piece {piece} were not held")
        for piece, units in held.items():
            self._free[piece] += units
            if piece >= self.count and not self._free[piece]:
                del self._free[piece]

    def resize(self, count: int) -> None:
        """So many pieces from now on: the last ones go, new ones get the next ids."""
        for piece in range(self.count, count):
            self._free[piece] = self._free.get(piece, 0) + SCALE
        for piece in range(count, self.count):
            self._free[piece] -= SCALE
            if not self._free[piece]:
                del self._free[piece]
        self.count = count

    def _find(self, units: int) -> Held | None:
        if units >= SCALE:
            if units % SCALE:
                raise ValueError(f"{units} units are more than a piece and not whole")
            whole = [piece for piece, free in sorted(self._free.items()) if free == SCALE][: units // SCALE]
            return dict.fromkeys(whole, SCALE) if len(whole) == units // SCALE else None
        # the fullest split piece that has room, so that larger shares stay possible; else a whole one is split
        room = [(free == SCALE, free, piece) for piece, free in self._free.items() if free >= units]
        return {min(room)[2]: units} if room else None


def acquire_all(pools: Mapping[str, Pool], asked: ResourceSet) -> dict[str, Held] | None:
    """Pieces of every resource asked for, or None and nothing taken."""
    if not all(name in pools and pools[name].fits(units) for name, units in asked.items()):
        return None
    held = {name: pools[name].acquire(units) for name, units in asked.items()}
    return {name: pieces for name, pieces in held.items() if pieces is not None}
