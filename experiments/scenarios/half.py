"""Twelve jobs of a morning on stock Spark as people run it today and on Sparkpace: their lateness, and what they reserve.

Stock Spark is a standalone cluster with dynamic allocation, and executors of one size. Base: each job by itself on all
Workers; that time, stretched, is its deadline. Size: the number of executors is chosen for each job as an operator chooses
it, the least with which it ends in time by itself. Learn: each job by itself on Sparkpace without a deadline.
Then the mornings, in which the sides take turns. Sparkpace adopts executors of the same size on the same kind of cluster, and
a job has the same options and the same number of executors on each side.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import (
    Condition,
    Data,
    Goal,
    JobRecord,
    Order,
    StepRecord,
    Taught,
    answers_right,
    complete,
    judged,
    within_capacity,
)
from experiments.harness.reserved import CoreCourse, course_of
from experiments.scenarios.half_goals import (
    HALF,
    LESS,
    OURS,
    SIDES,
    STOCK,
    HalfLimits,
    Morning,
    MorningJob,
    morning_goals,
    needs_all,
    reserved_ratios,
)
from stage_model.errors import BadInput

FULL = "full"
"""The cluster of the side `OURS`, and of what Sparkpace learns."""
JOBS = ("job", "kind", "executors", "arrives s", "alone on all s", "deadline s", *(f"{side}: mean error %" for side in SIDES))
MORNINGS = ("morning", "n", "late", "late s", "reserved core-s", "used core-s", "used / reserved", "most cores", "seconds")
TOGETHER = ("side", "n", "jobs late", "reserved core-s", "used core-s", "reserved / stock", "least", "most")


class HalfJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A job: its words, and its deadline as a multiple of its time by itself on all Workers of stock Spark. `among`: bounds
    of the search for the least number of executors that keeps this deadline; None: 1 and all Workers."""

    kind: str
    words: tuple[str, ...]
    stretch: float
    among: tuple[int, int] | None = None


class Half(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`jobs` in the order of their arrival. Stock Spark has `workers`, each with one slot of `slot_cores`. The morning is as
    long as jobs need to reserve the share `filled` of these cores. `options`: of every job. `less`: mornings on
    stock Spark with a Worker less. Nothing is drawn at random here: `seed` is kept because every experiment has one."""

    jobs: dict[str, HalfJob]
    workers: int = 4
    slot_cores: float = 0.4
    filled: float = 0.6
    less: int = 1
    repetitions: int = 3
    limits: HalfLimits = HalfLimits()
    options: tuple[str, ...] = ()
    seed: int = 1

    # ------------------------------------------------------------------ steps

    def steps(self) -> list[str]:
        turns = [SIDES if number % 2 == 0 else SIDES[::-1] for number in range(self.repetitions)]
        return [
            *(f"base-{job}-0" for job in self.jobs),
            *(f"size-{job}-{attempt}" for job in self.jobs for attempt in range(self.attempts(job))),
            *(f"learn-{job}-0" for job in self.jobs),
            *(f"{side}-{number}" for number, sides in enumerate(turns) for side in sides),
            *(f"{LESS}-{number}" for number in range(self.less)),
        ]

    def among(self, job: str) -> tuple[int, int]:
        return self.jobs[job].among or (1, self.workers)

    def attempts(self, job: str) -> int:
        """Return how many runs find the number of executors of a job; 0 where the bounds leave one number."""
        least, most = self.among(job)
        return math.ceil(math.log2(most - least + 1))

    def orders(self, step: str, data: Data) -> list[Order]:
        what, _, number = step.rpartition("-")
        if what in (*SIDES, LESS):
            return [self._morning(what, job, delay_s, data) for job, delay_s in self._arrivals(data).items()]
        kind, _, job = what.partition("-")
        if kind == "learn":
            return [self._paced(job, FULL, data)]
        return [self._stock(job, self.workers if kind == "base" else self._range(job, int(number), data)[2], self.workers)]

    def _stock(self, job: str, executors: int, workers: int, delay_s: float = 0.0) -> Order:
        return Order(
            job,
            self.jobs[job].words,
            delay_s=delay_s,
            options=(*self.options, *_at_most(executors)),
            stock=True,
            stock_cores=workers * self.slot_cores,
            stock_workers=workers,
            stock_executors=executors,
        )

    def _paced(self, job: str, cluster: str, data: Data) -> Order:
        """Return the order of a job by itself, without a deadline."""
        executors = self._executors(job, data)
        options = (*self.options, *_at_most(executors), "--conf", f"spark.cores.max={executors}")
        return Order(job, self.jobs[job].words, options=options, cluster=cluster)

    def _morning(self, side: str, job: str, delay_s: float, data: Data) -> Order:
        if side in (STOCK, LESS):
            workers = self.workers - (side == LESS)
            return self._stock(job, min(workers, self._executors(job, data)), workers, delay_s)
        taught = Taught((_only(data, f"learn-{job}-0").app_id,))
        order = self._paced(job, HALF if side == HALF else FULL, data)
        return replace(order, deadline_s=self._deadline_s(job, data), delay_s=delay_s, profile=taught)

    # ------------------------------------------------------------------ what the first steps fix

    def _deadline_s(self, job: str, data: Data) -> float:
        return self.jobs[job].stretch * float(_only(data, f"base-{job}-0").summary["end_s"])

    def _range(self, job: str, attempts: int, data: Data) -> tuple[int, int, int]:
        """Return the least and the largest number of executors that may be the right one after this number of attempts, and
        the number to try next. The largest is enough without a run."""
        least, most = self.among(job)
        for attempt in range(attempts):
            tried = (least + most) // 2
            end_s = float(_only(data, f"size-{job}-{attempt}").summary["end_s"])
            least, most = (least, tried) if end_s <= self._deadline_s(job, data) else (min(tried + 1, most), most)
        return least, most, (least + most) // 2

    def _executors(self, job: str, data: Data) -> int:
        return self._range(job, self.attempts(job), data)[1]

    def _arrivals(self, data: Data) -> dict[str, float]:
        """Return the second of each job's arrival: all gaps are equal. How long a job needs by itself with its number of
        executors is what it took when Sparkpace learned."""
        core_s = math.fsum(
            self._executors(job, data) * self.slot_cores * float(_only(data, f"learn-{job}-0").summary["end_s"])
            for job in self.jobs
        )
        gap_s = core_s / (self.filled * self.workers * self.slot_cores) / len(self.jobs)
        return {job: round(place * gap_s, 3) for place, job in enumerate(self.jobs)}

    # ------------------------------------------------------------------ findings

    def mornings(self, data: Data) -> list[Morning]:
        """Return the mornings so far, side by side."""
        return [
            Morning(side, int(step.step.rpartition("-")[2]), tuple(self._jobs(step, data)), self._course(step, side, data))
            for side in (*SIDES, LESS)
            for step in data.starting(f"{side}-")
        ]

    def _jobs(self, step: StepRecord, data: Data) -> Iterator[MorningJob]:
        for job in step.jobs:
            yield MorningJob(job.job, self._deadline_s(job.job, data), float(job.summary["end_s"]), job.exit_code != 0)

    def _course(self, step: StepRecord, side: str, data: Data) -> CoreCourse:
        return course_of(step, self.slot_cores, None if side in (STOCK, LESS) else data.samples)

    def conditions(self, data: Data) -> list[Condition]:
        mornings = self.mornings(data)
        paced = [step for side in (OURS, HALF) for step in data.starting(f"{side}-")]
        return [
            complete(data, self.steps()),
            *(judged(goal, "mornings") for goal in self.goals(data)),
            *needs_all(mornings, self.limits),
            *self._bounds_hold(data),
            *within_capacity(paced, data),
            *answers_right(data.steps.values()),
        ]

    def _bounds_hold(self, data: Data) -> Iterator[Condition]:
        """Yield the condition that no job was given a bound that its base run does not bear out: fewer executors, with all
        of their cores until the deadline, could not have done the CPU work of that run."""
        bounded = [job for job in self.jobs if self.among(job)[0] > 1 and f"base-{job}-0" in data.steps]
        if not bounded:
            return
        needed = {
            job: course_of(data.steps[f"base-{job}-0"], self.slot_cores, None).used_core_s
            / (self.slot_cores * self._deadline_s(job, data))
            for job in bounded
        }
        wrong = [f"{job} (its CPU needs {needed[job]:.2f})" for job in bounded if needed[job] <= self.among(job)[0] - 1]
        said = f"not of {', '.join(wrong)}" if wrong else f"n={len(bounded)}"
        yield Condition("no fewer executors could keep the deadline than were tried", "sizes", not wrong, said)

    def goals(self, data: Data) -> list[Goal]:
        mornings = self.mornings(data)
        return morning_goals(mornings, self.limits) if mornings else []

    def tables(self, data: Data) -> str:
        mornings = self.mornings(data)
        about = (
            f"Late: more than {self.limits.late_pct:g}% of the deadline after it, or failed. Reserved: on stock Spark "
            f"{self.slot_cores:g} core of each executor from its launch to its end, on Sparkpace its quota. Used: CPU of the "
            "Workers' control groups."
        )
        return "\n".join(
            [
                *(about, "", *table(TOGETHER, self._together(mornings))),
                *table(MORNINGS, map(self._morning_row, mornings)),
                *table(JOBS, self._job_rows(mornings, data)),
            ]
        )

    def _together(self, mornings: Sequence[Morning]) -> Iterator[tuple[object, ...]]:
        for side in (*SIDES, LESS):
            if found := [morning for morning in mornings if morning.side == side]:
                ratios = reserved_ratios(mornings, side)
                figures = (statistics.fmean(ratios), min(ratios), max(ratios)) if ratios else None
                yield (
                    *(side, len(found), f"{statistics.fmean(len(one.late(self.limits)) for one in found):.2f}"),
                    f"{statistics.fmean(one.course.reserved_core_s for one in found):.1f}",
                    f"{statistics.fmean(one.course.used_core_s for one in found):.1f}",
                    *(("-", "-", "-") if figures is None else (f"{figure:.3f}" for figure in figures)),
                )

    def _morning_row(self, one: Morning) -> tuple[object, ...]:
        reserved, used = one.course.reserved_core_s, one.course.used_core_s
        return (
            *(f"{one.side}-{one.number}", len(one.jobs), len(one.late(self.limits)), f"{one.late_s(self.limits):.1f}"),
            *(f"{reserved:.1f}", f"{used:.1f}", f"{used / reserved:.3f}" if reserved else "-"),
            f"{one.course.most_cores:.2f}",
            f"{one.course.spans[-1].to_s:.0f}" if one.course.spans else "-",
        )

    def _job_rows(self, mornings: Sequence[Morning], data: Data) -> Iterator[tuple[object, ...]]:
        if not data.done.issuperset(step for step in self.steps() if step.startswith(("base-", "size-", "learn-"))):
            return
        for job, arrives_s in self._arrivals(data).items():
            alone_s = float(_only(data, f"base-{job}-0").summary["end_s"])
            yield (
                *(job, self.jobs[job].kind, self._executors(job, data), f"{arrives_s:.0f}", f"{alone_s:.1f}"),
                *(f"{self._deadline_s(job, data):.1f}", *(_mean_error(mornings, side, job) for side in SIDES)),
            )

    def pictures(self, data: Data) -> dict[str, list[str]]:
        """Return the first morning of each side of Sparkpace, with its quotas job by job."""
        return {
            step.step: [job.app_id for job in step.jobs] for side in (OURS, HALF) for step in data.starting(f"{side}-")[:1]
        }

    def courses(self, data: Data) -> dict[str, dict[str, CoreCourse]]:
        first = [morning for morning in self.mornings(data) if morning.number == 0 and morning.side != LESS]
        found = {morning.side: morning.course for morning in first if morning.course.spans}
        return {"cores": found} if found else {}


def _at_most(executors: int) -> tuple[str, ...]:
    return ("--conf", f"spark.dynamicAllocation.maxExecutors={executors}")


def _only(data: Data, step: str) -> JobRecord:
    """Return the only job of a step. Raise `BadInput` for a step that has not run."""
    if step not in data.steps:
        raise BadInput(f"step {step} has not run, and what comes after it needs its time; run it first, as `--only` allows")
    return data.steps[step].jobs[0]


def _mean_error(mornings: Sequence[Morning], side: str, job: str) -> str:
    errors = [one.error_pct for morning in mornings if morning.side == side for one in morning.jobs if one.job == job]
    return f"{statistics.fmean(errors):+.2f}" if errors else "-"
