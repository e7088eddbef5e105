"""The paper's Fig. 4: a short job of high priority arrives while a long one of low priority runs.

First both run by themselves (base: their time on all cores). Then, `repetitions` times, the long one gets its stretched
deadline, and the short one arrives after a share of that, with its own. `conditions` says what must hold.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import (
    Condition,
    Data,
    Order,
    StepRecord,
    answers_right,
    complete,
    mean_grant,
    time_of_share,
    used_core_s,
    within_capacity,
)

LONG, SHORT = "long", "short"
COLUMNS = (
    *("run", "n", "short: deadline s", "end s", "error %", "long: deadline s", "end s", "error %"),
    *("long: mean cores before", "during", "after", "withheld core-s", "debt left core-s", "lost executors", "failed tasks"),
)


class Fig4(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`arrival`: when the short job comes, as a share of the long one's deadline; stretches multiply the time alone.
    Nothing here is drawn at random: `seed` is kept because every experiment has one."""

    long: tuple[str, ...]
    short: tuple[str, ...]
    repetitions: int = 3
    bases: int = 2
    long_stretch: float = 2.0
    short_stretch: float = 1.2
    arrival: float = 1 / 3
    options: tuple[str, ...] = ()
    seed: int = 1

    def steps(self) -> list[str]:
        bases = [f"base-{job}-{number}" for job in (LONG, SHORT) for number in range(self.bases)]
        return [*bases, *(f"both-{number}" for number in range(self.repetitions))]

    def orders(self, step: str, data: Data) -> list[Order]:
        words = {LONG: self.long, SHORT: self.short}
        if step.startswith("base-"):
            job = step.split("-")[1]
            return [Order(job, words[job], options=self.options)]
        long_s = self.long_stretch * job_base_s(data, LONG)
        short_s = self.short_stretch * job_base_s(data, SHORT)
        return [
            Order(LONG, self.long, long_s, "low", options=self.options),
            Order(SHORT, self.short, short_s, "high", self.arrival * long_s, self.options),
        ]

    def conditions(self, data: Data) -> list[Condition]:
        both = data.starting("both-")
        bases = data.starting(f"base-{LONG}-")
        per_run = [
            condition
            for step in both
            for condition in (
                short_in_time(step),
                long_lost_nothing(step),
                long_made_up_for(step, data),
                long_in_time(step, bases, data),
            )
        ]
        return [complete(data, self.steps()), *per_run, *within_capacity(both, data), *answers_right(data.steps.values())]

    def tables(self, data: Data) -> str:
        both = data.starting("both-")
        rows = []
        for step in both:
            long, short = step.job(LONG).summary, step.job(SHORT).summary
            numbers = [*long_cores(step, data), long.get("withheld_core_s"), long.get("debt_core_s")]
            ends = (_ended(job) for job in (short, long))
            kept = (long["executors_lost"], long["tasks_failed"])
            rows.append((step.step, 1, *(cell for end in ends for cell in end), *map(_shown, numbers), *kept))
        lines = table(COLUMNS, rows)
        if both:
            lines += _errors({job: [step.job(job).summary["error_pct"] for step in both] for job in (LONG, SHORT)})
        alone = []
        for job in (LONG, SHORT):
            ends_s = [step.job(job).summary["end_s"] for step in data.starting(f"base-{job}-")]
            if ends_s:
                times = (f"{seconds:.1f}" for seconds in (statistics.median(ends_s), min(ends_s), max(ends_s)))
                alone.append((job, len(ends_s), *times))
        return "\n".join(lines + table(("alone on all cores", "n", "seconds, median", "least", "most"), alone))

    def pictures(self, data: Data) -> dict[str, list[str]]:
        return {f"fig4-{number}": [job.app_id for job in step.jobs] for number, step in enumerate(data.starting("both-"))}


def job_base_s(data: Data, job: str) -> float:
    """Return the seconds of the job by itself on all cores, the median of the base runs."""
    return float(statistics.median(step.job(job).summary["end_s"] for step in data.starting(f"base-{job}-")))


def short_in_time(step: StepRecord) -> Condition:
    short = step.job(SHORT).summary
    detail = f"{short['end_s']:.1f} s of {short['deadline_s']:.1f} s ({short['error_pct']:+.2f}%)"
    return Condition("the short job ends by its deadline", step.step, short["violated"] is False, detail)


def long_lost_nothing(step: StepRecord) -> Condition:
    lost, failed = (step.job(LONG).summary[key] for key in ("executors_lost", "tasks_failed"))
    detail = f"{lost} executors lost, {failed} tasks failed"
    return Condition("the long job loses no executor and no task", step.step, (lost, failed) == (0, 0), detail)


def long_cores(step: StepRecord, data: Data) -> tuple[float | None, float | None, float | None]:
    """Return the mean cores granted to the long job before the short one came, while it was there, and after it had ended."""
    long = step.job(LONG)
    samples = data.samples.get(long.app_id, ())
    came_s, went_s = presence_s(step)
    first_s, last_s = long.summary["first_task_s"], long.summary["last_task_s"]
    spans = ((first_s, came_s), (came_s, min(went_s, last_s)), (went_s, last_s))
    before, during, after = (mean_grant(samples, *span) for span in spans)
    return before, during, after


def presence_s(step: StepRecord) -> tuple[float, float]:
    """Return when the short job came and went, in seconds since the long one's submission."""
    long, short = step.job(LONG).summary, step.job(SHORT).summary
    came_s = short["submitted_epoch_s"] - long["submitted_epoch_s"]
    return came_s, came_s + short["end_s"]


def long_made_up_for(step: StepRecord, data: Data) -> Condition:
    before, _, after = long_cores(step, data)
    holds = before is not None and after is not None and after > before
    detail = f"{_shown(before)} cores before, {_shown(after)} after"
    return Condition("the long job is granted more after than before", step.step, holds, detail)


def long_in_time(step: StepRecord, bases: list[StepRecord], data: Data) -> Condition:
    """Return the condition on the long job. Feasible: from the short job's end on, all cores would have been enough, as fast
    as the long one runs alone."""
    name = "the long job ends by its deadline, when that is feasible"
    long = step.job(LONG).summary
    earliest_s = earliest_end_s(step, bases, data)
    if earliest_s is None:
        return Condition(name, step.step, False, "no samples tell whether it was feasible")
    detail = f"{long['end_s']:.1f} s of {long['deadline_s']:.1f} s ({long['error_pct']:+.2f}%), earliest {earliest_s:.1f} s"
    if earliest_s > long["deadline_s"]:
        return Condition(name, step.step, True, f"{detail}: not feasible")
    return Condition(name, step.step, long["violated"] is False, detail)


def earliest_end_s(step: StepRecord, bases: list[StepRecord], data: Data) -> float | None:
    """Return when the long job could have ended with all cores from the short one's end on: the base runs had done at some
    moment what the job had done by then, measured in CPU; their time from there is what the job still needed."""
    samples = data.samples.get(step.job(LONG).app_id, ())
    alone = [base.job(LONG) for base in bases if data.samples.get(base.job(LONG).app_id)]
    total = used_core_s(samples)
    if not alone or total <= 0:
        return None
    went_s = presence_s(step)[1]
    share = used_core_s(samples, went_s) / total
    rests = [run.summary["end_s"] - time_of_share(data.samples[run.app_id], share) for run in alone]
    return went_s + float(statistics.median(rests))


def _errors(errors: dict[str, list[float]]) -> list[str]:
    rows = (
        (job, len(found), *(f"{error:+.2f}" for error in (statistics.fmean(found), min(found), max(found))))
        for job, found in errors.items()
    )
    return table(("deadline error of all runs", "n", "mean %", "least", "most"), rows)


def _ended(summary: Mapping[str, Any]) -> tuple[str, str, str]:
    return f"{summary['deadline_s']:.1f}", f"{summary['end_s']:.1f}", f"{summary['error_pct']:+.2f}"


def _shown(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"
