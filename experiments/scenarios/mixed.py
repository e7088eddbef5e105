"""Six jobs of three priorities that arrive at random: important ones end in time, whichever others are there.

First each kind runs by itself (base: its time on all cores). Then each kind of the highest priority runs by itself *with* its
deadline (pairs): the distances of these runs from their deadlines are the noise by which the mixed runs are judged. Then,
`repetitions` times, all jobs together. `conditions` says what must hold.
"""

from __future__ import annotations

import random
import statistics
from collections import Counter
from collections.abc import Mapping

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import (
    Condition,
    Data,
    JobRecord,
    Order,
    StepRecord,
    answers_right,
    complete,
    kind_of,
    within_capacity,
)
from stage_model.units import parse_priority

COLUMNS = (
    *("run", "job", "n", "priority", "arrival s", "deadline s", "end s", "error %", "violated", "withheld core-s"),
    "lost executors",
)


class MixedWorkload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workload: its words, the priority of its jobs, their deadline as a multiple of the time alone, their number."""

    words: tuple[str, ...]
    priority: str
    stretch: float
    count: int = 2


class Mixed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arrivals are drawn evenly from [0, `arrivals_s`], by `seed` and repetition; the first is moved to 0."""

    kinds: dict[str, MixedWorkload]
    arrivals_s: float
    repetitions: int = 1
    bases: int = 1
    pairs: int = 3
    options: tuple[str, ...] = ()
    seed: int = 1

    def steps(self) -> list[str]:
        bases = [f"base-{kind}-{number}" for kind in self.kinds for number in range(self.bases)]
        pairs = [f"pair-{kind}-{number}" for kind in self.highest() for number in range(self.pairs)]
        return [*bases, *pairs, *(f"mixed-{number}" for number in range(self.repetitions))]

    def highest(self) -> list[str]:
        """Return the kinds of the highest priority."""
        priorities = {name: parse_priority(kind.priority) for name, kind in self.kinds.items()}
        return [name for name, priority in priorities.items() if priority == max(priorities.values())]

    def orders(self, step: str, data: Data) -> list[Order]:
        what, _, number = step.rpartition("-")
        if what.startswith("base-"):
            kind = what.removeprefix("base-")
            return [Order(kind, self.kinds[kind].words, options=self.options)]
        if what.startswith("pair-"):
            return [self._order(what.removeprefix("pair-"), 0, 0.0, data)]
        return [self._order(kind, place, delay_s, data) for kind, place, delay_s in self.arrivals(int(number))]

    def arrivals(self, repetition: int) -> list[tuple[str, int, float]]:
        """Return the kind, number within its kind and arrival of every job, in order of arrival."""
        return arrivals({name: kind.count for name, kind in self.kinds.items()}, self.arrivals_s, self.seed, repetition)

    def _order(self, kind: str, place: int, delay_s: float, data: Data) -> Order:
        what = self.kinds[kind]
        ends = [step.job(kind).summary["end_s"] for step in data.starting(f"base-{kind}-")]
        deadline_s = what.stretch * float(statistics.median(ends))
        return Order(f"{kind}-{place}", what.words, deadline_s, what.priority, delay_s, self.options)

    # ------------------------------------------------------------------ findings

    def conditions(self, data: Data) -> list[Condition]:
        mixed = data.starting("mixed-")
        return [
            complete(data, self.steps()),
            *(self.in_time(step, job, data) for step in mixed for job in step.jobs if kind_of(job.job) in self.highest()),
            *(no_executor_lost(step) for step in mixed),
            *within_capacity(mixed, data),
            *answers_right(data.steps.values()),
        ]

    def in_time(self, step: StepRecord, job: JobRecord, data: Data) -> Condition:
        """Return the condition that the job is in time, or not later than the noise of the paired runs explains."""
        errors = self.paired_errors(kind_of(job.job), data)
        allowed = lateness_noise_pct(errors)
        error = job.summary["error_pct"]
        holds = job.summary["violated"] is False or (allowed is not None and error <= allowed)
        noise = "no paired runs" if allowed is None else f"noise of the paired runs {allowed:.2f}%, n={len(errors)}"
        return Condition(
            "no violation among the highest priority", f"{step.step} {job.job}", holds, f"{error:+.2f}%; {noise}"
        )

    def paired_errors(self, kind: str, data: Data) -> list[float]:
        return [step.jobs[0].summary["error_pct"] for step in data.starting(f"pair-{kind}-")]

    def tables(self, data: Data) -> str:
        rows = []
        for step in data.starting("mixed-"):
            first_s = min(job.summary["submitted_epoch_s"] for job in step.jobs)
            for job in sorted(step.jobs, key=lambda j: j.summary["submitted_epoch_s"]):
                s = job.summary
                withheld = s.get("withheld_core_s")
                rows.append(
                    (
                        *(step.step, job.job, 1, s["priority"], f"{s['submitted_epoch_s'] - first_s:.1f}"),
                        *(f"{s['deadline_s']:.1f}", f"{s['end_s']:.1f}", f"{s['error_pct']:+.2f}"),
                        *("yes" if s["violated"] else "no", "-" if withheld is None else f"{withheld:.1f}"),
                        s["executors_lost"],
                    )
                )
        by_priority = []
        jobs = [job.summary for step in data.starting("mixed-") for job in step.jobs]
        for priority in sorted({s["priority"] for s in jobs}, reverse=True):
            errors = [s["error_pct"] for s in jobs if s["priority"] == priority]
            violated = sum(s["violated"] for s in jobs if s["priority"] == priority)
            by_priority.append((priority, len(errors), violated, f"{statistics.fmean(errors):+.2f}", f"{max(errors):+.2f}"))
        alone = []
        for kind in self.highest():
            errors = self.paired_errors(kind, data)
            allowed = lateness_noise_pct(errors)
            if allowed is not None:
                alone.append((kind, len(errors), " ".join(f"{e:+.2f}" for e in errors), f"{allowed:.2f}"))
        lines = table(COLUMNS, rows)
        lines += table(("priority, all runs", "n", "violated", "mean error %", "worst"), by_priority)
        lines += table(("alone with the same deadline", "n", "errors %", "noise %"), alone)
        return "\n".join(lines)

    def pictures(self, data: Data) -> dict[str, list[str]]:
        return {f"mixed-{number}": [job.app_id for job in step.jobs] for number, step in enumerate(data.starting("mixed-"))}


def arrivals(counts: Mapping[str, int], span_s: float, seed: int, repetition: int) -> list[tuple[str, int, float]]:
    """Return the kind, number within its kind and arrival of `counts` jobs of each kind, in order of arrival: drawn evenly
    from [0, `span_s`], the first moved to 0."""
    # Seeded by a text: a repetition's draws do not depend on how many there are.
    rng = random.Random(f"{seed}/{repetition}")
    kinds = [name for name, count in counts.items() for _ in range(count)]
    rng.shuffle(kinds)
    times = sorted(rng.uniform(0, span_s) for _ in kinds)
    seen: Counter[str] = Counter()
    found = []
    for kind, time_s in zip(kinds, times, strict=True):
        found.append((kind, seen[kind], round(time_s - times[0], 3)))
        seen[kind] += 1
    return found


def lateness_noise_pct(errors: list[float]) -> float | None:
    """Return by how much a job may be late although nothing is wrong: as late as the latest paired run, or by as much as the
    paired runs differ from each other. None without paired runs."""
    return max(0.0, *errors, max(errors) - min(errors)) if errors else None


def no_executor_lost(step: StepRecord) -> Condition:
    lost = {job.job: job.summary["executors_lost"] for job in step.jobs if job.summary["executors_lost"]}
    detail = ", ".join(f"{job} lost {count}" for job, count in lost.items()) or f"none of {len(step.jobs)} jobs lost any"
    return Condition("no executor is lost", step.step, not lost, detail)
