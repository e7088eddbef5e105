"""For refusals of a name that nobody knows: the known ones that are most like it. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(given: str, known: Iterable[str], most: int = 3) -> list[str]:
    """At most `most` of the known names, the most similar first; all are candidates, however different."""
    return difflib.get_close_matches(given, sorted(set(known)), n=most, cutoff=0.0)


def nearest_names(given: str, known: Iterable[str]) -> str:
    """A clause with the nearest names, to end a sentence with: "the nearest names are a, b", or that there are none."""
    names = nearest(given, known)
    if not names:
        return "there are none yet"
    return f"the nearest names are {', '.join(names)}" if len(names) > 1 else f"the only name is {names[0]}"
