"""The paper's Figs. 6 and 7 simulated: short jobs arrive at random while one long job runs, under one scheduler.

Sizes are the paper's: four workers of four cores, short jobs of 30 to 40 s alone on four cores, long jobs of five minutes
alone on eight. Short jobs' deadline is their kind's mean time alone. Not covered: limits for the rows (the scenario).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from experiments.simulator.engine import Control, Engine
from experiments.simulator.jobs import Shape, random_shape
from experiments.simulator.learn import learned, pre_run
from experiments.simulator.pacing import Pacing
from experiments.simulator.schedulers import FIFO, PREEMPTIVE, RESERVE, Queued, Shares
from experiments.simulator.state import REAL, App, SimExecutor, SimSubmission, SimWorker, Task, workers
from stage_model.history.profile import Profile
from stage_model.units import parse_priority

CLUSTER = workers(4, 4.0)
KINDS = 3
SHORT, LONG = "short", "long"
SIZES = {SHORT: 4, LONG: 8}
"""Cores that a job asks for where a scheduler gives static sizes: a quarter and half of the cluster."""
ALONE_S = {SHORT: (30.0, 40.0), LONG: (300.0, 300.0)}
PRIORITIES = {SHORT: parse_priority("high"), LONG: parse_priority("low")}
OURS = "sparkpace"


@dataclass(frozen=True, slots=True)
class JobKind:
    """`alone_s`: mean seconds from submission to end on its size of the cluster."""

    shape: Shape
    profile: Profile
    alone_s: float


class LongShare(msgspec.Struct, frozen=True, kw_only=True):
    """Core-seconds: `free` is the part of the cluster that others left, `granted` the sum of the long jobs' own quotas."""

    free_core_s: float = 0.0
    granted_core_s: float = 0.0
    used_core_s: float = 0.0

    def __add__(self, other: LongShare) -> LongShare:
        return self._with(other, 1)

    def __sub__(self, other: LongShare) -> LongShare:
        return self._with(other, -1)

    def _with(self, other: LongShare, sign: int) -> LongShare:
        return LongShare(
            free_core_s=self.free_core_s + sign * other.free_core_s,
            granted_core_s=self.granted_core_s + sign * other.granted_core_s,
            used_core_s=self.used_core_s + sign * other.used_core_s,
        )


class StreamRow(msgspec.Struct, frozen=True, kw_only=True):
    """One stream under one scheduler: seconds from arrival to end of every short job, from first task to end of every long
    one; core-seconds of killed tasks.

    `long_share` is over all long jobs, each from its first stage to the end of its last one."""

    scheduler: str
    load: float
    seed: int
    short_s: tuple[float, ...]
    long_s: tuple[float, ...]
    lost_core_s: float
    used_core_s: float
    long_share: LongShare


def kinds(seed: int, name: str) -> list[JobKind]:
    """Return the shapes with partitions enough for all cores, each run by itself on its size: thrice for its time, the first
    its profile."""
    rng, found = random.Random(f"{seed}/{name}"), []
    alone_on = CLUSTER[: SIZES[name] // CLUSTER[0].slots]
    size = SIZES[name]
    for number in range(KINDS):
        alone_s = rng.uniform(*ALONE_S[name])
        shape = random_shape(rng, round(_cores(CLUSTER)), alone_s * size / _cores(CLUSTER))
        shape = replace(shape, name=f"{name}{number}")
        runs = [pre_run(shape.draw(rng), alone_on, effects=REAL, seed=seed + again) for again in range(3)]
        mean_s = statistics.fmean(app.end_s or 0.0 for app, _ in runs)
        found.append(JobKind(shape, learned(runs[0][1], runs[0][0].job), mean_s))
    return found


@dataclass(slots=True)
class OneLong:
    """A control that lets another decide, and looks after the long jobs: the next is submitted when the job before has ended,
    or, with `waits`, as soon as that job has an executor, so that a long job always waits."""

    inner: Control
    next_long: Callable[[float], SimSubmission]
    until_s: float
    waits: bool
    last: App | None = None
    engine: Engine | None = None
    share: LongShare = field(default_factory=LongShare)
    """Share of the long jobs whose stages are over; for a job whose stages are still under way, the amounts from before they
    began are taken off."""

    def begin(self, engine: Engine) -> None:
        self.engine = engine
        self.inner.begin(engine)

    def arrived(self, app: App) -> None:
        if app.asked.kind == LONG:
            self.last = app
        self.inner.arrived(app)
        self._another()

    def stage_submitted(self, app: App, stage: int) -> None:
        if app.asked.kind == LONG and len(app.stage_starts_s) == 1:
            self.share -= self._share_until_now(app)
        self.inner.stage_submitted(app, stage)

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        self.inner.task_ended(app, executor, task)

    def stage_completed(self, app: App, stage: int) -> None:
        if app.asked.kind == LONG and len(app.completed) == len(app.job.stages):
            self.share += self._share_until_now(app)
        self.inner.stage_completed(app, stage)

    def ended(self, app: App) -> None:
        self.inner.ended(app)
        self._another()

    def _share_until_now(self, app: App) -> LongShare:
        """Return the application's share from the stream's begin on."""
        assert self.engine
        for executor in (e for one in self.engine.apps for e in one.live):
            self.engine.advance(executor)
        held = {one.number: one.gone_allocated + math.fsum(e.allocated_core_s for e in one.live) for one in self.engine.apps}
        own = held.pop(app.number)
        free = _cores(self.engine.workers) * self.engine.now_s - math.fsum(held.values())
        return LongShare(free_core_s=free, granted_core_s=own, used_core_s=app.used_core_s)

    def _another(self) -> None:
        assert self.engine
        last, now_s = self.last, self.engine.now_s
        if last is None or now_s >= self.until_s:
            return
        if last.end_s is not None or (self.waits and last.executors):
            self.last = None
            self.engine.submit(self.next_long(now_s))


def control(scheduler: str, profiles: dict[str, Profile]) -> Control:
    """Return the control of a scheduler. Raise `KeyError` for an unknown scheduler."""
    made: dict[str, Callable[[], Control]] = {
        "fifo": lambda: Queued(FIFO),
        "reserve": lambda: Queued(RESERVE),
        "kill": lambda: Queued(PREEMPTIVE, "kill"),
        "suspend": lambda: Queued(PREEMPTIVE, "suspend"),
        "shares": lambda: Shares(lambda app: float(SIZES[app.asked.kind])),
        OURS: lambda: Pacing(profiles),
    }
    return made[scheduler]()


SCHEDULERS = ("fifo", "reserve", "kill", "suspend", "shares", OURS)


def stream(scheduler: str, load: float, seed: int, length_s: float) -> StreamRow:
    """Simulate a stream: short jobs that ask for the share `load` of the cluster arrive for `length_s` seconds, and all jobs
    that came run to their end. Every scheduler gets the same jobs."""
    shorts, longs = kinds(seed, SHORT), kinds(seed, LONG)
    rng, submissions, at_s = random.Random(seed), [], 0.0
    every_s = SIZES[SHORT] * statistics.fmean(kind.alone_s for kind in shorts) / (_cores(CLUSTER) * load)
    while (at_s := at_s + rng.expovariate(1 / every_s)) < length_s:
        submissions.append(_submission(rng.choice(shorts), SHORT, at_s, rng))
    rng_long = random.Random(f"{seed}/course")

    def next_long(now_s: float) -> SimSubmission:
        return _submission(rng_long.choice(longs), LONG, now_s, rng_long)

    profiles = {kind.shape.name: kind.profile for kind in (*shorts, *longs)}
    course = OneLong(control(scheduler, profiles), next_long, length_s, waits=scheduler == "fifo")
    engine = Engine(CLUSTER, [next_long(0.0), *submissions], course, effects=REAL, seed=seed)
    engine.run()
    ended = [(app, app.end_s) for app in engine.apps if app.end_s is not None]
    return StreamRow(
        scheduler=scheduler,
        load=load,
        seed=seed,
        short_s=tuple(round(end_s - a.asked.at_s, 3) for a, end_s in ended if a.asked.kind == SHORT),
        long_s=tuple(round(end_s - (a.first_task_s or 0.0), 3) for a, end_s in ended if a.asked.kind == LONG),
        lost_core_s=round(math.fsum(app.lost_core_s for app in engine.apps), 3),
        used_core_s=round(math.fsum(app.used_core_s for app in engine.apps), 3),
        long_share=course.share,
    )


def _submission(kind: JobKind, name: str, at_s: float, rng: random.Random) -> SimSubmission:
    """Draw a job of a kind; under ours every job has an executor on every worker."""
    return SimSubmission(
        kind.shape.draw(rng),
        at_s,
        deadline_s=kind.alone_s if name == SHORT else None,
        priority=PRIORITIES[name],
        kind=name,
        cores=float(SIZES[name]),
    )


def _cores(cluster: list[SimWorker]) -> float:
    return math.fsum(worker.cores for worker in cluster)
