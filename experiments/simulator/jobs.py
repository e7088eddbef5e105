"""The work of a virtual cluster: stages of tasks with true works, and generators that draw them from a seed.

Works are core-seconds, waits are seconds in which a task holds its slot and uses no CPU. Not covered: running them
(`engine`), their profiles (`learn`).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from stage_model.history.amounts import Amounts


@dataclass(frozen=True, slots=True)
class SimStage:
    """A virtual stage. `works`: true core-seconds of each task. `wait_s`: each task's seconds without CPU before it computes
    (shuffle fetch), which no core shortens. `hidden_wait_s`: a task's seconds without CPU between pieces of its computing (a
    pipe to a Python worker, I/O). They pass while the quota holds the task back, too: a task with a whole core takes that
    much longer, a task with less than a core loses less. `records`: records of the whole stage, spread evenly over its tasks,
    None where it reads no records; a task has read all of its records after the share `read_by` of its work. `gap_s`: the
    driver's own time before it. `parents`: places of the stages it waits for; None: the stage before it. `code`: stages with
    the same number run the same code; None: no other stage runs its code. `profile_factor`: the profile says that many times
    the true work. `name` and `scopes` are Spark's names of it and of its operators ("": a name of its own). `amounts`: the
    data that it reads and writes; None: the amounts follow from `records`."""

    works: tuple[float, ...]
    wait_s: float = 0.0
    hidden_wait_s: float = 0.0
    records: float | None = None
    read_by: float = 1.0
    gap_s: float = 0.0
    parents: tuple[int, ...] | None = None
    code: int | None = None
    profile_factor: float = 1.0
    name: str = ""
    scopes: tuple[str, ...] = ()
    amounts: Amounts | None = None

    @property
    def work_core_s(self) -> float:
        return math.fsum(self.works)


@dataclass(frozen=True, slots=True)
class SparkJob:
    """A job in Spark's sense: it starts with the first of its stages and ends with the last. `stages` are the places of its
    stages, `skipped` the places of stages of earlier jobs whose results it takes: it names copies of these under other ids,
    like AQE and caches. `sql`: its SQL execution. `properties`: local properties of the thread that submitted it.
    `cancelled`: its program cancelled it."""

    stages: tuple[int, ...]
    skipped: tuple[int, ...] = ()
    sql: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class SimJob:
    """Stages in order of submission. Seconds: before the first stage, and from the last task to the application's end.
    `jobs` are in order of their first stages, and every stage is in one of them; without `jobs` all stages are in one job."""

    stages: tuple[SimStage, ...]
    startup_s: float = 0.0
    tail_s: float = 0.0
    name: str = "job"
    jobs: tuple[SparkJob, ...] = ()

    @property
    def spark_jobs(self) -> tuple[SparkJob, ...]:
        return self.jobs or (SparkJob(tuple(range(len(self.stages)))),)

    def spark_job(self, place: int) -> SparkJob:
        """Return the job of stage `place`."""
        return next(job for job in self.spark_jobs if place in job.stages)

    def amounts(self, place: int) -> Amounts:
        """Return the amounts that stage `place` reads and writes."""
        stage = self.stages[place]
        if stage.amounts is not None:
            return stage.amounts
        each = 0 if stage.records is None else round(stage.records / len(stage.works))
        read = each * len(stage.works)
        return Amounts(read, 0 if self.parents(place) else read, round(self.written(place)))

    @property
    def work_core_s(self) -> float:
        return math.fsum(stage.work_core_s for stage in self.stages)

    def parents(self, place: int) -> tuple[int, ...]:
        """Return the places of the stages that stage `place` waits for."""
        given = self.stages[place].parents
        if given is not None:
            return given
        return (place - 1,) if place else ()

    def written(self, place: int) -> float:
        """Return the records that stage `place` writes: its part of what its children read."""
        children = [n for n in range(place + 1, len(self.stages)) if place in self.parents(n)]
        return math.fsum((self.stages[child].records or 0.0) / len(self.parents(child)) for child in children)

    def wrong(self, factors: Sequence[float]) -> SimJob:
        """Return the same job, whose profile says `factors` times each stage's true work."""
        stages = zip(self.stages, factors, strict=True)
        return replace(self, stages=tuple(replace(stage, profile_factor=factor) for stage, factor in stages))


def log_normal(rng: random.Random, mean: float, cv: float) -> float:
    """Return a draw with this mean and coefficient of variation."""
    sigma = math.sqrt(math.log1p(cv * cv))
    return rng.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)


RECORDS_PER_TASK = 10_000.0


@dataclass(frozen=True, slots=True)
class Shape:
    """The traits that runs of one application have in common. `tasks` and `task_core_s` by stage; `cv` of task works.

    `straggler_share` of the tasks cost `straggler_times` as much; `skew`: one task of every stage costs that many times the
    mean. `wait_share`: a task's wait, as a share of its mean work. `gap_s` and `startup_s` vary from run to run with
    `gap_cv`. `records_per_task` None: the progress signal is CPU. `read_by`: as a stage's."""

    tasks: tuple[int, ...]
    task_core_s: tuple[float, ...]
    cv: float = 0.3
    straggler_share: float = 0.0
    straggler_times: float = 3.0
    skew: float = 1.0
    wait_share: float = 0.0
    gap_s: float = 0.1
    gap_cv: float = 0.3
    startup_s: float = 5.0
    tail_s: float = 0.1
    records_per_task: float | None = RECORDS_PER_TASK
    read_by: float = 1.0
    name: str = "job"

    def draw(self, rng: random.Random, size: float = 1.0) -> SimJob:
        """Return one run of the application, with `size` times the input: as many tasks, each with `size` times the work and
        records."""
        stages = []
        for count, mean in zip(self.tasks, self.task_core_s, strict=True):
            works = [size * log_normal(rng, mean, self.cv) for _ in range(count)]
            works = [w * (self.straggler_times if rng.random() < self.straggler_share else 1.0) for w in works]
            if self.skew > 1:
                works[rng.randrange(count)] = size * mean * self.skew
            records = None if self.records_per_task is None else size * self.records_per_task * count
            gap_s = log_normal(rng, self.gap_s, self.gap_cv) if self.gap_s else 0.0
            stages.append(SimStage(tuple(works), self.wait_share * mean * size, 0.0, records, self.read_by, gap_s))
        startup_s = log_normal(rng, self.startup_s, 0.1) if self.startup_s else 0.0
        return SimJob(tuple(stages), startup_s, self.tail_s, self.name)


def random_shape(
    rng: random.Random,
    slots: int,
    base_s: float,
    *,
    stages: tuple[int, int] = (4, 8),
    waves: tuple[int, int] = (4, 12),
    **changes: float | None,
) -> Shape:
    """Return a shape with random numbers of `stages` and of `waves` on `slots` slots, about `base_s` seconds on all of them
    together."""
    count = rng.randint(*stages)
    weights = [rng.uniform(0.5, 1.5) for _ in range(count)]
    tasks, works = [], []
    for weight in weights:
        stage_tasks = rng.randint(waves[0] * slots, waves[1] * slots)
        stage_s = base_s * weight / sum(weights)
        tasks.append(stage_tasks)
        works.append(stage_s * slots / stage_tasks)
    return replace(Shape(tuple(tasks), tuple(works), cv=rng.uniform(0.1, 0.5)), **changes)  # type: ignore[arg-type]
