"""The state of a simulated cluster: workers, submissions, and the applications, executors and tasks that run.

Times are seconds of the engine's clock, works core-seconds. Not covered: what happens to them (`engine`).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

from experiments.simulator.jobs import SimJob
from stage_model.units import NORMAL_PRIORITY


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects that real Spark and Linux add (docs/experiments.md, The simulator). All zero: the ideal.

    `warm_up`: share by which the first wave of tasks on a fresh executor costs more (JIT), the second wave half of it.
    `stranded_cores`: quota that a throttled executor cannot use, because up to 1 ms of an unused slice stays with a CPU that
    has nothing to run in each CFS period of 100 ms. `launch_s`: from the order to start an executor until it takes tasks;
    `launch_core_s`: the CPU that it uses until then. `records_noise`: the relative error of the records that running tasks
    are seen to have read, as a standard deviation. `latency_s`: from a stage's event until agents act on it, and from a
    decision until the kernel has the quota. `burst_gap_s`: mean time between two moments when another program on a worker's
    machine takes half of the worker's cores, for `burst_s` on average (0: never); no executor there has more than the other
    half then. `background_cores`: used by each executor's JVM at all times, with tasks or without. `cold_core_s`:
    core-seconds by which an executor's first task of each kind of code costs more, because classes are loaded and compiled.
    """

    warm_up: float = 0.0
    cold_core_s: float = 0.0
    background_cores: float = 0.0
    stranded_cores: float = 0.0
    launch_s: float = 0.0
    launch_core_s: float = 0.0
    records_noise: float = 0.0
    latency_s: float = 0.0
    burst_gap_s: float = 0.0
    burst_s: float = 5.0


IDEAL = Effects()
REAL = Effects(warm_up=0.5, background_cores=0.03, launch_s=2.0, records_noise=0.1, latency_s=0.05)
"""The effects of real Spark. The background is the median of seven recorded runs (0.002 to 0.13): the container CPU that no
stage's work explains, per second without a task. Tasks of a cold executor cost more by `warm_up`; `cold_core_s` matters for
stages of one task. The latency is that of one Docker update or change notice (15 to 55 ms). Recorded runs at constant quotas
end in a replay when they did, and 1.4% later with 0.01 cores of stranded quota (`calibrate`): their tasks compute all the
time, so no slice is left."""


@dataclass(frozen=True, slots=True)
class SimSubmission:
    """A job and its user's demands. `kind` is the queue of schedulers that have queues; `cores`: the static size for
    schedulers that give one (None: all cores); `executors`: most workers to use (None: all); `conf`: the SparkConf of its
    registration; `arguments`: the program's own words (None: not known)."""

    job: SimJob
    at_s: float = 0.0
    deadline_s: float | None = None
    priority: int = NORMAL_PRIORITY
    kind: str = "job"
    cores: float | None = None
    executors: int | None = None
    law: str = "forecast"
    settings: dict[str, float] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SimWorker:
    name: str
    cores: float
    slots: int

    @property
    def speed_limit(self) -> float:
        """Cores that one task can use at most."""
        return min(1.0, self.cores)


def workers(count: int, cores: float, slots: int | None = None) -> list[SimWorker]:
    """Return the workers that are all alike; by default with as many slots as cores, rounded up."""
    return [SimWorker(f"w{number}", cores, slots or max(1, math.ceil(cores))) for number in range(count)]


@dataclass(slots=True)
class Task:
    """A running task. `limit`: the share of a whole core that it can use; `left`: core-seconds; `fetched_s`: when it has the
    data it waits for, None while it computes; `used_core_s`: core-seconds that its executor's container has used for it, with
    its part of the JVM's own; `throttled_s`: seconds that the quota has held it back."""

    stage: int
    index: int
    work: float
    limit: float
    launched_s: float
    left: float
    fetched_s: float | None = None
    used_core_s: float = 0.0
    throttled_s: float = 0.0


@dataclass(slots=True)
class Counters:
    """The work of an executor on a stage, as its plugin would report it."""

    running: int = 0
    done: int = 0
    records_done: float = 0.0


@dataclass(slots=True, eq=False)
class SimExecutor:
    """A virtual executor. `codes`: the kinds of code that it has run. `speeds`: cores of each computing task, `background`:
    cores of the JVM's own threads, both since something last changed in the executor."""

    name: str
    app: App
    worker: SimWorker
    slots: int
    quota: float
    tasks: list[Task] = field(default_factory=list)
    at_s: float = 0.0
    cpu_core_s: float = 0.0
    throttled_s: float = 0.0
    allocated_core_s: float = 0.0
    started_tasks: int = 0
    ready: bool = False
    over: bool = False
    version: int = 0
    counters: dict[int, Counters] = field(default_factory=dict)
    codes: set[int] = field(default_factory=set)
    speeds: list[tuple[Task, float]] = field(default_factory=list)
    background: float = 0.0
    ordered: float = 0.0
    least_waiting: int = 1
    """Tasks that must wait for one to be given to the executor."""

    @property
    def computing(self) -> int:
        """Tasks that do not wait for data."""
        return sum(task.fetched_s is None for task in self.tasks)

    @property
    def free(self) -> int:
        return self.slots - len(self.tasks) if self.ready and len(self.app.waiting) >= self.least_waiting else 0


@dataclass(slots=True, eq=False)
class App:
    """One application as it runs. Times are seconds of the engine's clock."""

    number: int
    asked: SimSubmission
    waiting: deque[tuple[int, int]] = field(default_factory=deque)
    left: dict[int, int] = field(default_factory=dict)
    completed: set[int] = field(default_factory=set)
    submitted: set[int] = field(default_factory=set)
    executors: list[SimExecutor] = field(default_factory=list)
    names: int = 0
    first_task_s: float | None = None
    last_task_s: float = 0.0
    end_s: float | None = None
    stage_ends_s: dict[int, float] = field(default_factory=dict)
    stage_starts_s: dict[int, float] = field(default_factory=dict)
    before: float = 0.0
    """Core-seconds allocated until the first task."""
    allocated_core_s: float = 0.0
    used_core_s: float = 0.0
    gone_allocated: float = 0.0
    """Core-seconds allocated to executors that are over."""
    lost_core_s: float = 0.0

    @property
    def job(self) -> SimJob:
        return self.asked.job

    @property
    def in_tasks(self) -> bool:
        """True if the application is between its first task and the end of its last stage."""
        return self.first_task_s is not None and len(self.completed) < len(self.job.stages)

    @property
    def live(self) -> list[SimExecutor]:
        return [e for e in self.executors if not e.over]
