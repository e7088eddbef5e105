"""Which stage of one run is which of another run of the same application: pure.

Stages of another *kind* (`signature.kind`) are not the same. Of one kind there are many: a loop has one in each turn, and
threads submit alike jobs in any order. Parents of the same job tell first. Then the order counts, but not among stages that
ran side by side in the expected run: those are told apart by their tasks, then by what a task reads and writes, then by the
ordinal of their SQL execution. Where jobs ran side by side PySpark mixes up the call sites of its RDDs, so there it is enough
that *structures* (`signature.Signatures`) are equal. Each stage takes the likeliest that those submitted before it have left.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from stage_model.history.amounts import Amounts

SIDE_BY_SIDE = 16
"""Stages looked at for one, so that the cost stays linear."""
SIZES_ALIKE = math.log(1.25)
"""What a task reads or writes tells two stages apart only where it differs by more: a factor's logarithm."""


class Traits(Struct, frozen=True, kw_only=True):
    """What is known of a stage, in order of submission. `parents` are the places of those in its own job. `amounts` are what
    `counted` of its tasks read and wrote. No `structure`: its call site is its own."""

    kind: str
    structure: str
    tasks: int
    parents: tuple[int, ...]
    sql: int | None
    amounts: Amounts
    counted: int

    @property
    def names(self) -> tuple[str, ...]:
        """What it may be known by, the surest first."""
        return (self.kind, self.structure) if self.structure else (self.kind,)


class ProfiledTraits(Traits, frozen=True, kw_only=True):
    """Those of a stage of a whole run. Seconds are of any one clock."""

    job: int
    start_s: float
    end_s: float


class Expected:
    """The stages of a run in which those of another run are looked for, in order of submission. It is made once, and searched
    at every event."""

    def __init__(self, stages: Sequence[ProfiledTraits]) -> None:
        self.stages = stages
        self.alike: defaultdict[str, list[int]] = defaultdict(list)
        """Places by name,"""
        self.of_sql: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
        self.of_parent: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        mixed = _mixed(stages)
        for place, stage in enumerate(stages):
            self.of_sql[stage.kind, stage.sql].append(place)
            for name in stage.names if place in mixed else (stage.kind,):
                self.alike[name].append(place)
                for parent in stage.parents:
                    self.of_parent[name, parent].append(place)
        self.side_by_side: Mapping[str, list[int]] = {
            name: [self._end(places, first) for first in range(len(places))] for name, places in self.alike.items()
        }
        """and of each of these places where in the list those that ran side by side with it end."""

    def _end(self, places: Sequence[int], first: int) -> int:
        end_s = self.stages[places[first]].end_s
        for at in range(first + 1, min(first + SIDE_BY_SIDE, len(places))):
            if self.stages[places[at]].start_s >= end_s:
                return at
            end_s = max(end_s, self.stages[places[at]].end_s)
        return min(first + SIDE_BY_SIDE, len(places))


def same_stages(expected: Expected, seen: Sequence[Traits]) -> list[int | None]:
    """For each stage seen the place of the expected one that it is; None where there is none left that it may be."""
    left = _Left(expected)
    found: list[int | None] = []
    for stage in seen:
        parents = [place for parent in stage.parents if (place := found[parent]) is not None]
        likely = set(islice(left.children(stage, parents), SIDE_BY_SIDE)) if parents else set[int]()
        likely = likely or set(left.next(stage))
        if len(likely) > 1:
            best: int | None = min(likely, key=lambda place: _distance(expected.stages[place], stage, place))
        else:
            best = next(iter(likely), None)
        found.append(best)
        if best is not None:
            left.taken.add(best)
    return found


class _Left:
    """The expected stages that are not `taken` yet."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self.taken: set[int] = set()
        self._first: dict[str, int] = {}

    def children(self, stage: Traits, parents: Iterable[int]) -> Iterator[int]:
        for parent in parents:
            for name in stage.names:
                for place in self._expected.of_parent.get((name, parent), ())[:SIDE_BY_SIDE]:
                    if place not in self.taken:
                        yield place

    def next(self, stage: Traits) -> Iterator[int]:
        """The first of its kind, those side by side with it, and the first of the same SQL execution; and the first of its
        structure of jobs that ran side by side, with those side by side with it."""
        for name in stage.names:
            alike = self._expected.alike.get(name)
            if not alike:
                continue
            first = self._first.get(name, 0)
            while first < len(alike) and alike[first] in self.taken:
                first += 1
            self._first[name] = first
            if first < len(alike):
                end = self._expected.side_by_side[name][first]
                yield from (place for place in alike[first:end] if place not in self.taken)
        if stage.sql is not None:
            for place in self._expected.of_sql.get((stage.kind, stage.sql), ())[:SIDE_BY_SIDE]:
                if place not in self.taken:
                    yield place
                    break


def _mixed(stages: Sequence[ProfiledTraits]) -> set[int]:
    """Places of the stages of jobs beside which another job ran."""
    spans: dict[int, tuple[float, float]] = {}
    for stage in stages:
        start_s, end_s = spans.get(stage.job, (stage.start_s, stage.end_s))
        spans[stage.job] = (min(start_s, stage.start_s), max(end_s, stage.end_s))
    beside: set[int] = set()
    latest: int | None = None  # of the jobs that began before, the one that ended last
    for job in sorted(spans, key=spans.__getitem__):
        if latest is not None and spans[job][0] < spans[latest][1]:
            beside |= {job, latest}
        if latest is None or spans[job][1] > spans[latest][1]:
            latest = job
    return {place for place, stage in enumerate(stages) if stage.job in beside}


def _distance(expected: Traits, stage: Traits, place: int) -> tuple[float, float, bool, bool, int]:
    """The smaller, the more alike; the order decides last."""
    tasks = abs(math.log(max(1, stage.tasks) / max(1, expected.tasks)))
    size = _apart(expected, stage)
    return (tasks, size if size > SIZES_ALIKE else 0.0, expected.kind != stage.kind, expected.sql != stage.sql, place)


def _apart(expected: Traits, stage: Traits) -> float:
    """How far what a task reads differs, else what it writes; 0 where neither is known of both."""
    for read in (Amounts.read, Amounts.written):
        for in_bytes in (True, False):
            then, now = read(expected.amounts, in_bytes), read(stage.amounts, in_bytes)
            if then > 0 and now > 0:
                return abs(math.log(now / stage.counted / (then / expected.counted)))
    return 0.0
