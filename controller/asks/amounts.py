"""An amount of memory or disk as an operator gives it: a size, a part of the whole, or none. Pure."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from stage_model.errors import BadInput
from stage_model.units import parse_memory_mb

NONE = "none"
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount, with its `text` as given. At most one of `size` (bytes) and `share` is there; neither: none."""

    text: str = NONE
    size: int | None = None
    share: float | None = None

    def of(self, whole: float) -> float | None:
        """Return the amount in bytes, where the whole has `whole` bytes; None for the amount "none"."""
        return self.size if self.share is None else self.share * whole


def parse_size_or_part(text: str, *, option: str) -> Amount:
    """Read an amount like "20g", "90%" or "none". Raise `BadInput`."""
    word = text.strip().lower()
    if word == NONE:
        return Amount()
    if found := re.fullmatch(r"([0-9]{1,2})%", word):
        if int(found[1]):
            return Amount(word, share=int(found[1]) / 100)
    elif "%" not in word:
        with suppress(BadInput):  # its text names only sizes
            return Amount(word, size=parse_memory_mb(word) * MIB)
    raise BadInput(f"{option} {text[:80]!r} is not a limit; accepted: a size as 20g, 1% to 99%, or none")
