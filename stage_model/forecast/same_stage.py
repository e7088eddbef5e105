"""Which stage of one run is which of another run of the same application: pure.

Stages of another *kind* (`signature.kind`) are never the same. Of one kind there are many: a loop has one in each turn, and
threads submit alike jobs in any order. Parents of the same job tell first. Then the order counts, but not among stages that
lay side by side in the expected run: those are told apart by their tasks, then by what a task reads and writes, then by the
ordinal of their SQL execution.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stage_model.history.amounts import Amounts
from stage_model.history.signature import kind

SIDE_BY_SIDE = 64
"""Stages looked at for one, so that the cost stays linear."""
SIZES_ALIKE = math.log(1.25)
"""What a task reads or writes tells two stages apart only where it differs by more: a factor's logarithm."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a stage, in order of submission. `parents` are the places of those in its own job. `amounts` are what
    `counted` of its tasks read and wrote. Seconds are of any one clock."""

    signature: str
    tasks: int
    parents: tuple[int, ...]
    sql: int | None
    amounts: Amounts
    counted: int
    start_s: float
    end_s: float


def same_stages(expected: Sequence[Traits], seen: Sequence[Traits]) -> list[int | None]:
    """For each stage seen the place of the expected one that it is; None where there is none of its kind left."""
    left = _Left(expected)
    found: list[int | None] = []
    for stage in seen:
        parents = [place for parent in stage.parents if (place := found[parent]) is not None]
        likely = list(left.children(stage, parents)) or list(left.next(stage))
        best = min(likely, key=lambda place: (*_distance(expected[place], stage), place), default=None)
        found.append(best)
        if best is not None:
            left.taken.add(best)
    return found


class _Left:
    """The expected stages that are not `taken` yet."""

    def __init__(self, expected: Sequence[Traits]) -> None:
        self._expected = expected
        self.taken: set[int] = set()
        self._of_kind: defaultdict[str, list[int]] = defaultdict(list)
        self._of_sql: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
        self._of_parent: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        self._first: dict[str, int] = {}
        for place, stage in enumerate(expected):
            name = kind(stage.signature)
            self._of_kind[name].append(place)
            self._of_sql[name, stage.sql].append(place)
            for parent in stage.parents:
                self._of_parent[name, parent].append(place)

    def children(self, stage: Traits, parents: Iterable[int]) -> Iterator[int]:
        for parent in parents:
            for place in self._of_parent.get((kind(stage.signature), parent), ())[:SIDE_BY_SIDE]:
                if place not in self.taken:
                    yield place

    def next(self, stage: Traits) -> Iterator[int]:
        """The first of its kind, those side by side with it, and the first of the same SQL execution."""
        name = kind(stage.signature)
        alike = self._of_kind.get(name, [])
        first = self._first.get(name, 0)
        while first < len(alike) and alike[first] in self.taken:
            first += 1
        self._first[name] = first
        end_s = -math.inf
        for place in alike[first : first + SIDE_BY_SIDE]:
            if place != alike[first] and self._expected[place].start_s >= end_s:
                break
            end_s = max(end_s, self._expected[place].end_s)
            if place not in self.taken:
                yield place
        if stage.sql is not None:
            for place in self._of_sql.get((name, stage.sql), ())[:SIDE_BY_SIDE]:
                if place not in self.taken:
                    yield place
                    break


def _distance(expected: Traits, stage: Traits) -> tuple[float, float, bool]:
    """Nothing where they are alike."""
    tasks = abs(math.log(max(1, stage.tasks) / max(1, expected.tasks)))
    size = _apart(expected, stage)
    return (tasks, size if size > SIZES_ALIKE else 0.0, expected.sql != stage.sql)


def _apart(expected: Traits, stage: Traits) -> float:
    """How far what a task reads differs, else what it writes; 0 where neither is known of both."""
    for read in (Amounts.read, Amounts.written):
        for in_bytes in (True, False):
            then, now = read(expected.amounts, in_bytes), read(stage.amounts, in_bytes)
            if then > 0 and now > 0:
                return abs(math.log(now / stage.counted / (then / expected.counted)))
    return 0.0
