"""Programs that start Spark jobs from several threads: the same program runs in any interleaving, which a test draws.

A program has jobs before and after its threads. A job is a chain of stages; its first one may be shared with other jobs: the
job that comes first runs it, the others find its output. Works are core-seconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from stage_model.history.events import StageInfo
from stage_model.history.profile import RunRecord
from stage_model.history.run_record import ContainerUse, to_record
from stage_model.history.stage_run import StageKey
from tests.fakes.records import facts
from tests.fakes.spark_events import Story


@dataclass(frozen=True)
class Step:
    """A stage. Steps of equal `name` are called at the same place. `shared`: its output is kept for all that have it."""

    name: str
    tasks: int
    work: float
    shared: bool = False


@dataclass(frozen=True)
class Job:
    """A job. `own_query`: it is one of an SQL execution, in each turn another."""

    steps: tuple[Step, ...]
    own_query: bool = False


@dataclass(frozen=True)
class Program:
    before: tuple[Job, ...]
    threads: tuple[tuple[Job, ...], ...]
    after: tuple[Job, ...]

    def jobs(self) -> Iterator[Job]:
        yield from self.before
        for thread in self.threads:
            yield from thread
        yield from self.after

    def work(self) -> float:
        """Return the work of the whole program: shared steps count once."""
        steps = [step for job in self.jobs() for step in job.steps]
        shared = {step for step in steps if step.shared}
        return sum(step.work for step in steps if not step.shared) + sum(step.work for step in shared)


Scopes = Callable[[int, int, Step], tuple[str, ...]]
"""Names that Spark gives the operators of a step, by the numbers of its thread and job."""


@dataclass
class Execution:
    """A run of a program. After every event `look` is called."""

    program: Program
    chance: random.Random
    scopes: Scopes
    look: Callable[[Execution], None] = lambda _: None
    retries: float = 0.0
    """Share of stages of which a task runs again."""
    story: Story = field(default_factory=Story)
    used: dict[StageKey, float] = field(default_factory=dict)
    """Container CPU by stage attempt."""
    ran: float = 0.0
    """Work of the program that is done; what runs again does not count."""
    again: float = 0.0
    """Work under way that runs again."""
    _stages: int = 0
    _jobs: int = 0
    _shared: dict[Step, StageInfo] = field(default_factory=dict)
    _done: set[Step] = field(default_factory=set)

    def run(self) -> Execution:
        self.story.ms = 1000
        self._together([self.program.before])
        self._together(self.program.threads)
        self._together([self.program.after])
        self.story.end()
        return self

    @property
    def left(self) -> float:
        return self.program.work() - self.ran + self.again

    def record(self, name: str) -> RunRecord:
        return to_record(self.story.run, facts(id=name), ContainerUse(container_core_s=self.used))

    def _together(self, threads: Sequence[Sequence[Job]]) -> None:
        """Run an event of one thread after the other, by chance; each thread begins its first job at once."""
        under_way = [self._thread(number, jobs) for number, jobs in enumerate(threads)]
        for thread in self.chance.sample(under_way, len(under_way)):
            next(thread)
        while under_way:
            thread = self.chance.choice(under_way)
            if next(thread, "over") == "over":
                under_way.remove(thread)
            self.story.ms += self.chance.randint(1, 2000)

    def _thread(self, number: int, jobs: Sequence[Job]) -> Iterator[str]:
        for job in jobs:
            yield from self._job(number, job)

    def _job(self, thread: int, job: Job) -> Iterator[str]:
        infos: list[StageInfo] = []
        for step in job.steps:
            info = self._shared.get(step) if step.shared else None
            if info is None:
                parents = (infos[-1].stage,) if infos else ()
                name = f"{step.name} at /x/app.py:1"
                scopes = self.scopes(thread, self._jobs, step)
                info = StageInfo(stage=self._stages, name=name, tasks=step.tasks, parents=parents, scopes=scopes)
                self._stages += 1
                if step.shared:
                    self._shared[step] = info
            infos.append(info)
        number, self._jobs = self._jobs, self._jobs + 1
        self.story.job(number, *infos, sql=str(number) if job.own_query else None)
        self.look(self)
        yield "began"
        for step, info in zip(job.steps, infos, strict=True):
            if step.shared and (info.stage, 0) in self.story.run.attempts:
                while step not in self._done:
                    yield "waits"
                continue
            yield from self._stage(step, info)
        self.story.job_end(number)
        self.look(self)
        yield "ended"

    def _stage(self, step: Step, info: StageInfo) -> Iterator[str]:
        self.story.submit(info)
        self.look(self)
        for index in range(step.tasks):
            yield "runs"
            self._task(step, info, index)
        fails = self.chance.random() < self.retries
        self.story.complete(info, failure="fetch failed" if fails else None)
        self.look(self)
        if fails:
            yield from self._again(step, info)
        self._done.add(step)

    def _again(self, step: Step, info: StageInfo) -> Iterator[str]:
        """Run a task of the stage again."""
        again = structs.replace(info, attempt=1, tasks=1)
        self.again += step.work / step.tasks
        self.story.submit(again)
        self.look(self)
        yield "runs again"
        self._task(step, again, 0)
        self.story.complete(again)
        self.look(self)

    def _task(self, step: Step, info: StageInfo, index: int) -> None:
        work = step.work / step.tasks
        self.story.task(info, index, run_ms=round(work * 1000), cpu_s=work)
        key = (info.stage, info.attempt)
        self.used[key] = self.used.get(key, 0.0) + work
        if info.attempt:
            self.again -= work
        else:
            self.ran += work
        self.look(self)
