"""The schedulers of the paper's Figs. 5 to 7: the jobs of a stream that run now, and their numbers of executors. Pure.

A stream has short jobs, which arrive at given times, and long jobs, of which one runs and one waits. Names, shares and
meaning are those of the simulated schedulers (`experiments.simulator.schedulers`); sizes are quarters of the cluster here.
Not covered: how jobs are submitted, awaited and made to let go of executors (`streams`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import cycle
from typing import Literal

from experiments.harness.recorded import Order
from experiments.simulator.schedulers import FIFO, PREEMPTIVE, RESERVE, QueueShare

SHORT, LONG = "short", "long"
UNITS = 4
"""Equal parts of the cluster: each of stock Spark's Workers has one part, and one slot."""
SIZES = {SHORT: 1, LONG: 2}
"""Units of a job: 4 and 8 of the paper's 16 CPUs."""
LITTLE = 1e-9


@dataclass(frozen=True, slots=True)
class Scheduler:
    """`queues`: the part that each kind of job may hold of the cluster; a job is submitted when its queue has room for it. A
    kind without a queue is submitted when it arrives. `takes_back`: executors of long jobs are killed for short ones.
    `slots`: executors that a Worker may have; all of a job's together weigh as much as its size."""

    cluster: Literal["standalone", "sparkpace"]
    queues: Mapping[str, QueueShare]
    takes_back: bool = False
    slots: int = 1

    @property
    def waits_in_cluster(self) -> bool:
        """True if a job that was submitted may still have to wait for its first executor."""
        return not any(kind in self.queues for kind in SIZES)

    def most(self, kind: str) -> float:
        """Return the units that jobs of a kind may hold at once."""
        return self.queues[kind].most * UNITS if kind in self.queues else math.inf


ONE_LONG: Mapping[str, QueueShare] = {LONG: RESERVE[LONG]}
"""Queues where no job waits for cores; one long job runs and one waits in every scheduler but FIFO, because the experiment
has it so."""
SCHEDULERS: Mapping[str, Scheduler] = {
    "fifo": Scheduler("standalone", FIFO),
    "reserve": Scheduler("standalone", RESERVE),
    "kill": Scheduler("standalone", PREEMPTIVE, takes_back=True),
    "shares": Scheduler("standalone", ONE_LONG, slots=4),
    "suspend": Scheduler("sparkpace", ONE_LONG),
    "sparkpace": Scheduler("sparkpace", ONE_LONG),
}


@dataclass(frozen=True, slots=True)
class Play:
    """One stream under one scheduler. `shorts` come in the order of their `delay_s`; short jobs that come within `window_s`
    count; later ones only keep the load up until the first `count_longs` long jobs have ended. `longs` come one after
    another, again and again if `endless`. Short jobs that count and have not ended `drain_s` after that are given up, and
    after `most_s` all jobs are."""

    scheduler: str
    shorts: tuple[Order, ...]
    longs: tuple[Order, ...]
    window_s: float
    count_longs: int
    endless: bool = True
    drain_s: float = 180.0
    most_s: float = 1100.0
    executors: Mapping[str, int] = field(default_factory=lambda: SIZES)
    """The number of executors of a job of each kind on stock Spark."""


@dataclass(frozen=True, slots=True)
class Submit:
    """`resizable`: the job is started so that its number of executors can be changed."""

    order: Order
    kind: str
    resizable: bool = False


@dataclass(frozen=True, slots=True)
class Resize:
    job: str
    executors: int


@dataclass(frozen=True, slots=True)
class End:
    job: str


Action = Submit | Resize | End


@dataclass(slots=True)
class Job:
    """`executors`: the number that the job may have now. `state` goes from left to right."""

    order: Order
    kind: str
    arrived_s: float
    counted: bool
    executors: int
    state: Literal["waiting", "submitted", "begun", "ended", "given up"] = "waiting"
    asks: bool = False
    """True if the job's driver is up and has or wants executors."""

    @property
    def present(self) -> bool:
        return self.state in ("submitted", "begun")


class Stream:
    """The course of a play. `act` gets the time since the start and the states that were seen."""

    def __init__(self, play: Play) -> None:
        self.play = play
        self.jobs: dict[str, Job] = {}
        self.closed_s: float | None = None
        """Time by which all jobs that count had come, and the long ones among them had ended."""
        self._shorts = sorted(play.shorts, key=lambda order: order.delay_s)
        self._longs = self._next_longs()

    @property
    def scheduler(self) -> Scheduler:
        return SCHEDULERS[self.play.scheduler]

    @property
    def over(self) -> bool:
        return self.closed_s is not None and not any(job.state == "waiting" or job.present for job in self.jobs.values())

    def act(self, now_s: float, asking: Collection[str], begun: Collection[str], ended: Collection[str]) -> list[Action]:
        """Return what to do now. `asking`: jobs whose drivers have or want executors; `begun`: jobs seen to have one;
        `ended`: jobs whose drivers have ended."""
        for name, job in self.jobs.items():
            job.asks = name in asking and name not in ended
            if name in ended and job.present:
                job.state = "ended"
            elif job.state == "submitted" and (name in begun or not self.scheduler.waits_in_cluster):
                job.state = "begun"
        late = now_s >= self.play.most_s
        if self.closed_s is None and (late or self._has_shown_all(now_s)):
            self.closed_s = now_s
        if self.closed_s is not None and (late or self._may_end(now_s)):
            return self._end_all()
        if self.closed_s is None:
            self._arrive(now_s)
        return [*self._admit(), *self._resize()]

    # ------------------------------------------------------------------ arrivals

    def _next_longs(self) -> Iterator[Order]:
        names = cycle(self.play.longs) if self.play.endless and self.play.longs else iter(self.play.longs)
        for number, order in enumerate(names):
            yield Order(f"{order.job}-{number}", order.words, order.deadline_s, order.priority, 0.0, order.options)

    def _arrive(self, now_s: float) -> None:
        while self._shorts and self._shorts[0].delay_s <= now_s:
            order = self._shorts.pop(0)
            self._add(order, SHORT, now_s, counted=order.delay_s < self.play.window_s)
        pending = [j for j in self._of(LONG) if j.state in ("waiting", "submitted")]
        if not pending and (order_ := next(self._longs, None)) is not None:
            self._add(order_, LONG, now_s, counted=len(self._of(LONG)) < self.play.count_longs)

    def _add(self, order: Order, kind: str, now_s: float, *, counted: bool) -> None:
        self.jobs[order.job] = Job(order, kind, now_s, counted, SIZES[kind])

    def _of(self, kind: str) -> list[Job]:
        return [job for job in self.jobs.values() if job.kind == kind]

    # ------------------------------------------------------------------ admission

    def _admit(self) -> list[Action]:
        """Submit waiting jobs in order of arrival within each kind; after the close no long job begins."""
        actions: list[Action] = []
        for kind, size in SIZES.items():
            held = sum(size for job in self._of(kind) if job.present)
            for job in self._of(kind):
                if job.state != "waiting" or (kind == LONG and self.closed_s is not None):
                    continue
                if held + size > self.scheduler.most(kind) + LITTLE:
                    break
                held += size
                job.state = "submitted"
                actions.append(Submit(job.order, kind, resizable=kind == LONG and self.scheduler.takes_back))
        return actions

    def _resize(self) -> list[Action]:
        """Change the executors of long jobs: they go, the latest job's first, when short jobs need their Workers, and come
        back after that."""
        if not self.scheduler.takes_back:
            return []
        longs = [job for job in self._of(LONG) if job.present]
        shorts = sum(job.executors for job in self._of(SHORT) if job.present and job.asks)
        before = [job.executors for job in longs]
        room = UNITS - shorts
        for job in longs:
            job.executors = max(0, min(SIZES[LONG], room))
            room -= job.executors
        changed = zip(longs, before, strict=True)
        return [Resize(job.order.job, job.executors) for job, executors in changed if job.executors != executors]

    # ------------------------------------------------------------------ the end

    def _has_shown_all(self, now_s: float) -> bool:
        longs = [job for job in self._of(LONG) if job.counted]
        come = len(longs) == self.play.count_longs
        return now_s >= self.play.window_s and come and all(job.state == "ended" for job in longs)

    def _may_end(self, now_s: float) -> bool:
        assert self.closed_s is not None
        left = [job for job in self._of(SHORT) if job.counted and (job.present or job.state == "waiting")]
        return not left or now_s >= self.closed_s + self.play.drain_s

    def _end_all(self) -> list[Action]:
        actions: list[Action] = []
        for name, job in self.jobs.items():
            if job.present:
                actions.append(End(name))
            if job.present or job.state == "waiting":
                job.state = "given up"
        return actions
