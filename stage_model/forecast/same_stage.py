"""Which stage of one run is which of another run of the same application: pure.

Stages of another *kind* (`signature.kind`) are not the same. Of one kind there are many: a loop has one in each turn, and
threads submit alike jobs in any order. Parents of the same job tell first. Then the order counts, but not among stages that
lay side by side in the expected run: those are told apart by their tasks, then by what a task reads and writes, then by the
ordinal of their SQL execution. Where jobs lay side by side PySpark mixes up the call sites of its RDDs, so there it is enough
that *structures* (`signature.Signatures`) are equal. Each stage takes the likeliest that those submitted before it have left.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from stage_model.history.amounts import Amounts

SIDE_BY_SIDE = 16
"""Stages looked at for one, so that the cost stays linear."""
SIZES_ALIKE = math.log(1.25)
"""What a task reads or writes tells two stages apart only where it differs by more: a factor's logarithm."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a stage, in order of submission. `parents` are the places of those in its own job. `amounts` are what
    `counted` of its tasks read and wrote. Seconds are of any one clock; those of the stages seen are not looked at. No
    `structure`: its call site is its own."""

    kind: str
    structure: str
    job: int | None
    tasks: int
    parents: tuple[int, ...]
    sql: int | None
    amounts: Amounts
    counted: int
    start_s: float
    end_s: float


def same_stages(expected: Sequence[Traits], seen: Sequence[Traits]) -> list[int | None]:
    """For each stage seen the place of the expected one that it is; None where there is none left that it may be."""
    left = _Left(expected)
    found: list[int | None] = []
    for stage in seen:
        parents = [place for parent in stage.parents if (place := found[parent]) is not None]
        likely = set(islice(left.children(stage, parents), SIDE_BY_SIDE)) or set(left.next(stage))
        best = min(likely, key=lambda place: left.distance(place, stage), default=None)
        found.append(best)
        if best is not None:
            left.taken.add(best)
    return found


class _Left:
    """The expected stages that are not `taken` yet."""

    def __init__(self, expected: Sequence[Traits]) -> None:
        self._expected = expected
        self.taken: set[int] = set()
        self._mixed = _mixed(expected)
        self._alike: defaultdict[str, list[int]] = defaultdict(list)
        self._of_sql: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
        self._of_parent: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        self._first: dict[str, int] = {}
        for place, stage in enumerate(expected):
            self._of_sql[stage.kind, stage.sql].append(place)
            for name in _names(stage) if place in self._mixed else (stage.kind,):
                self._alike[name].append(place)
                for parent in stage.parents:
                    self._of_parent[name, parent].append(place)

    def children(self, stage: Traits, parents: Iterable[int]) -> Iterator[int]:
        for parent in parents:
            for name in _names(stage):
                for place in self._of_parent.get((name, parent), ())[:SIDE_BY_SIDE]:
                    if place not in self.taken:
                        yield place

    def next(self, stage: Traits) -> Iterator[int]:
        """The first of its kind, those side by side with it, and the first of the same SQL execution; and the first of its
        structure of jobs that lay side by side, with those side by side with it."""
        for name in _names(stage):
            yield from self._side_by_side(name)
        if stage.sql is not None:
            for place in self._of_sql.get((stage.kind, stage.sql), ())[:SIDE_BY_SIDE]:
                if place not in self.taken:
                    yield place
                    break

    def _side_by_side(self, name: str) -> Iterator[int]:
        alike = self._alike.get(name, [])
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

    def distance(self, place: int, stage: Traits) -> tuple[float, float, bool, bool, int]:
        """The smaller, the more alike; the order decides last."""
        expected = self._expected[place]
        tasks = abs(math.log(max(1, stage.tasks) / max(1, expected.tasks)))
        size = _apart(expected, stage)
        return (tasks, size if size > SIZES_ALIKE else 0.0, expected.kind != stage.kind, expected.sql != stage.sql, place)


def _names(stage: Traits) -> tuple[str, ...]:
    return (stage.kind, stage.structure) if stage.structure else (stage.kind,)


def _mixed(expected: Sequence[Traits]) -> set[int]:
    """Places of the stages of jobs beside which another job ran."""
    spans: dict[int | None, tuple[float, float]] = {}
    for stage in expected:
        start_s, end_s = spans.get(stage.job, (stage.start_s, stage.end_s))
        spans[stage.job] = (min(start_s, stage.start_s), max(end_s, stage.end_s))
    beside = set[int | None]()
    longest = min(spans, key=spans.__getitem__, default=None)
    for job in sorted(spans, key=spans.__getitem__)[1:]:
        if spans[job][0] < spans[longest][1]:
            beside |= {job, longest}
        longest = max(longest, job, key=lambda one: spans[one][1])
    return {place for place, stage in enumerate(expected) if stage.job in beside}


def _apart(expected: Traits, stage: Traits) -> float:
    """How far what a task reads differs, else what it writes; 0 where neither is known of both."""
    for read in (Amounts.read, Amounts.written):
        for in_bytes in (True, False):
            then, now = read(expected.amounts, in_bytes), read(stage.amounts, in_bytes)
            if then > 0 and now > 0:
                return abs(math.log(now / stage.counted / (then / expected.counted)))
    return 0.0
