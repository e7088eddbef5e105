"""The matching of stages of one run with those of another run of the same application: pure.

Jobs are compared first. A job is known by its *result* stage: the stage that the job is for, which is never skipped. Many
jobs may be alike: a loop has a job in each turn, and threads submit alike jobs in any order. Then the order counts, but not
among jobs that ran side by side in the expected run or that threads started. Such jobs differ by their first stage: by its
tasks, then by the amounts that a task reads and writes; then by kinds, then by the ordinal of their SQL execution. Each job
takes the likeliest expected job that is left.

A stage is looked for in the expected job of its own job, and only then elsewhere: whichever thread comes first computes what
the others read from a cache. The jobs of an SQL execution are looked for only in its expected execution, if it has one
(`same_execution`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from stage_model.forecast.expected import SIDE_BY_SIDE, Expected, Jobs, Traits
from stage_model.forecast.same_execution import same_executions
from stage_model.history.signature import RESULT, Names

SIZES_ALIKE = math.log(1.25)
"""Logarithm of a factor: amounts that two stages' tasks read or write count as equal where they differ by less."""
ALIKE_WINDOW = 8
"""Number of stages ahead in the order among which an unknown stage is looked for by its call site: about one SQL query."""


class Same(NamedTuple):
    """The expected stages and jobs that those seen are. `places`: for each stage seen the place of its expected stage, None
    where no expected stage is left for it. `alike`: places that were found by call site and number of tasks only. `jobs`: for
    each job seen the number of its expected job."""

    places: list[int | None]
    alike: set[int]
    jobs: dict[int, int]


def same_stages(expected: Expected, seen: Sequence[Traits]) -> Same:
    """Find the expected stages of those `seen`: the stages of a run so far, in order of submission. The time is linear in
    their number."""
    left = _Left(expected, same_executions(expected, seen))
    places: list[int | None] = []
    for number, stage in enumerate(seen):
        parents = [place for parent in stage.parents if (place := places[parent]) is not None]
        place = left.take(stage, parents)
        if place is None:
            place = left.take_alike(stage, number)
        elif (instead := left.alike.pop(place, None)) is not None:
            places[instead] = None
        places.append(place)
    return Same(places, set(left.alike), left.jobs())


class _Left:
    """The expected stages and jobs that are not taken yet."""

    def __init__(self, expected: Expected, executions: Mapping[int, int]) -> None:
        self._expected = expected
        self._executions = executions
        self._owners: dict[int | None, int] = {}
        """The SQL execution seen that was the first to have a job of an expected one."""
        self._taken: set[int] = set()
        self._found: dict[int, int] = {}
        """Expected jobs by jobs seen, found by the result stage."""
        self._guessed: dict[int, int] = {}
        """Expected jobs by jobs seen, found only by another stage."""
        self._found_jobs: set[int] = set()
        self._gone_jobs: set[int] = set()
        """Expected jobs that were found or guessed."""
        self.alike: dict[int, int] = {}
        """Stages seen that are only alike, by the place that they have. A stage that is the same takes such a place."""
        self._latest = -1
        self._first: dict[tuple[int, int], int] = {}
        self._sized: Traits | None = None
        self._sizes: tuple[float, ...] = ()

    def jobs(self) -> dict[int, int]:
        """Return the expected jobs by jobs seen, each expected job once: a job found by its result stage counts more than a
        guess."""
        return {**{job: one for job, one in self._guessed.items() if one not in self._found_jobs}, **self._found}

    def take(self, stage: Traits, parents: Sequence[int]) -> int | None:
        """Take the place of a stage whose parents have these places, and return it; None if no place is left for it."""
        job = self._job(stage)
        likely = [] if job is None else self._children(stage, parents, job) or self._inside(stage, job)
        if likely:
            best: int | None = min(likely, key=lambda place: self._apart(place, stage)) if len(likely) > 1 else likely[0]
        else:
            best = self._elsewhere(stage)
        if best is not None:
            self._taken.add(best)
            self._latest = max(self._latest, best)
        return best

    def take_alike(self, stage: Traits, number: int) -> int | None:
        """Return the place of an expected stage with the same call site and number of tasks, in its job or among the next
        stages.

        AQE broadcasts the side of a join that ended first; the stages after the join then have other parents, and so another
        kind, but do the same.
        """
        expected, job = self._expected, self._job(stage)
        inside: list[int] = [] if job is None else expected.jobs[job].places[:SIDE_BY_SIDE]
        execution = self._execution(stage)
        if execution is None:
            following = [*range(self._latest + 1, min(self._latest + 1 + ALIKE_WINDOW, len(expected.stages)))]
        else:
            following = [place for one in self._open_jobs(execution) for place in expected.jobs[one].places[:SIDE_BY_SIDE]]
        place: int
        site = _plain(stage.names)
        for place in (*inside, *following):
            one, free = expected.stages[place], place not in self._taken and place not in self.alike
            if free and one.tasks == stage.tasks and _plain(one.names) == site:
                self.alike[place] = number
                self._latest = max(self._latest, place)
                if job is None:
                    self._guess(stage, expected.job_of[place])
                return place
        return None

    def _job(self, stage: Traits) -> int | None:
        """Return the expected job of the stage's job, found by the first stage of the job that is seen."""
        if stage.job is None:
            return None
        job = self._found.get(stage.job, self._guessed.get(stage.job))
        if job is not None:
            return job
        for gone in (self._gone_jobs, self._found_jobs):
            job = self._likeliest(stage, self._by_result(stage, gone))
            if job is not None:
                self._found[stage.job] = job
                self._found_jobs.add(job)
                self._take_job(stage, job)
                return job
        job = self._likeliest(stage, self._by_stage(stage))
        if job is not None:
            self._guess(stage, job)
        return job

    def _execution(self, stage: Traits) -> int | None:
        """Return the expected SQL execution of the stage's own, if it has one and no other execution took the first job of
        that."""
        execution = None if stage.sql is None else self._executions.get(stage.sql)
        return execution if self._owners.get(execution, stage.sql) == stage.sql else None

    def _open_jobs(self, execution: int) -> list[int]:
        """Return the next jobs of an expected execution that are left."""
        jobs = self._expected.executions[execution]
        first = self._next(jobs, self._gone_jobs)
        return [job for job in jobs[first : first + SIDE_BY_SIDE] if job not in self._gone_jobs]

    def _guess(self, stage: Traits, job: int) -> None:
        if stage.job is not None and job not in self._gone_jobs:
            self._guessed[stage.job] = job
            self._take_job(stage, job)

    def _take_job(self, stage: Traits, job: int) -> None:
        self._gone_jobs.add(job)
        if stage.sql is not None:
            self._owners.setdefault(self._expected.jobs[job].sql, stage.sql)

    def _likeliest(self, stage: Traits, jobs: Sequence[int]) -> int | None:
        return min(jobs, key=lambda one: self._jobs_apart(one, stage)) if len(jobs) > 1 else next(iter(jobs), None)

    def _by_result(self, stage: Traits, gone: set[int]) -> list[int]:
        """Return the jobs with the result stage of this stage's job: those of its execution, if that is known. Else they are,
        for each name, the next jobs, and the first job of an execution with the same ordinal."""
        expected, names, execution = self._expected, stage.result or (), self._execution(stage)
        sql = stage.sql if execution is None else execution
        found = self._next_jobs(expected.by_result, names, gone) if execution is None else []
        for name in names:
            jobs = None if sql is None else expected.of_sql.get((name, sql))
            if jobs and (first := self._next(jobs, gone)) < len(jobs):
                end = first + 1 if execution is None else expected.by_result.end(jobs, first)
                found += [job for job in jobs[first:end] if job not in gone]
        return found

    def _by_stage(self, stage: Traits) -> list[int]:
        """Return the jobs with a stage of the same name: those of its execution, if that is known, else the next ones."""
        execution, expected = self._execution(stage), self._expected
        if execution is None:
            return self._next_jobs(expected.by_stage, stage.names, self._gone_jobs)
        return [job for job in self._open_jobs(execution) if any((name, job) in expected.in_job for name in stage.names)]

    def _next_jobs(self, jobs: Jobs, names: Iterable[str], gone: set[int]) -> list[int]:
        """Return, for each name, the first job that is left and the jobs that may come before it."""
        found: list[int] = []
        for name in names:
            named = jobs.named.get(name)
            if not named:
                continue
            first = self._next(named, gone)
            if first < len(named):
                found += [job for job in named[first : jobs.ends[name][first]] if job not in gone]
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
        """Return the place of a stage whose job is not known or does not have it. A place in a job that has not been found
        yet comes first."""
        execution, expected = self._execution(stage), self._expected
        for name in stage.names:
            places = expected.places.get(name) if execution is None else expected.in_sql.get((name, execution))
            some = self._some(places) if places else []
            if some:
                return next((place for place in some if expected.job_of[place] not in self._found_jobs), some[0])
        return None

    def _some(self, places: list[int]) -> list[int]:
        first = self._next(places, self._taken)
        return [place for place in places[first : first + SIDE_BY_SIDE] if place not in self._taken]

    def _next(self, numbers: list[int], gone: set[int]) -> int:
        """Return the index of the first number in a list that is not gone. Gone numbers stay gone."""
        key = (id(numbers), id(gone))
        first = self._first.get(key, 0)
        while first < len(numbers) and numbers[first] in gone:
            first += 1
        self._first[key] = first
        return first

    def _jobs_apart(self, job: int, stage: Traits) -> tuple[bool, float, float, int, int, bool, int, bool, int]:
        """Return a distance: the smaller, the likelier the stage is the first of this job; the order decides last. Kinds
        count after the stretch, and after the number of the job's stages before this one, because threads may have kinds by
        chance."""
        expected = self._expected
        one = expected.jobs[job]
        alike = [place for name in stage.names for place in expected.in_job.get((name, job), ())[:SIDE_BY_SIDE]]
        inside = [place for place in alike if (place == one.places[-1]) == (stage.names == stage.result)]
        nearest = [self._apart(place, stage) for place in inside or alike]
        tasks, size, kind, place = min(nearest, default=(0.0, 0.0, True, one.places[0]))
        before = expected.position[place]
        other = _others(one.result, stage.result)
        return (not inside, tasks, size, one.stretch, before, kind, other, one.sql != stage.sql, job)

    def _apart(self, place: int, stage: Traits) -> tuple[float, float, bool, int]:
        """Return a distance: the smaller, the more alike the stages are; the order decides last."""
        one = self._expected.stages[place]
        tasks = 0.0 if one.tasks == stage.tasks else abs(math.log(max(1, stage.tasks) / max(1, one.tasks)))
        if stage is not self._sized:
            self._sized, self._sizes = stage, stage.per_task()
        size = _sizes_apart(self._expected.per_task[place], self._sizes)
        return (tasks, size if size > SIZES_ALIKE else 0.0, one.names.kind != stage.names.kind, place)


def _others(one: Names | None, other: Names | None) -> int:
    """Return the number of names, of the kind and the call site, that two result stages do not share; equal kinds count as
    both."""
    if one is None or other is None:
        return 2
    return 0 if one.kind == other.kind else 1 if one.site == other.site else 2


def _plain(names: Names) -> str:
    """Return the call site without the mark of a result stage."""
    return names.site.removesuffix(RESULT)


def _sizes_apart(then: Sequence[float], now: Sequence[float]) -> float:
    """Return how far the amounts that a task reads differ, else those that it writes; 0 where neither is known of both."""
    for one, other in zip(then, now, strict=True):
        if one > 0 and other > 0:
            return abs(math.log(other / one))
    return 0.0
