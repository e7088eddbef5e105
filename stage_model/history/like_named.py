"""The profile that may be meant by a job whose name no profile has. Pure.

A name that holds a date, a time or an id is another name in each run, so such a job never finds what its earlier runs taught;
and a log does not always hold the main file.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from itertools import takewhile

_DIGEST = re.compile(r"-[0-9a-f]{8}$")
"""The end of a key in which characters had to be replaced (`profile_key`)."""
_CHANGING = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?=[a-f]*\d)[0-9a-f]{8,}|\d+", re.IGNORECASE)
"""UUIDs, other ids in hexadecimal, and numbers."""


def like_named(key: str, known: Iterable[str]) -> str:
    """Return a clause that ends a sentence with the profile that may belong to the job, out of the `known` keys.

    Candidates have the same main file, or the same name except for numbers and ids. The candidate with the longest common
    beginning wins, and among equals the last in order. Empty without a candidate, or if the key is known."""
    keys = set(known)
    alike = [other for other in keys if _may_be(key, other)]
    if key in keys or not alike:
        return ""
    nearest = max(alike, key=lambda other: (_begin_in_common(key, other), other))
    return f"; if it is the job of profile {nearest!r} under another name, give --profile {shlex.quote(nearest)}"


def main_in(key: str) -> str:
    """Return the main file or class that a key holds, its unfit characters replaced; empty where it holds neither."""
    _, at, main = _DIGEST.sub("", key).rpartition("@")
    return main if at else ""


def _may_be(key: str, other: str) -> bool:
    return any(part(key) == part(other) != "" for part in (main_in, _name_in))


def _name_in(key: str) -> str:
    """Return the name without the parts that change from run to run."""
    name, at, rest = _DIGEST.sub("", key).rpartition("@")
    return _CHANGING.sub("", name if at else rest)


def _begin_in_common(left: str, right: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
