"""Which stage of one run is which of another run of the same application: pure.

Stages of another *kind* (`signature.kind`) are never the same. Of one kind there are many: a loop has one in each turn, and
threads submit alike jobs in any order. Parents of the same job tell first. Then the order counts, but not among stages that
lay side by side in the expected run: those are told apart by their tasks, then by what a task reads, then by the ordinal of
their SQL execution.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stage_model.history.signature import kind

SIDE_BY_SIDE = 64
"""Stages looked at for one, so that the cost stays linear."""
READS_ALIKE = math.log(1.25)
"""What a task reads tells two stages apart only where it differs by more: a factor's logarithm."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a stage, in order of submission. `parents` are the places of those in its own job. A task reads
    `records_per_task` (None: nothing, or it is not known yet). Seconds are of any one clock."""

    signature: str
    tasks: int
    parents: tuple[int, ...]
    sql: int | None
    records_per_task: float | None
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
    reads = 0.0
    if expected.records_per_task and stage.records_per_task:
        reads = abs(math.log(stage.records_per_task / expected.records_per_task))
    tasks = abs(math.log(max(1, stage.tasks) / max(1, expected.tasks)))
    return (tasks, reads if reads > READS_ALIKE else 0.0, expected.sql != stage.sql)
