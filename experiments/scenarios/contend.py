"""Document 002's forecast on real Spark: jobs contend for the hosts that have their input, and wait for one of them
or never wait.

First each kind runs by itself, which teaches its profile; all forecasts are from only these runs. Then, repetition by
repetition, the same jobs come at the same times, once with the forecast and once without waiting. Each worker has room for
one executor, and each job has one. A wait says how many workers with the input were expected to become free within the time
that moving the input takes. That number is compared with the number of workers on which an executor of another job ended
within this time.

The conditions follow from the formula. It waits from an expectation of one worker on. If workers become free by chance,
one comes in time in 1 - 1/e of the cases at least, and their number is within two standard deviations of what was expected.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import (
    Condition,
    Data,
    JobRecord,
    Order,
    StepRecord,
    Taught,
    answers_right,
    complete,
    kind_of,
    within_capacity,
)
from experiments.scenarios.mixed import arrivals, no_executor_lost
from experiments.scenarios.placement import mean_s
from placement.data_wait import WORTH, DataWait

FORECAST, NONE = "forecast", "none"
"""The two ways to wait, values of `spark.pace.locality.wait`."""
LEAST_SHARE = 1 - math.exp(-WORTH)
"""Share of waits in which a worker comes in time, if workers come by chance and no more of them than waiting is worth."""
WAITS = ("step", "job", "n", "expected", "within s", "came", "waited s", "got one", "took s", "took without waiting s")
WAYS = ("wait", "kind", "n", "alone s", "mean time s", "sd", "least", "most", "local tasks %")


class ContendingWorkload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workload: its words, of which the last is its input, and the number of its jobs."""

    words: tuple[str, ...]
    count: int = 1

    @property
    def options(self) -> tuple[str, ...]:
        return ("--conf", f"spark.pace.placement.input={self.words[-1]}")


@dataclass(frozen=True, slots=True)
class ComparedWait:
    """A job's wait, and the number of workers with its input that became free within the time of the forecast."""

    step: StepRecord
    job: JobRecord
    wait: DataWait
    came: int


class Contend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arrivals are drawn evenly from [0, `arrivals_s`]. `with_data`: workers on the hosts of the input; `waits`: the least
    number of waits that shows anything."""

    kinds: dict[str, ContendingWorkload]
    with_data: tuple[str, ...]
    arrivals_s: float
    waits: int
    options: tuple[str, ...] = ()
    repetitions: int = 3
    seed: int = 1

    def steps(self) -> list[str]:
        turns = [(FORECAST, NONE) if number % 2 == 0 else (NONE, FORECAST) for number in range(self.repetitions)]
        return [
            *(f"base-{kind}-0" for kind in self.kinds),
            *(f"{way}-{number}" for number, turn in enumerate(turns) for way in turn),
        ]

    def orders(self, step: str, data: Data) -> list[Order]:
        what, _, number = step.rpartition("-")
        if what.startswith("base-"):
            kind = what.removeprefix("base-")
            return [Order(kind, self.kinds[kind].words, options=(*self.options, *self.kinds[kind].options))]
        counts = {kind: workload.count for kind, workload in self.kinds.items()}
        coming = arrivals(counts, self.arrivals_s, self.seed, int(number))
        return [self._order(kind, place, delay_s, what, data) for kind, place, delay_s in coming]

    def _order(self, kind: str, place: int, delay_s: float, way: str, data: Data) -> Order:
        workload = self.kinds[kind]
        return Order(
            f"{kind}-{place}",
            workload.words,
            delay_s=delay_s,
            options=(*self.options, *workload.options, "--conf", f"spark.pace.locality.wait={way}"),
            profile=Taught((self._base(kind, data).app_id,)),
        )

    def _base(self, kind: str, data: Data) -> JobRecord:
        return data.steps[f"base-{kind}-0"].job(kind)

    # ------------------------------------------------------------------ findings

    def conditions(self, data: Data) -> list[Condition]:
        steps = [step for way in (FORECAST, NONE) for step in data.starting(f"{way}-")]
        waits = self.compared(data)
        there = f"n={len(waits)}, wanted {self.waits}"
        return [
            complete(data, self.steps()),
            Condition("jobs wait for a worker with their input", "waits", len(waits) >= self.waits, there),
            *(_as_forecast(waits) if waits else []),
            *self._against_none(data),
            *(no_executor_lost(step) for step in steps),
            *within_capacity(steps, data),
            *answers_right(data.steps.values()),
        ]

    def compared(self, data: Data) -> list[ComparedWait]:
        """Return the waits of all repetitions with the forecast."""
        return [one for step in data.starting(f"{FORECAST}-") for one in compared_waits(step, self.with_data)]

    def _against_none(self, data: Data) -> list[Condition]:
        pairs = self._pairs(data)
        if not pairs:
            return []
        ratios = [mean_s(mine) / mean_s(other) for mine, other in pairs]
        points = [100 * (_local_share(mine.jobs, data) - _local_share(other.jobs, data)) for mine, other in pairs]
        faster, more = statistics.fmean(ratios), statistics.fmean(points)
        said = f"{100 * (faster - 1):+.1f}% (sd {100 * statistics.pstdev(ratios):.1f}), n={len(pairs)}"
        said_more = f"{more:+.1f} points (sd {statistics.pstdev(points):.1f}), n={len(pairs)}"
        return [
            Condition("jobs take less time than without waiting", "jobs", faster < 1, said),
            Condition("more tasks are local than without waiting", "tasks", more > 0, said_more),
        ]

    def _pairs(self, data: Data) -> list[tuple[StepRecord, StepRecord]]:
        """Return the steps of both ways, repetition by repetition."""
        names = [(f"{FORECAST}-{number}", f"{NONE}-{number}") for number in range(self.repetitions)]
        return [(data.steps[mine], data.steps[other]) for mine, other in names if data.steps.keys() >= {mine, other}]

    def tables(self, data: Data) -> str:
        about = (
            "Expected: workers with the input that were to become free within that time of the wait's beginning; came: those "
            "that did. Local tasks: by Spark's count."
        )
        waits = self.compared(data)
        rows = [self._wait_row(one, data) for one in waits]
        if waits:
            expected, came = _totals(waits)
            got = sum(bool(one.wait.local) for one in waits)
            rows.append(("**all**", "", len(waits), f"{expected:.2f}", "", came, "", f"{got} of {len(waits)}", "", ""))
        return "\n".join([about, "", *table(WAITS, rows), *table(WAYS, self._way_rows(data))])

    def _wait_row(self, one: ComparedWait, data: Data) -> tuple[object, ...]:
        other = data.steps.get(one.step.step.replace(FORECAST, NONE))
        return (
            *(one.step.step, one.job.job, 1, f"{one.wait.expected:.2f}", f"{one.wait.move_s:.0f}", one.came),
            *(f"{one.wait.waited_s:.1f}", "yes" if one.wait.local else "no", f"{_took_s(one.job):.1f}"),
            "-" if other is None else f"{_took_s(other.job(one.job.job)):.1f}",
        )

    def _way_rows(self, data: Data) -> Iterator[tuple[object, ...]]:
        for way in (FORECAST, NONE):
            for kind in self.kinds:
                jobs = [job for step in data.starting(f"{way}-") for job in step.jobs if kind_of(job.job) == kind]
                if jobs:
                    times = [_took_s(job) for job in jobs]
                    yield (
                        *(way, kind, len(jobs), f"{_took_s(self._base(kind, data)):.1f}", f"{statistics.fmean(times):.1f}"),
                        *(f"{statistics.pstdev(times):.1f}", f"{min(times):.1f}", f"{max(times):.1f}"),
                        f"{100 * _local_share(jobs, data):.0f}",
                    )

    def pictures(self, data: Data) -> dict[str, list[str]]:
        return {f"{FORECAST}-0": [job.app_id for step in data.starting(f"{FORECAST}-")[:1] for job in step.jobs]}


def _as_forecast(waits: Sequence[ComparedWait]) -> list[Condition]:
    """Return the conditions on what came of the waits (never empty)."""
    share = statistics.fmean(one.came > 0 for one in waits)
    expected, came = _totals(waits)
    allowed = 2 * math.sqrt(expected)
    return [
        Condition(
            f"a worker with the input comes in time in {100 * LEAST_SHARE:.0f}% of the waits",
            "waits",
            share >= LEAST_SHARE,
            f"{100 * share:.0f}%, n={len(waits)}",
        ),
        Condition(
            "as many workers come as were expected, within two standard deviations of chance",
            "waits",
            abs(came - expected) <= allowed,
            f"{came} came, {expected:.2f} were expected, allowed difference {allowed:.2f}, n={len(waits)}",
        ),
    ]


def _totals(waits: Sequence[ComparedWait]) -> tuple[float, int]:
    """Return the sums of the workers that were expected and of those that came."""
    return math.fsum(one.wait.expected for one in waits), sum(one.came for one in waits)


def compared_waits(step: StepRecord, with_data: Collection[str]) -> list[ComparedWait]:
    """Return the waits of a step's jobs, with what came of each."""
    found = []
    for job in step.jobs:
        for wait in msgspec.convert(job.summary["data_waits"], type=list[DataWait]):
            from_s = float(job.summary["submitted_epoch_s"]) + wait.from_s
            others = [other for other in step.jobs if other.job != job.job]
            ended = [_ended_epoch_s(other) for other in others for worker in other.workers.values() if worker in with_data]
            found.append(ComparedWait(step, job, wait, sum(from_s < end_s <= from_s + wait.move_s for end_s in ended)))
    return found


def _took_s(job: JobRecord) -> float:
    return float(job.summary["end_s"])


def _ended_epoch_s(job: JobRecord) -> float:
    """Return when the job ended, and with it its executors."""
    return float(job.summary["submitted_epoch_s"]) + _took_s(job)


def _local_share(jobs: Iterable[JobRecord], data: Data) -> float:
    """Return the share of the jobs' tasks that ran on a host of their data, as each job printed it; a job that failed printed
    nothing."""
    local = tasks = 0
    for job in jobs:
        printed = [line for line in data.outputs[job.app_id].splitlines() if line.startswith("{")]
        near = json.loads(printed[0])["near"] if printed else {}
        local, tasks = local + near.get("NODE_LOCAL", 0), tasks + sum(near.values())
    return local / tasks if tasks else 0.0
