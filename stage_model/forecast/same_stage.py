"""Which stage of one run is which of another run of the same application: pure.

Jobs are told apart first. A job is known by its *result* stage: the stage that it is for, which is never skipped. There are
many alike: a loop has a job in each turn, and threads submit them in any order. Then the order counts, but not among jobs
that ran side by side in the expected run or that threads started. Those are told apart by their first stage: by its tasks,
then by what a task reads and writes; then by kinds, then by the ordinal of their SQL execution. Each job takes the likeliest
that is left.

A stage is looked for in the job that its own one was found to be, and only then elsewhere: whichever thread comes first works
out what others find in a cache.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from stage_model.forecast.expected import SIDE_BY_SIDE, Expected, Jobs, Traits
from stage_model.history.amounts import Amounts
from stage_model.history.signature import Names

SIZES_ALIKE = math.log(1.25)
"""What a task reads or writes tells two stages apart only where it differs by more: a factor's logarithm."""


class Same(NamedTuple):
    """`places`: for each stage seen the place of the expected one that it is, None where there is none left that it may be.
    `jobs`: for each job seen the number of the expected one."""

    places: list[int | None]
    jobs: dict[int, int]


def same_stages(expected: Expected, seen: Sequence[Traits]) -> Same:
    """`seen` are the stages of a run in order of submission, so far. Linear in their number."""
    left = _Left(expected)
    places: list[int | None] = []
    for stage in seen:
        parents = [place for parent in stage.parents if (place := places[parent]) is not None]
        places.append(left.take(stage, parents))
    return Same(places, left.jobs())


class _Left:
    """The expected stages and jobs that are not taken yet."""

    def __init__(self, expected: Expected) -> None:
        self._expected = expected
        self._taken: set[int] = set()
        self._found: dict[int, int] = {}
        """Expected jobs by those seen, for which the result stage speaks;"""
        self._guessed: dict[int, int] = {}
        """for which only another stage does."""
        self._found_jobs: set[int] = set()
        self._gone_jobs: set[int] = set()
        """Found or guessed."""
        self._first: dict[int, int] = {}

    def jobs(self) -> dict[int, int]:
        """Each expected job once: what a result stage says counts for more than a guess."""
        return {**{job: one for job, one in self._guessed.items() if one not in self._found_jobs}, **self._found}

    def take(self, stage: Traits, parents: Sequence[int]) -> int | None:
        """The place of a stage whose parents have these places; it is taken then."""
        job = self._job(stage)
        likely = [] if job is None else self._children(stage, parents, job) or self._inside(stage, job)
        if likely:
            best: int | None = min(likely, key=lambda place: self._apart(place, stage)) if len(likely) > 1 else likely[0]
        else:
            best = self._elsewhere(stage)
        if best is not None:
            self._taken.add(best)
        return best

    def _job(self, stage: Traits) -> int | None:
        """The expected job that the stage's job is, found by the first of its stages that is seen."""
        if stage.job is None:
            return None
        job = self._found.get(stage.job, self._guessed.get(stage.job))
        if job is not None:
            return job
        by_result, by_stage = self._expected.by_result, self._expected.by_stage
        likely = self._likely_jobs(by_result, stage.result, stage.sql, self._found_jobs) if stage.result else []
        found = bool(likely)
        likely = likely or self._likely_jobs(by_stage, stage.names, None, self._gone_jobs)
        if not likely:
            return None
        job = min(likely, key=lambda one: self._jobs_apart(one, stage)) if len(likely) > 1 else likely[0]
        self._gone_jobs.add(job)
        if found:
            self._found[stage.job] = job
            self._found_jobs.add(job)
        else:
            self._guessed[stage.job] = job
        return job

    def _likely_jobs(self, jobs: Jobs, names: Names, sql: int | None, gone: set[int]) -> list[int]:
        """The first job of that name, those that may come before it, and the first of the same SQL execution. The call site
        counts where there is none of another name."""
        found: list[int] = []
        for name in names:
            if found and name is names.site:
                break
            named = jobs.named.get(name)
            if not named:
                continue
            first = self._next(named, gone)
            if first < len(named):
                found += [job for job in named[first : jobs.ends[name][first]] if job not in gone]
            if sql is not None:
                found += islice((job for job in self._expected.of_sql.get((name, sql), ()) if job not in gone), 1)
        return found

    def _children(self, stage: Traits, parents: Sequence[int], job: int) -> list[int]:
        expected = self._expected
        likely = (
            place
            for parent in parents
            for name in stage.names
            for place in expected.of_parent.get((name, parent), ())[:SIDE_BY_SIDE]
            if place not in self._taken and expected.job_of[place] == job
        )
        return [*islice(likely, SIDE_BY_SIDE)]

    def _inside(self, stage: Traits, job: int) -> list[int]:
        found: list[int] = []
        for name in stage.names:
            places = self._expected.in_job.get((name, job))
            if places:
                found += self._some(places)
        return found

    def _elsewhere(self, stage: Traits) -> int | None:
        """Of a job that is not known, or that does not have the stage; rather one of a job that has not come yet."""
        for name in stage.names:
            places = self._expected.places.get(name)
            some = self._some(places) if places else []
            if some:
                return next((place for place in some if self._expected.job_of[place] not in self._found_jobs), some[0])
        return None

    def _some(self, places: list[int]) -> list[int]:
        first = self._next(places, self._taken)
        return [place for place in places[first : first + SIDE_BY_SIDE] if place not in self._taken]

    def _next(self, numbers: list[int], gone: set[int]) -> int:
        """Where in a list the first one is that is not gone. What is gone stays so."""
        first = self._first.get(id(numbers), 0)
        while first < len(numbers) and numbers[first] in gone:
            first += 1
        self._first[id(numbers)] = first
        return first

    def _jobs_apart(self, job: int, stage: Traits) -> tuple[bool, tuple[float, float, bool], bool, int, bool, int]:
        """The smaller, the likelier that the stage is the first of this job; the order decides last."""
        expected = self._expected
        one = expected.jobs[job]
        inside = self._inside(stage, job)
        nearest = min((self._apart(place, stage)[:3] for place in inside), default=(0.0, 0.0, True))
        before = expected.position[inside[0]] if inside else 0
        other = one.result is None or stage.result is None or one.result.kind != stage.result.kind
        return (not inside, nearest, other, before, one.sql != stage.sql, job)

    def _apart(self, place: int, stage: Traits) -> tuple[float, float, bool, int]:
        """The smaller, the more alike; the order decides last."""
        one = self._expected.stages[place]
        tasks = abs(math.log(max(1, stage.tasks) / max(1, one.tasks)))
        size = _sizes_apart(one, stage)
        return (tasks, size if size > SIZES_ALIKE else 0.0, one.names.kind != stage.names.kind, place)


def _sizes_apart(one: Traits, stage: Traits) -> float:
    """How far what a task reads differs, else what it writes; 0 where neither is known of both."""
    for read in (Amounts.read, Amounts.written):
        for in_bytes in (True, False):
            then, now = read(one.amounts, in_bytes), read(stage.amounts, in_bytes)
            if then > 0 and now > 0:
                return abs(math.log(now / stage.counted / (then / one.counted)))
    return 0.0
