"""Policies of placement on real Spark: the same jobs at the same times on unlike workers, under each policy in turn.

First each kind runs by itself, which teaches its profile. Then, repetition by repetition, all jobs come under every policy;
arrivals are drawn by seed and repetition, so policies meet the same arrivals. Resource-aware policies are compared with
random.
"""

from __future__ import annotations

import statistics
from collections import Counter

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Order, StepRecord, answers_right, complete, within_capacity
from experiments.scenarios.mixed import arrivals, no_executor_lost

COLUMNS = (
    *("policy", "job", "n", "alone s", "mean time s", "sd", "least", "most", "against random %"),
    "executors by worker",
)
RANDOM = "random"


class PlacedWorkload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A workload: its words, the number of its jobs and of their executors; `stretch`: its deadline in times alone (None: no
    deadline)."""

    words: tuple[str, ...]
    count: int = 1
    executors: int = 1
    stretch: float | None = None
    priority: str = "normal"


class Placement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arrivals are drawn evenly from [0, `arrivals_s`]. `aware` are the policies that are to be no slower than random."""

    kinds: dict[str, PlacedWorkload]
    policies: tuple[str, ...]
    aware: tuple[str, ...]
    arrivals_s: float
    repetitions: int = 3
    options: tuple[str, ...] = ()
    seed: int = 1

    def steps(self) -> list[str]:
        return [
            *(f"base-{kind}-0" for kind in self.kinds),
            *(f"{policy}-{number}" for number in range(self.repetitions) for policy in self._turn(number)),
        ]

    def _turn(self, number: int) -> list[str]:
        """Return the policies in order: each repetition begins with another policy, so that no policy always has the
        machine's first minutes."""
        return [self.policies[(index + number) % len(self.policies)] for index in range(len(self.policies))]

    def orders(self, step: str, data: Data) -> list[Order]:
        what, _, number = step.rpartition("-")
        if what.startswith("base-"):
            kind = what.removeprefix("base-")
            return [Order(kind, self.kinds[kind].words, options=self.options)]
        return [self._order(kind, place, delay_s, what, data) for kind, place, delay_s in self.arrivals(int(number))]

    def arrivals(self, repetition: int) -> list[tuple[str, int, float]]:
        """Return the kind, number within its kind and arrival of every job, in order of arrival."""
        return arrivals({name: kind.count for name, kind in self.kinds.items()}, self.arrivals_s, self.seed, repetition)

    def _order(self, kind: str, place: int, delay_s: float, policy: str, data: Data) -> Order:
        what = self.kinds[kind]
        deadline_s = None if what.stretch is None else what.stretch * self._alone_s(kind, data)
        words = ("--num-executors", str(what.executors), "--conf", f"spark.pace.placement.policy={policy}")
        return Order(f"{kind}-{place}", what.words, deadline_s, what.priority, delay_s, (*self.options, *words))

    def _alone_s(self, kind: str, data: Data) -> float:
        return float(data.steps[f"base-{kind}-0"].job(kind).summary["end_s"])

    # ------------------------------------------------------------------ findings

    def conditions(self, data: Data) -> list[Condition]:
        steps = [step for policy in self.policies for step in data.starting(f"{policy}-")]
        return [
            complete(data, self.steps()),
            *(c for policy in self.aware if (c := self._no_slower(policy, data)) is not None),
            *(no_executor_lost(step) for step in steps),
            *within_capacity(steps, data),
            *answers_right(data.steps.values()),
        ]

    def _no_slower(self, policy: str, data: Data) -> Condition | None:
        """Return the condition on the mean time of all jobs, repetition by repetition, against random's: slower by no more
        than repetitions differ."""
        ratios = self._ratios(policy, data)
        if not ratios:
            return None
        mean, noise = statistics.fmean(ratios), statistics.pstdev(ratios)
        said = f"{100 * (mean - 1):+.1f}% (sd {100 * noise:.1f}), n={len(ratios)}"
        return Condition("jobs take no longer than under random", policy, mean <= 1 + noise, said)

    def _ratios(self, policy: str, data: Data) -> list[float]:
        pairs = zip(data.starting(f"{policy}-"), data.starting(f"{RANDOM}-"), strict=False)
        return [mean_s(mine) / mean_s(other) for mine, other in pairs]

    def tables(self, data: Data) -> str:
        lines = []
        for policy in self.policies:
            steps = data.starting(f"{policy}-")
            for kind in self.kinds:
                times = [
                    float(job.summary["end_s"]) for step in steps for job in step.jobs if job.job.rpartition("-")[0] == kind
                ]
                if times:
                    lines.append(
                        (
                            *(policy, kind, len(times), f"{self._alone_s(kind, data):.1f}", f"{statistics.fmean(times):.1f}"),
                            *(f"{statistics.pstdev(times):.1f}", f"{min(times):.1f}", f"{max(times):.1f}", "", ""),
                        )
                    )
            if steps:
                where = Counter(worker for step in steps for job in step.jobs for worker in job.workers.values())
                means, ratios = [mean_s(step) for step in steps], self._ratios(policy, data)
                lines.append(
                    (
                        *(
                            policy,
                            "**all**",
                            len(steps),
                            "",
                            f"{statistics.fmean(means):.1f}",
                            f"{statistics.pstdev(means):.1f}",
                        ),
                        *(f"{min(means):.1f}", f"{max(means):.1f}"),
                        f"{100 * (statistics.fmean(ratios) - 1):+.1f}" if ratios else "-",
                        ", ".join(f"{name} {count}" for name, count in sorted(where.items())),
                    )
                )
        about = "Of all: n repetitions, the mean time of a repetition's jobs."
        return "\n".join([about, "", *table(COLUMNS, lines)])

    def pictures(self, data: Data) -> dict[str, list[str]]:
        return {
            f"{policy}-0": [job.app_id for job in steps[0].jobs]
            for policy in self.policies
            if (steps := data.starting(f"{policy}-"))
        }


def mean_s(step: StepRecord) -> float:
    """Return the mean time of a step's jobs."""
    return statistics.fmean(float(job.summary["end_s"]) for job in step.jobs)
