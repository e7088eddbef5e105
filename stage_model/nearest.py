"""The known names that are most like an unknown one, for refusals. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

LONGEST = 100
"""Characters that are compared: comparing takes time with the product of both lengths, and anyone may choose a name."""


def nearest_names(given: str, known: Iterable[str], most: int = 3) -> str:
    """Return a clause with at most `most` of the known names, the most similar first, to end a sentence with: "the nearest
    names are a, b", or that no name exists. All are candidates, however different."""
    names = difflib.get_close_matches(given[:LONGEST], sorted({name[:LONGEST] for name in known}), n=most, cutoff=0.0)
    if not names:
        return "there are none yet"
    return f"the nearest names are {', '.join(names)}" if len(names) > 1 else f"the only name is {names[0]}"


def nearest_applications(given: str, ids: Collection[str], names: Collection[str]) -> str:
    """Return `nearest_names` of applications: of their ids if `given` begins like one of them, else of their names."""
    return nearest_names(given, ids if any(one[:5] == given[:5] for one in ids) else names)
