"""The orders and findings of an experiment, and arithmetic over them: pure, so conditions are tested on made-up data.

A scenario's run is a list of *steps* (slices): each submits some jobs at given times and is recorded as a whole. Times are
seconds, cores are cores. Not covered: files (`result_folder`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from controller.runs.plot_runs import core_curve
from controller.wire.worker import Sample
from stage_model.history.profile import RunRecord

TOGETHER_S = 0.3
"""An agent samples all its executors at one moment of its clock, and again a period (1 s) later. Seconds since each
application's own submission, put on one time axis, show the moments apart but differ by milliseconds within one."""
SAME_CORES = 1e-6
MOST_NAMES = 3
"""Steps that a message names; the others are counted."""


@dataclass(frozen=True, slots=True)
class Taught:
    """A profile of only these runs (application ids), with `factor` times their works and times."""

    runs: tuple[str, ...]
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Order:
    """One job of a step. `words`: the workload's script and its arguments; in them and `options` `{out}` is the result
    folder; `profile` None: the profile that the cluster has learned. `stock`: on stock Spark, on workers as large, by itself.
    `stock_cores`: cores of all its workers, of which there are as few as possible (None: as many of both as the cluster has).
    `stock_slots`: slots of each of its workers, which has one executor. `stock_workers`: workers that have `stock_cores`
    together, while nothing of Sparkpace runs (None: Sparkpace's cluster is up). `stock_executors`: executors of the job on
    stock Spark (None: one on each worker).
    `cluster`: the name of one of several (empty: there is one). `works_in`: an input (`inputs`) that is a folder, of
    which the job gets a copy to work in and to write to; empty: it works in the result folder. `may_fail`: a failure of a job
    without a deadline is recorded; else it stops the experiment."""

    job: str
    words: tuple[str, ...]
    deadline_s: float | None = None
    priority: str = "normal"
    delay_s: float = 0.0
    options: tuple[str, ...] = ()
    profile: Taught | None = None
    stock: bool = False
    stock_cores: float | None = None
    stock_slots: int = 1
    stock_workers: int | None = None
    stock_executors: int | None = None
    cluster: str = ""
    works_in: str = ""
    may_fail: bool = False


def kind_of(job: str) -> str:
    """Return the kind of a job that is named by its kind and a number."""
    return job.rpartition("-")[0]


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a step that ended. `summary` is its run's; `workers` has each executor's worker; `arrived_epoch_s`: the
    job's arrival, where it may have waited to be submitted."""

    job: str
    app_id: str
    exit_code: int
    summary: dict[str, Any]
    workers: dict[str, str] = {}
    arrived_epoch_s: float | None = None

    @property
    def waited_s(self) -> float:
        """Seconds from the job's arrival to its submission."""
        return 0.0 if self.arrived_epoch_s is None else float(self.summary["submitted_epoch_s"]) - self.arrived_epoch_s


class SlotReading(msgspec.Struct, frozen=True, kw_only=True):
    """A moment of a standalone cluster: the slots that each application holds, as the Master says, and the CPU that the
    Workers' control groups have used so far, in core-seconds."""

    epoch_s: float
    used_core_s: float
    slots: dict[str, int]


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A step that ended, one line of `records.jsonl`. `session` numbers the call that ran it.

    `outside_core_s`: CPU that the machine used outside executors, drivers and services included; `steal_core_s`: CPU that the
    hypervisor withheld. `capacity`: cores of each worker. `given_up`: jobs that were ended early, and the seconds since their
    arrival. `readings`: of the standalone cluster on which the step ran, once a second.
    """

    step: str
    session: int
    took_s: float
    outside_core_s: float
    steal_core_s: float
    capacity: dict[str, float]
    jobs: tuple[JobRecord, ...]
    given_up: dict[str, float] = {}
    readings: tuple[SlotReading, ...] = ()

    def job(self, name: str) -> JobRecord:
        return next(job for job in self.jobs if job.job == name)


class RowStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step without Spark (simulated, or the product's own parts measured) that ended, one line of `rows.jsonl`: its
    scenario's findings, one mapping per row."""

    step: str
    session: int
    took_s: float
    rows: tuple[dict[str, Any], ...]


class Withdrawn(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Runs (application ids) whose figures are no longer shown, and why: a sentence. Their data stay."""

    runs: tuple[str, ...] = ()
    why: str = ""

    def count(self, applications: Iterable[str]) -> int:
        return sum(one in self.runs for one in applications)


@dataclass(frozen=True, slots=True)
class Data:
    """All that was recorded: steps by name, samples by application id, steps without Spark, runs that were withdrawn, event
    log findings (where there is a log) and outputs by application id, and reasons for missed goals by step."""

    steps: Mapping[str, StepRecord] = field(default_factory=dict)
    samples: Mapping[str, Sequence[Sample]] = field(default_factory=dict)
    rows: Mapping[str, RowStep] = field(default_factory=dict)
    withdrawn: Withdrawn = field(default_factory=Withdrawn)
    logs: Mapping[str, RunRecord] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)
    explained: Mapping[str, str] = field(default_factory=dict)

    @property
    def done(self) -> frozenset[str]:
        """Names of the steps that ended."""
        return frozenset((*self.steps, *self.rows))

    def starting(self, prefix: str) -> list[StepRecord]:
        """Return the steps whose names are `prefix` and a number, in order of their numbers."""
        found = {name.removeprefix(prefix): step for name, step in self.steps.items() if name.startswith(prefix)}
        return [found[number] for number in sorted((n for n in found if n.isdigit()), key=int)]


@dataclass(frozen=True, slots=True)
class Condition:
    """A statement that must hold, the run that it is about, and the numbers that show the answer. `always`: it counts in a
    quick run, too, which is too small for other conditions."""

    name: str
    of: str
    holds: bool
    detail: str
    always: bool = False


class Goal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A figure that was to be reached: `measured` at most `limit`, both in `unit`; `n` runs or jobs show it. `not_measured`
    says why there is no figure."""

    goal: str
    measured: float | None
    limit: float
    unit: str
    n: int
    not_measured: str = ""

    @property
    def met(self) -> bool | None:
        """True if the goal is met; None when there is no figure."""
        return None if self.measured is None else self.measured <= self.limit


# ---------------------------------------------------------------- arithmetic


def least_workers(cores: float, most_each: float) -> int:
    """Return the least number of workers that have `cores` together, each at most `most_each`."""
    return math.ceil(round(cores / most_each, 9))  # because 1.2 / 0.4 is a little over 3


def mean_grant(samples: Sequence[Sample], start_s: float, end_s: float) -> float | None:
    """Return the mean of the granted cores over [start_s, end_s], over all executors; None for an empty span, and for a span
    without samples.

    A grant holds until the next tick; before the first tick and after the last one, there is no grant to average.
    """
    curve = core_curve(samples)
    area = known_s = 0.0
    for from_s, to_s, cores in zip(curve.time_s, curve.time_s[1:], curve.granted, strict=False):
        span_s = min(to_s, end_s) - max(from_s, start_s)
        if span_s > 0:
            area += span_s * cores
            known_s += span_s
    return area / known_s if known_s > 0 else None


def used_core_s(samples: Iterable[Sample], until_s: float = math.inf) -> float:
    """Return the CPU of all executors up to `until_s`: each executor counts with its latest sample."""
    latest: dict[str, float] = {}
    for sample in samples:
        if sample.time_s <= until_s:
            latest[sample.executor_id] = max(sample.cpu_core_s, latest.get(sample.executor_id, 0.0))
    return math.fsum(latest.values())


def time_of_share(samples: Sequence[Sample], share: float) -> float:
    """Return the time when that share of all the CPU of the run had been used, on its own clock. Raise `ValueError` without
    samples."""
    if not samples:
        raise ValueError("a run without samples used no CPU at any time")
    total = used_core_s(samples)
    latest: dict[str, float] = {}
    for sample in sorted(samples, key=lambda s: s.time_s):
        latest[sample.executor_id] = max(sample.cpu_core_s, latest.get(sample.executor_id, 0.0))
        if math.fsum(latest.values()) >= share * total - SAME_CORES:
            return sample.time_s
    return max(sample.time_s for sample in samples)


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """Quotas and grants of one worker at one moment."""

    worker: str
    epoch_s: float
    quota: float
    grant: float


def loads(step: StepRecord, samples: Mapping[str, Sequence[Sample]]) -> Iterator[WorkerLoad]:
    """Yield the sums of every moment that an agent sampled. An executor that was seen on no worker counts on every worker."""
    rows: dict[str, list[tuple[float, tuple[str, str], Sample]]] = defaultdict(list)
    for job in step.jobs:
        submitted_s = float(job.summary["submitted_epoch_s"])
        for sample in samples.get(job.app_id, ()):
            if sample.quota == sample.grant == 0:
                continue  # it has exited, between the moments
            worker = job.workers.get(sample.executor_id)
            for name in step.capacity if worker is None else [worker]:
                rows[name].append((submitted_s + sample.time_s, (job.app_id, sample.executor_id), sample))
    for worker, found in rows.items():
        for moment in _moments(sorted(found, key=lambda row: row[0])):
            quota, grant = math.fsum(r[2].quota for r in moment), math.fsum(r[2].grant for r in moment)
            yield WorkerLoad(worker, moment[0][0], quota, grant)


def above_capacity(step: StepRecord, samples: Mapping[str, Sequence[Sample]]) -> tuple[int, list[WorkerLoad]]:
    """Return the moments looked at, and those in which quotas or grants were more than their worker has."""
    all_loads = list(loads(step, samples))
    return len(all_loads), [one for one in all_loads if max(one.quota, one.grant) > step.capacity[one.worker] + SAME_CORES]


def _moments(
    rows: Sequence[tuple[float, tuple[str, str], Sample]],
) -> Iterator[list[tuple[float, tuple[str, str], Sample]]]:
    moment: list[tuple[float, tuple[str, str], Sample]] = []
    for row in rows:
        # The same executor twice is the next moment, however close.
        if moment and (row[0] - moment[0][0] > TOGETHER_S or row[1] in [r[1] for r in moment]):
            yield moment
            moment = []
        moment.append(row)
    if moment:
        yield moment


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that at least that share of the values does not exceed; nan without values."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else math.nan


# ---------------------------------------------------------------- conditions that every scenario has


def judged(goal: Goal, of: str) -> Condition:
    """Return the condition that the goal is met."""
    said = goal.not_measured if goal.measured is None else f"{goal.measured:.3f} {goal.unit}"
    return Condition(goal.goal, of, bool(goal.met), f"{said}, limit {goal.limit:g}, n={goal.n}")


def complete(data: Data, steps: Sequence[str]) -> Condition:
    missing = [name for name in steps if name not in data.done]
    there = f"{len(steps) - len(missing)} of {len(steps)} steps"
    detail = there + (f"; missing {first_names(missing)}" if missing else "")
    return Condition("every step was run", "all", not missing, detail, always=True)


def first_names(names: Sequence[str]) -> str:
    """Return the first names as text, and the number of the others."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def answers_right(steps: Iterable[StepRecord]) -> list[Condition]:
    """Return a condition for each step: each workload checks its own answer and ends with 0 only if it is right."""
    found = []
    for step in steps:
        wrong = [f"{job.job} ended with {job.exit_code}" for job in step.jobs if job.exit_code != 0]
        detail = ", ".join(wrong) or f"n={len(step.jobs)}"
        found.append(Condition("every answer is right", step.step, not wrong, detail, always=True))
    return found


def within_capacity(steps: Iterable[StepRecord], data: Data) -> list[Condition]:
    found = []
    for step in steps:
        looked, above = above_capacity(step, data.samples)
        unknown = [f"{j.job}/{e}" for j in step.jobs for e in _executors(data, j) if e not in j.workers]
        detail = f"{len(above)} of {looked} moments above"
        if above:
            worst = max(above, key=lambda one: max(one.quota, one.grant) - step.capacity[one.worker])
            detail += f", {max(worst.quota, worst.grant):.2f} of {step.capacity[worst.worker]:.2f} cores on {worst.worker}"
        if unknown:
            detail += f"; worker unknown of {', '.join(unknown)}"
        holds = looked > 0 and not above and not unknown
        found.append(Condition("quotas never above capacity", step.step, holds, detail, always=True))
    return found


def _executors(data: Data, job: JobRecord) -> list[str]:
    return sorted({sample.executor_id for sample in data.samples.get(job.app_id, ())})
