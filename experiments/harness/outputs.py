"""A comparison of the outputs of two runs of a program: words must be the same, numbers nearly so.

Sums over partitions are added up in the order in which tasks end, so the last digits of a floating-point number differ from
run to run. Columns are as wide as their longest number, so spaces and rules count once however long they are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

RELATIVE, ABSOLUTE = 1e-6, 1e-9
"""Allowed differences of two numbers: iterations on sums in another order differ by more than one sum does."""
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_WIDTH = re.compile(r"[ \t]+|-{2,}")


def difference(one: str, other: str, *, ignored: Sequence[str] = (), any_order: bool = False) -> str | None:
    """Return the first difference, as a sentence; None where both outputs agree. `ignored`: patterns of lines that do not
    count; `any_order`: lines may come in another order."""
    ours, theirs = (_lines(text, ignored, any_order) for text in (one, other))
    if len(ours) != len(theirs):
        return f"{len(ours)} lines, then {len(theirs)}"
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True), 1):
        if not _same(a, b):
            return f"line {number}: {a[:60]!r}, then {b[:60]!r}"
    return None


def _lines(text: str, ignored: Sequence[str], any_order: bool) -> list[str]:
    kept = [line.strip() for line in text.splitlines() if not any(re.search(pattern, line) for pattern in ignored)]
    narrow = [_WIDTH.sub(lambda found: found[0][0], line) for line in kept if line]
    return sorted(narrow) if any_order else narrow


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    numbers, others = _NUMBER.findall(one), _NUMBER.findall(other)
    return (
        _NUMBER.split(one) == _NUMBER.split(other)
        and len(numbers) == len(others)
        and all(
            math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE) for a, b in zip(numbers, others, strict=True)
        )
    )
