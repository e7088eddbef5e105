"""The goals of the zoo, for each half by itself: arithmetic over its runs, tested on numbers worked out by hand.

Errors are percent of the deadline, negative is early. A goal of the mean error belongs to short deadlines or to long ones;
runs between them count in the other goals only.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from controller.wire.worker import Sample
from experiments.harness.recorded import Goal

OPEN, THROUGHOUT = 0.99, 0.95
"""An executor at work needed all cores of its worker when it asked for 99% of them. A run needed all cores throughout when
95% of the samples of its executors at work did, because the first second of a stage is planned before its tasks are seen."""


class ZooLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits. No run may be later than `late_pct` or `late_s`, whichever is more. At most `late_runs_pct` of the runs may be
    later than `on_time_pct`. The mean error is at most `short_error_pct` at deadlines below `short_s` and `long_error_pct`
    above `long_s`. No run that did not need all cores throughout may be earlier than `early_pct`. At least `long_programs`
    programs have deadlines above `long_s`."""

    late_pct: float = 2.0
    late_s: float = 2.0
    on_time_pct: float = 0.5
    late_runs_pct: float = 3.0
    short_s: float = 120.0
    short_error_pct: float = 2.5
    long_s: float = 300.0
    long_error_pct: float = 1.0
    long_programs: int = 6
    early_pct: float = 8.0


class PacedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run with a deadline. `all_cores`: it needed all cores throughout; `unequal`: how its answer differs from the unpaced
    run's, None if it does not; `said`: why it was late, as its own record says; `explained`: why it missed a goal, where
    someone wrote that down."""

    step: str
    half: str
    program: str
    kind: str
    test: str
    deadline_s: float
    end_s: float
    allocated_core_s: float
    used_core_s: float
    all_cores: bool = False
    failed: bool = False
    unequal: str | None = None
    said: str = ""
    explained: str = ""

    @property
    def late_s(self) -> float:
        return self.end_s - self.deadline_s

    @property
    def error_pct(self) -> float:
        return 100 * self.late_s / self.deadline_s

    def too_late(self, limits: ZooLimits) -> bool:
        return self.late_s > max(limits.late_pct / 100 * self.deadline_s, limits.late_s)

    def late(self, limits: ZooLimits) -> bool:
        return self.error_pct > limits.on_time_pct

    def too_early(self, limits: ZooLimits) -> bool:
        return -self.error_pct > limits.early_pct and not self.all_cores

    def misses(self, limits: ZooLimits) -> list[str]:
        """Return the misses for which this run needs an explanation; a run that failed has no time to judge."""
        if self.failed:
            return ["failed"]
        found = {
            "another answer": self.unequal is not None,
            "too late": self.too_late(limits),
            "late": self.late(limits) and not self.too_late(limits),
            "too early": self.too_early(limits),
        }
        return [name for name, missed in found.items() if missed]


def goals_of(half: str, every: Sequence[PacedRun], limits: ZooLimits) -> list[Goal]:
    """Return the goals of that half's runs that did not fail; a goal to which no run belongs has no figure."""
    runs = [run for run in every if run.half == half and not run.failed]
    short = [run for run in runs if run.deadline_s < limits.short_s]
    long = [run for run in runs if run.deadline_s > limits.long_s]
    late_share = 100 * sum(run.late(limits) for run in runs) / len(runs) if runs else None

    def goal(name: str, measured: float | None, limit: float, unit: str, n: int) -> Goal:
        said = "" if measured is not None else "no run"
        figure = None if measured is None else round(measured, 4)
        return Goal(goal=f"{half}: {name}", measured=figure, limit=limit, unit=unit, n=n, not_measured=said)

    n = len(runs)
    by, late = f"{limits.late_pct:g}% and {limits.late_s:g} s", f"{limits.on_time_pct:g}%"
    return [
        goal(f"runs late by more than {by}", sum(r.too_late(limits) for r in runs) if runs else None, 0, "runs", n),
        goal(f"share of runs late by more than {late}", late_share, limits.late_runs_pct, "% of the runs", n),
        goal(f"mean |error| at deadlines under {limits.short_s:g} s", _apart(short), limits.short_error_pct, "%", len(short)),
        goal(f"mean |error| at deadlines over {limits.long_s:g} s", _apart(long), limits.long_error_pct, "%", len(long)),
        goal(
            f"runs more than {limits.early_pct:g}% early that did not need all cores throughout",
            sum(r.too_early(limits) for r in runs) if runs else None,
            *(0, "runs", n),
        ),
    ]


def long_programs(runs: Sequence[PacedRun], limits: ZooLimits) -> set[str]:
    return {run.program for run in runs if run.deadline_s > limits.long_s}


def _apart(runs: Sequence[PacedRun]) -> float | None:
    return statistics.fmean(abs(run.error_pct) for run in runs) if runs else None


def needed_all_cores(
    summary: Mapping[str, Any], samples: Sequence[Sample], capacity: Mapping[str, float], workers: Mapping[str, str]
) -> bool:
    """Return True if the run asked for all cores from its first task to its last, wherever an executor had a stage to work
    on."""
    first_s, last_s = summary["first_task_s"], summary["last_task_s"]
    if first_s is None or last_s is None:
        return False
    asked = [
        sample.demand >= OPEN * capacity[workers[sample.executor_id]]
        for sample in samples
        if sample.stage is not None and first_s <= sample.time_s <= last_s and sample.executor_id in workers
    ]
    return bool(asked) and sum(asked) >= THROUGHOUT * len(asked)
