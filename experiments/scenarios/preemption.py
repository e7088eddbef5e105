"""The paper's Figs. 5 to 7: short jobs come while long ones run, under stock schedulers and under Sparkpace.

`base` runs each short kind by itself on stock Spark, on one Worker of its own (its size): its time is the deadline under
ours, and says how often jobs must come for the load. `learn` runs the same on ours, which teaches the profiles. Then,
`repetitions` times, the same arrivals meet every scheduler. One long job runs and one waits all the time
(`baselines.admission`); a long job's time counts from its first task, because its wait is the experiment's choice.
`conditions` says what must hold.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from itertools import cycle, islice

import msgspec

from experiments.baselines.admission import SCHEDULERS, SIZES, UNITS, Play
from experiments.harness.markdown import table
from experiments.harness.recorded import (
    Condition,
    Data,
    Goal,
    JobRecord,
    Order,
    StepRecord,
    answers_right,
    complete,
    judged,
    kind_of,
    percentile,
    within_capacity,
)

BASE, LEARN, OURS = "base", "learn", "sparkpace"
LOAD_WINDOWS = 2
"""Most windows in which jobs come: where a scheduler starves the long jobs, these can end after that."""
DRAIN_S = 900.0
"""Seconds for the jobs that run alone: long enough."""
APART_S = 15.0
"""Seconds between the jobs of `base`, each on a worker of its own: drivers start one after another."""
NO_DEADLINE_S = 3600.0
"""Seconds of a deadline for law `constant`, which needs a deadline and ignores its value."""
MOST_ROWS = 10
"""Most rows of a picture of runs below one another."""
Seconds = Callable[[Iterable[StepRecord]], list[float]]
COLUMNS = (
    *("scheduler", "runs", "short jobs", "mean s", "p50", "p95", "delay p50 s", "p95", "given up"),
    *("long jobs", "mean s", "least", "most", "mean since arrival s", "executors lost", "tasks failed", "lost core-s"),
)


class PreemptionLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of ours, as a multiple of another scheduler's: 95th percentile of the short jobs' times, median of their delay
    (arrival to first task), mean time of the long jobs. None: not judged."""

    short_p95: float | None = None
    short_delay: float | None = None
    long_mean: float | None = None


class Preemption(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`short`, `long`: words of each kind. Short jobs ask for the share `load` of the cluster and come at random, or they
    come at the times `arrivals_s`. `short_executors` and `long_executors` are for ours: the stock schedulers' numbers are
    their sizes. `most_outside`: cores that drivers and services may use on average, so that they do not eat into the
    executors'."""

    short: dict[str, tuple[str, ...]]
    long: dict[str, tuple[str, ...]]
    schedulers: tuple[str, ...]
    window_s: float
    against: dict[str, PreemptionLimits]
    most_outside: float
    load: float | None = None
    arrivals_s: tuple[float, ...] = ()
    count_longs: int = 2
    endless: bool = True
    drain_s: float = 180.0
    short_executors: int = 1
    long_executors: int = 4
    options: tuple[str, ...] = ()
    repetitions: int = 1
    seed: int = 1

    def __post_init__(self) -> None:
        unknown = [name for name in (*self.schedulers, *self.against) if name not in SCHEDULERS]
        if unknown:
            raise ValueError(f"scheduler {unknown[0]!r} is unknown; there are: {', '.join(SCHEDULERS)}")
        if (self.load is None) == (not self.arrivals_s):
            raise ValueError("give either load or arrivals_s")

    def steps(self) -> list[str]:
        return [BASE, LEARN, *(f"{name}-{number}" for number in range(self.repetitions) for name in self.schedulers)]

    # ------------------------------------------------------------------ plays

    def play(self, step: str, data: Data) -> Play:
        if step in (BASE, LEARN):
            options = (*self.options, *self._executors(self.short_executors)) if step == LEARN else self.options
            kinds = enumerate(self.short.items())
            alone = tuple(Order(kind, words, delay_s=n * APART_S, options=options) for n, (kind, words) in kinds)
            scheduler = OURS if step == LEARN else "fifo"
            window_s = len(alone) * APART_S
            return Play(scheduler, alone, (), window_s, count_longs=0, endless=False, drain_s=DRAIN_S)
        scheduler, _, number = step.rpartition("-")
        return Play(
            scheduler,
            tuple(
                self._short(scheduler, kind, n, at_s, data) for n, (kind, at_s) in enumerate(self.arrivals(int(number), data))
            ),
            tuple(self._long(scheduler, kind, data) for kind in self.long),
            self.window_s,
            self.count_longs,
            endless=self.endless,
            drain_s=self.drain_s,
            # where jobs share workers a stock job has as many executors as ours, else those of its size
            executors={"short": self.short_executors, "long": self.long_executors}
            if SCHEDULERS[scheduler].slots > 1
            else SIZES,
        )

    def arrivals(self, repetition: int, data: Data) -> list[tuple[str, float]]:
        """Return the kind and time of every short job: the same for every scheduler.

        A Poisson stream with as many jobs in every `window_s` as the load asks for: given their number, its times are evenly
        random. With their number left to chance, too, some ten jobs would be up to half as many again, and the load would
        differ.
        """
        if self.load is None:
            return list(zip(cycle(self.short), self.arrivals_s, strict=False))
        rng = random.Random(f"{self.seed}/{repetition}")
        count = max(1, round(self.window_s / self.every_s(data)))
        found: list[tuple[str, float]] = []
        for window in range(LOAD_WINDOWS):
            kinds = list(islice(cycle(self.short), count))
            rng.shuffle(kinds)
            times = sorted(round(self.window_s * (window + rng.random()), 3) for _ in kinds)
            found += zip(kinds, times, strict=True)
        return found

    def every_s(self, data: Data) -> float:
        """Return the mean time between arrivals: a job asks for its size of the units for as long as it takes alone."""
        assert self.load is not None
        return statistics.fmean(alone_s(data, kind) for kind in self.short) * SIZES["short"] / (UNITS * self.load)

    def _short(self, scheduler: str, kind: str, number: int, at_s: float, data: Data) -> Order:
        name, words = f"{kind}-{number}", self.short[kind]
        if scheduler == OURS:
            options = (*self.options, *self._executors(self.short_executors))
            return Order(name, words, alone_s(data, kind), "high", at_s, options)
        if scheduler == "suspend":
            return Order(name, words, NO_DEADLINE_S, "high", at_s, (*self.options, *self._size("short", data)))
        return Order(name, words, delay_s=at_s, options=self.options)

    def _long(self, scheduler: str, kind: str, data: Data) -> Order:
        words = self.long[kind]
        if scheduler == OURS:
            return Order(kind, words, None, "low", options=(*self.options, *self._executors(self.long_executors)))
        if scheduler == "suspend":
            return Order(kind, words, NO_DEADLINE_S, "low", options=(*self.options, *self._size("long", data)))
        return Order(kind, words, options=self.options)

    def _executors(self, count: int) -> tuple[str, ...]:
        return "--num-executors", str(count)

    def _size(self, kind: str, data: Data) -> tuple[str, ...]:
        """Return the options for constantly the cores of a job's size on as many executors."""
        cores = SIZES[kind] * sum(data.steps[BASE].capacity.values()) / UNITS
        law = ("--law", "constant", "--conf", f"spark.pace.law.constant.cores={cores:g}")
        return (*self._executors(SIZES[kind]), *law)

    # ------------------------------------------------------------------ findings

    def conditions(self, data: Data) -> list[Condition]:
        streams = [step for name in self.schedulers for step in data.starting(f"{name}-")]
        paced = [step for name in self.schedulers if SCHEDULERS[name].cluster == OURS for step in data.starting(f"{name}-")]
        return [
            complete(data, self.steps()),
            *(judged(goal, OURS) for goal in self.goals(data)),
            *(self._drivers_fit(step) for step in streams),
            *within_capacity(paced, data),
            *answers_right(data.steps.values()),
        ]

    def goals(self, data: Data) -> list[Goal]:
        """Return Sparkpace's figures against the others', as far as both ran; an unknown time is infinite and reaches no
        goal."""
        ours, found = data.starting(f"{OURS}-"), []
        if not ours:
            return []
        for other, limits in self.against.items():
            theirs = data.starting(f"{other}-")
            for name, limit, seconds, statistic in self._measures(limits):
                if limit is not None and theirs:
                    times = seconds(ours)
                    ratio = round(statistic(times) / statistic(seconds(theirs)), 4)
                    goal = f"real: {name} / {other}'s"
                    found.append(Goal(goal=goal, measured=ratio, limit=limit, unit="ratio", n=len(times)))
        jobs = [job.summary for step in ours for job in step.jobs]
        for key in ("executors_lost", "tasks_failed"):
            lost = sum(summary[key] for summary in jobs)
            found.append(Goal(goal=f"real: {key.replace('_', ' ')}", measured=lost, limit=0, unit="in all jobs", n=len(jobs)))
        return found

    def _measures(
        self, limits: PreemptionLimits
    ) -> list[tuple[str, float | None, Seconds, Callable[[Sequence[float]], float]]]:
        p50, p95 = (partial(percentile, share=share) for share in (0.5, 0.95))
        return [
            ("short jobs' p95", limits.short_p95, self.short_times, p95),
            ("short jobs' delay p50", limits.short_delay, self.short_delays, p50),
            ("long jobs' mean time", limits.long_mean, self.long_times, mean),
        ]

    def _drivers_fit(self, step: StepRecord) -> Condition:
        used = step.outside_core_s / step.took_s
        name = f"drivers and services use at most {self.most_outside:g} cores"
        return Condition(name, step.step, used <= self.most_outside, f"{used:.2f} cores on average")

    def short_times(self, steps: Iterable[StepRecord]) -> list[float]:
        """Return the times from arrival to end; infinite for jobs that were given up."""
        found = [time_s(job) for step in steps for job in step.jobs if kind_of(job.job) in self.short]
        return found + [math.inf] * _given_up(steps, self.short)

    def short_delays(self, steps: Iterable[StepRecord]) -> list[float]:
        """Return the times from arrival to first task."""
        jobs = [job for step in steps for job in step.jobs if kind_of(job.job) in self.short]
        return [job.waited_s + job.summary["first_task_s"] for job in jobs] + [math.inf] * _given_up(steps, self.short)

    def long_times(self, steps: Iterable[StepRecord]) -> list[float]:
        """Return the times from first task to end; infinite for jobs that were given up."""
        times = [float(job.summary["end_s"] - job.summary["first_task_s"]) for job in self.longs(steps)]
        return times + [math.inf] * _given_up(steps, self.long)

    def longs(self, steps: Iterable[StepRecord]) -> list[JobRecord]:
        return [job for step in steps for job in step.jobs if kind_of(job.job) in self.long]

    def tables(self, data: Data) -> str:
        ran = {name: steps for name in self.schedulers if (steps := data.starting(f"{name}-"))}
        rows = [(name, len(steps), *self._short_cells(steps), *self._long_cells(steps)) for name, steps in ran.items()]
        about = (
            "Short jobs' times are from arrival to end, their delay from arrival to first task; long jobs' times from first "
            "task to end. Lost core-s: seconds of tasks that had to run again, times the cores of their slot."
        )
        lines = [*table(COLUMNS, rows), about, ""]
        if BASE in data.steps:
            columns = ("alone", "n", "stock, on its size s", "ours s", "CPU outside, cores")
            lines += table(columns, (self._alone_cells(kind, data) for kind in self.short))
        if BASE in data.steps and self.load is not None:
            lines.append(f"Short jobs ask for {self.load:.0%} of the cluster: one comes every {self.every_s(data):.1f} s.")
        return "\n".join(lines)

    def _short_cells(self, steps: Sequence[StepRecord]) -> list[str]:
        times, delays = self.short_times(steps), self.short_delays(steps)
        numbers = [
            mean(times),
            percentile(times, 0.5),
            percentile(times, 0.95),
            *(percentile(delays, p) for p in (0.5, 0.95)),
        ]
        return [str(len(times)), *map(shown, numbers), str(_given_up(steps, self.short))]

    def _long_cells(self, steps: Sequence[StepRecord]) -> list[str]:
        times, jobs = self.long_times(steps), [job for step in steps for job in step.jobs]
        numbers = [
            mean(times),
            min(times, default=math.nan),
            max(times, default=math.nan),
            mean(map(time_s, self.longs(steps))),
        ]
        sums = [sum(job.summary[key] for job in jobs) for key in ("executors_lost", "tasks_failed")]
        lost = math.fsum(job.summary.get("lost_core_s", 0.0) for job in jobs)
        return [str(len(times)), *map(shown, numbers), *map(str, sums), f"{lost:.1f}"]

    def _alone_cells(self, kind: str, data: Data) -> Sequence[object]:
        ours = f"{data.steps[LEARN].job(kind).summary['end_s']:.1f}" if LEARN in data.steps else "-"
        base = data.steps[BASE]
        return kind, 1, f"{alone_s(data, kind):.1f}", ours, f"{base.outside_core_s / base.took_s:.2f}"

    def pictures(self, data: Data) -> dict[str, list[str]]:
        """Return pictures of small streams under ours: every job's cores."""
        paced = [name for name in self.schedulers if SCHEDULERS[name].cluster == OURS]
        first = {name: data.starting(f"{name}-")[:1] for name in paced}
        return {
            f"cores-{name}": [job.app_id for job in steps[0].jobs]
            for name, steps in first.items()
            if steps and len(steps[0].jobs) <= MOST_ROWS
        }

    def distributions(self, data: Data) -> dict[str, dict[str, list[float]]]:
        """Return the times of the short jobs under each scheduler."""
        found = {name: self.short_times(data.starting(f"{name}-")) for name in self.schedulers}
        there = {name: times for name, times in found.items() if times}
        return {"short-jobs": there} if there else {}


def alone_s(data: Data, kind: str) -> float:
    """Return the seconds of a short job by itself on stock Spark, on its size: its deadline under ours."""
    return float(data.steps[BASE].job(kind).summary["end_s"])


def time_s(job: JobRecord) -> float:
    return job.waited_s + float(job.summary["end_s"])


def _given_up(steps: Iterable[StepRecord], kinds: Collection[str]) -> int:
    return sum(kind_of(job) in kinds for step in steps for job in step.given_up)


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return statistics.fmean(found) if found else math.nan


def shown(number: float) -> str:
    if math.isnan(number):
        return "-"
    return "not in this run" if math.isinf(number) else f"{number:.1f}"
