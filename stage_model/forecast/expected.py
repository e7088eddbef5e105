"""The stages and jobs of a whole run, among which those of another run are looked for (`same_stage`): pure.

Where jobs ran side by side the kinds of their stages are a matter of chance. PySpark counts nested calls for all threads
together, so it mixes up the call sites of its RDDs; a thread that was begun inside an operation of Spark names all of its
operators after that operation. So there it is enough that one of the other names (`signature.Names`) is equal.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import pairwise

from msgspec import Struct

from stage_model.history.amounts import Amounts
from stage_model.history.signature import Names

SIDE_BY_SIDE = 16
"""The most jobs, or stages of a job, that are compared with one, so that the cost stays linear."""
THREADS_PAUSE = 8
"""Threads are taken to have ended when more jobs in a row than this ran next to no other thread's: a thread may be idle."""


class Traits(Struct, frozen=True, kw_only=True):
    """The known traits of a stage. `parents` are the places, in order of submission, of its parents in its job. `job` is any
    number that tells jobs apart (None: it has no job); `result` are the names of the job's result stage (None: not known).
    `counted` of its tasks read and wrote the `amounts`."""

    names: Names
    tasks: int
    parents: tuple[int, ...]
    job: int | None
    result: Names | None
    sql: int | None
    amounts: Amounts
    counted: int

    def per_task(self) -> tuple[float, ...]:
        """Return the bytes and records that one of its tasks reads, then the bytes and records that it writes to a
        shuffle."""
        amounts = self.amounts
        sizes = (amounts.bytes, amounts.records, amounts.written_bytes, amounts.written_records)
        return tuple([size / self.counted for size in sizes])


class ProfiledTraits(Traits, frozen=True, kw_only=True):
    """The traits of a stage of a whole run. Its times are seconds of any one clock."""

    start_s: float
    end_s: float


@dataclass(slots=True)
class ExpectedJob:
    """A job: the `places` of its stages, from the start of the first to the end of the last one.

    `mixed`: another job ran at the same time. `threads`: a job of another thread of the program did. `ordered`: neither this
    job nor one shortly before or after it has `threads`, so jobs that had ended before it began come before it in any run.
    `stretch`: jobs that are ordered and jobs that are not take turns; the number counts these turns.
    """

    result: Names | None
    sql: int | None
    places: list[int] = field(default_factory=list)
    start_s: float = math.inf
    end_s: float = -math.inf
    mixed: bool = False
    threads: bool = False
    ordered: bool = True
    stretch: int = 0


class Jobs:
    """Numbers of jobs by a name, in order of their start. For each job `ends` has the end of the jobs that may come before it
    in another run, because they ran side by side with it or threads start them."""

    def __init__(self, jobs: Sequence[ExpectedJob]) -> None:
        self._jobs = jobs
        self.named: defaultdict[str, list[int]] = defaultdict(list)
        self.ends: dict[str, list[int]] = {}

    def add(self, name: str, number: int) -> None:
        numbers = self.named[name]
        if not numbers or numbers[-1] != number:
            numbers.append(number)

    def close(self) -> None:
        self.ends = {name: [self.end(jobs, first) for first in range(len(jobs))] for name, jobs in self.named.items()}

    def end(self, numbers: Sequence[int], first: int) -> int:
        """Return the index behind the last of the jobs `numbers` that may come before the one at index `first`."""
        end_s = self._jobs[numbers[first]].end_s
        for at in range(first + 1, min(first + SIDE_BY_SIDE, len(numbers))):
            job = self._jobs[numbers[at]]
            if job.start_s >= end_s and job.ordered:
                return at
            end_s = max(end_s, job.end_s)
        return min(first + SIDE_BY_SIDE, len(numbers))


class Expected:
    """A whole run with its stages in order of submission. It is made once, and searched at every event."""

    def __init__(self, stages: Sequence[ProfiledTraits]) -> None:
        self.stages = stages
        self.per_task = [stage.per_task() for stage in stages]
        self.jobs, self.job_of = _jobs(stages)
        _mark(self.jobs)
        self._sites = {stages[place].names.site for job in self.jobs if not job.ordered for place in job.places} - {""}
        """Call sites of jobs that threads start. The program may make the same call outside of threads."""
        self.by_result, self.by_stage = Jobs(self.jobs), Jobs(self.jobs)
        self.of_sql: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
        """Jobs by a name of their result stage and by SQL execution."""
        self.executions = _executions(self.jobs)
        """Jobs of each SQL execution; none of an execution among threads."""
        self.kinds = {sql: self._kinds(jobs) for sql, jobs in sorted(self.executions.items()) if jobs}
        """The kinds of the jobs of each SQL execution that has any here, in order."""
        self.places: defaultdict[str, list[int]] = defaultdict(list)
        self.in_job: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        self.in_sql: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
        self.of_parent: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
        for place, number in enumerate(self.job_of):
            stage = stages[place]
            for name in self._usable(stage.names, self.jobs[number]):
                self.places[name].append(place)
                self.by_stage.add(name, number)
                self.in_job[name, number].append(place)
                self.in_sql[name, self.jobs[number].sql].append(place)
                for parent in stage.parents:
                    self.of_parent[name, parent].append(place)
        self.position = [0] * len(stages)
        """The position of each stage in its job."""
        for number, job in enumerate(self.jobs):
            for position, place in enumerate(job.places):
                self.position[place] = position
            for name in self._usable(job.result, job) if job.result else ():
                self.by_result.add(name, number)
                self.of_sql[name, job.sql].append(number)
        self.by_result.close()
        self.by_stage.close()

    def _kinds(self, jobs: Sequence[int]) -> Counter[str]:
        return Counter(result.kind for number in jobs if (result := self.jobs[number].result) is not None)

    def _usable(self, names: Names, job: ExpectedJob) -> Iterator[str]:
        yield names.kind
        if job.mixed and names.structure:
            yield names.structure
        if names.site in self._sites:
            yield names.site


def _jobs(stages: Sequence[ProfiledTraits]) -> tuple[list[ExpectedJob], list[int]]:
    """Return the jobs in order of their start, and for each stage the number of its job."""
    jobs: list[ExpectedJob] = []
    numbers: dict[int | None, int] = {}
    found: list[int] = []
    for place, stage in enumerate(stages):
        number = numbers.setdefault(stage.job, len(jobs))
        if number == len(jobs):
            jobs.append(ExpectedJob(stage.result, stage.sql))
        job = jobs[number]
        job.places.append(place)
        job.start_s, job.end_s = min(job.start_s, stage.start_s), max(job.end_s, stage.end_s)
        found.append(number)
    return jobs, found


def _executions(jobs: Sequence[ExpectedJob]) -> dict[int, list[int]]:
    """Return the jobs of each SQL execution. An execution with jobs that are not ordered has none, because these may be
    another thread's, which inherited its number."""
    found: dict[int, list[int]] = {}
    for number, job in enumerate(jobs):
        if job.sql is not None:
            found.setdefault(job.sql, []).append(number)
    return {sql: numbers if all(jobs[number].ordered for number in numbers) else [] for sql, numbers in found.items()}


def _mark(jobs: Sequence[ExpectedJob]) -> None:
    """Mark the jobs that ran next to other jobs. Spark's own threads run the parts of one query; these are no threads of the
    program."""
    open_jobs: list[ExpectedJob] = []
    for job in jobs:
        still = [other for other in open_jobs if other.end_s > job.start_s]
        open_jobs = nlargest(SIDE_BY_SIDE, still, key=lambda other: other.end_s)
        for other in open_jobs:
            job.mixed = other.mixed = True
            if job.sql is None or other.sql != job.sql:
                job.threads = other.threads = True
        open_jobs.append(job)
    for one_way in (jobs, jobs[::-1]):
        apart = math.inf
        for job in one_way:
            apart = 0 if job.threads else apart + 1
            job.ordered &= apart > THREADS_PAUSE
    for before, job in pairwise(jobs):
        job.stretch = before.stretch + (before.ordered != job.ordered)
