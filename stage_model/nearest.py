"""For refusals of a name that nobody knows: the known ones that are most like it. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

LONGEST = 100
"""Characters that are compared: comparing takes time with the product of both lengths, and anybody may choose one."""


def nearest_names(given: str, known: Iterable[str], most: int = 3) -> str:
    """A clause with at most `most` of the known names, the most similar first, to end a sentence with: "the nearest names are
    a, b", or that there are none. All are candidates, however different."""
    names = difflib.get_close_matches(given[:LONGEST], sorted({name[:LONGEST] for name in known}), n=most, cutoff=0.0)
    if not names:
        return "there are none yet"
    return f"the nearest names are {', '.join(names)}" if len(names) > 1 else f"the only name is {names[0]}"


def nearest_applications(given: str, ids: Collection[str], names: Collection[str]) -> str:
    """The same of applications: of their ids if `given` begins as one of them, else of their names."""
    return nearest_names(given, ids if any(one[:5] == given[:5] for one in ids) else names)
