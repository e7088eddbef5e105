"""The production laws and their yardsticks on the same random jobs, simulated (`experiments.simulator.compare`).

Each case has limits: few violations, small errors, little allocated beyond the use. In the case named by `goal_case` the law
must be better than every variant of the paper's in all three, too.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Goal, complete, judged
from experiments.simulator.compare import Case, LawRow, Setting, rows, variants


class LawLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits: percent of the jobs, percent of the deadline, a ratio."""

    violations_pct: float = 1.0
    error_pct: float = 0.75
    allocated_to_used: float = 1.03


class Laws(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`repetitions` blocks of `seeds` seeds of each case; cases other than `goal_case` have `other_seeds` in a block.
    `limits`: by name of the case, where they differ from `goal`. A limit of no case raises `ValueError`."""

    cases: tuple[Case, ...]
    goal_case: str
    repetitions: int = 20
    seeds: int = 10
    other_seeds: int = 2
    goal: LawLimits = LawLimits()
    limits: dict[str, LawLimits] = {}
    seed: int = 1

    def __post_init__(self) -> None:
        if unknown := self.limits.keys() - {case.name for case in self.cases}:
            raise ValueError(f"limits of {', '.join(sorted(unknown))}, which is no case")

    def steps(self) -> list[str]:
        return [f"block-{number}" for number in range(self.repetitions)]

    def simulate(self, step: str) -> list[dict[str, Any]]:
        block, setting = int(step.removeprefix("block-")), Setting()
        found: list[dict[str, Any]] = []
        for case in self.cases:
            count = case.seeds or (self.seeds if case.name == self.goal_case else self.other_seeds)
            first = 1_000_000 * self.seed + block * count
            one = rows(case, range(first, first + count), setting, variants(setting.cluster.slots))
            found += (msgspec.to_builtins(row) for row in one)
        return found

    def conditions(self, data: Data) -> list[Condition]:
        judgements = [judged(goal, case.name) for case in self.cases for goal in self._goals(case.name, data)]
        return [complete(data, self.steps()), *judgements]

    def goals(self, data: Data) -> list[Goal]:
        return [goal for case in self.cases for goal in self._goals(case.name, data)]

    def _goals(self, case: str, data: Data) -> list[Goal]:
        by_law = _by_law(data, case)
        mine = by_law.get("forecast")
        papers = {law: found for law, found in by_law.items() if law.startswith("paper")}
        found: list[Goal] = []
        if not mine:
            return found
        most = self.limits.get(case, self.goal)
        limits = (most.violations_pct, most.error_pct, most.allocated_to_used)
        for (name, (measure, unit)), limit in zip(MEASURES.items(), limits, strict=True):
            of = f"forecast, simulated, {case}: {name}"
            goal = Goal(goal=of, measured=round(measure(mine), 4), limit=limit, unit=unit, n=len(mine))
            found.append(goal)
            theirs = {law: round(measure(rows), 4) for law, rows in papers.items()}
            if theirs and case == self.goal_case:
                best = min(theirs, key=theirs.__getitem__)
                against = f"{of}, against the best paper variant's ({best})"
                found.append(msgspec.structs.replace(goal, goal=against, limit=theirs[best]))
        return found

    def tables(self, data: Data) -> str:
        lines = [
            (case.name, law, *(show(found) for show in COLUMNS.values()))
            for case in self.cases
            for law, found in _by_law(data, case.name).items()
        ]
        return "\n".join(table(("case", "law", *COLUMNS), lines))

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - no run folders, no pictures
        return {}


def violations_pct(found: Sequence[LawRow]) -> float:
    return 100 * sum(row.error_pct > 0 for row in found) / len(found)


def mean_error_pct(found: Sequence[LawRow]) -> float:
    """Return the mean of the errors' sizes, late or early."""
    return statistics.fmean(abs(row.error_pct) for row in found)


def mean_error_s(found: Sequence[LawRow]) -> float:
    """Return the mean of the errors' sizes in seconds."""
    return statistics.fmean(abs(row.end_s - row.deadline_s) for row in found)


def allocated_to_used(found: Sequence[LawRow]) -> float:
    """Return allocated / used of all runs together."""
    return math.fsum(row.allocated_core_s for row in found) / math.fsum(row.used_core_s for row in found)


MEASURES: dict[str, tuple[Callable[[Sequence[LawRow]], float], str]] = {
    "violations": (violations_pct, "% of the jobs"),
    "mean |error|": (mean_error_pct, "% of the deadline"),
    "allocated / used": (allocated_to_used, "ratio"),
}

COLUMNS: dict[str, Callable[[Sequence[LawRow]], object]] = {
    "n": len,
    "violations %": lambda found: f"{violations_pct(found):.1f}",
    "mean |error| %": lambda found: f"{mean_error_pct(found):.2f}",
    "mean |error| s": lambda found: f"{mean_error_s(found):.2f}",
    "mean error %": lambda found: f"{statistics.fmean(row.error_pct for row in found):+.2f}",
    "std": lambda found: f"{statistics.pstdev(row.error_pct for row in found):.2f}",
    "earliest %": lambda found: f"{min(row.error_pct for row in found):+.2f}",
    "latest %": lambda found: f"{max(row.error_pct for row in found):+.2f}",
    "allocated / used": lambda found: f"{allocated_to_used(found):.3f}",
    "allocated core-s": lambda found: f"{statistics.fmean(row.allocated_core_s for row in found):.0f}",
    "quota writes": lambda found: f"{statistics.fmean(row.writes for row in found):.0f}",
}
"""Columns of the table: figures over all jobs of a case under a law."""


def _by_law(data: Data, case: str) -> dict[str, list[LawRow]]:
    """Return the rows by law, in the order of the first block."""
    found: dict[str, list[LawRow]] = {}
    for step in data.rows.values():
        for one in step.rows:
            row = msgspec.convert(one, type=LawRow)
            if row.case == case:
                found.setdefault(row.law, []).append(row)
    return found
