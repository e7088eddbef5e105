"""The production laws and their yardsticks on the same random jobs, simulated (`experiments.simulator.compare`).

The case named by `goal` decides: few violations, small errors, little allocated beyond what is used, and better than every
variant of the paper's law in all three. The other cases show what stragglers, skew, systematically wrong profiles and other
input sizes do.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from experiments.recorded import Condition, Data, Goal, complete
from experiments.simulator.compare import Case, Row, Setting, rows, variants

COLUMNS = (
    *("case", "law", "n", "violations %", "mean |error| %", "mean error %", "std", "earliest %", "latest %"),
    *("allocated / used", "allocated core-s", "quota writes"),
)


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most. Percent of the jobs, of the deadline; a ratio."""

    violations_pct: float = 2.0
    error_pct: float = 1.0
    allocated_to_used: float = 1.05


class Laws(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`repetitions` blocks of `seeds` seeds of each case; cases other than `goal_case` have `other_seeds` in a block."""

    cases: tuple[Case, ...]
    goal_case: str
    repetitions: int = 20
    seeds: int = 10
    other_seeds: int = 2
    goal: Limits = Limits()
    seed: int = 1

    def steps(self) -> list[str]:
        return [f"block-{number}" for number in range(self.repetitions)]

    def simulate(self, step: str) -> list[dict[str, Any]]:
        block, setting = int(step.removeprefix("block-")), Setting()
        found: list[dict[str, Any]] = []
        for case in self.cases:
            count = self.seeds if case.name == self.goal_case else self.other_seeds
            first = 1_000_000 * self.seed + block * count
            one = rows(case, range(first, first + count), setting, variants(setting.cluster.slots))
            found += (msgspec.to_builtins(row) for row in one)
        return found

    def conditions(self, data: Data) -> list[Condition]:
        found = [complete(data, self.steps())]
        by_law = _by_law(data, self.goal_case)
        if "forecast" not in by_law:
            return found
        limits = (self.goal.violations_pct, self.goal.error_pct, self.goal.allocated_to_used)
        for (name, measure), limit in zip(MEASURES.items(), limits, strict=True):
            mine = measure(by_law["forecast"])
            detail = f"{mine:.3f}, limit {limit:g}, n={len(by_law['forecast'])}, simulated"
            found.append(Condition(f"{name} of forecast within its limit", self.goal_case, mine <= limit, detail))
            papers = {law: measure(one) for law, one in by_law.items() if law.startswith("paper")}
            if papers:
                best = min(papers, key=papers.__getitem__)
                detail = f"{mine:.3f} against {papers[best]:.3f} of {best}, simulated"
                holds = mine <= papers[best]
                found.append(Condition(f"{name} of forecast below every paper variant's", self.goal_case, holds, detail))
        return found

    def goals(self, data: Data) -> list[Goal]:
        by_law = _by_law(data, self.goal_case)
        found = []
        limits = (self.goal.violations_pct, self.goal.error_pct, self.goal.allocated_to_used)
        for (name, measure), limit in zip(MEASURES.items(), limits, strict=True):
            if "forecast" not in by_law:
                break
            mine, n = measure(by_law["forecast"]), len(by_law["forecast"])
            of = f"forecast, simulated, {self.goal_case}: {name.rstrip(',')}"
            found.append(Goal(goal=of, measured=round(mine, 4), limit=limit, unit=UNITS[name], n=n))
            papers = [measure(one) for law, one in by_law.items() if law.startswith("paper")]
            if papers:
                best = round(min(papers), 4)
                found.append(
                    Goal(
                        goal=f"{of}, against the best paper variant's",
                        measured=round(mine, 4),
                        limit=best,
                        unit=UNITS[name],
                        n=n,
                    )
                )
        return found

    def tables(self, data: Data) -> str:
        lines = [f"| {' | '.join(COLUMNS)} |", "| --- " * len(COLUMNS) + "|"]
        for case in self.cases:
            for law, found in _by_law(data, case.name).items():
                errors = [row.error_pct for row in found]
                lines.append(
                    f"| {case.name} | {law} | {len(found)} | {violations_pct(found):.1f} | {mean_error_pct(found):.2f} | "
                    f"{statistics.fmean(errors):+.2f} | {statistics.pstdev(errors):.2f} | {min(errors):+.2f} | "
                    f"{max(errors):+.2f} | {allocated_to_used(found):.3f} | "
                    f"{statistics.fmean(row.allocated_core_s for row in found):.0f} | "
                    f"{statistics.fmean(row.writes for row in found):.0f} |"
                )
        return "\n".join(lines)

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - no run folders, no pictures
        return {}


def violations_pct(found: Sequence[Row]) -> float:
    return 100 * sum(row.error_pct > 0 for row in found) / len(found)


def mean_error_pct(found: Sequence[Row]) -> float:
    """Mean of the errors' sizes, late or early."""
    return statistics.fmean(abs(row.error_pct) for row in found)


def allocated_to_used(found: Sequence[Row]) -> float:
    """Of all runs together."""
    return math.fsum(row.allocated_core_s for row in found) / math.fsum(row.used_core_s for row in found)


MEASURES: dict[str, Callable[[Sequence[Row]], float]] = {
    "violations, % of the jobs,": violations_pct,
    "mean |error|, % of the deadline,": mean_error_pct,
    "allocated / used": allocated_to_used,
}


UNITS = dict(zip(MEASURES, ("% of the jobs", "% of the deadline", "ratio"), strict=True))


def _by_law(data: Data, case: str) -> dict[str, list[Row]]:
    """In the order of the first block."""
    found: dict[str, list[Row]] = {}
    for step in data.simulated.values():
        for one in step.rows:
            row = msgspec.convert(one, type=Row)
            if row.case == case:
                found.setdefault(row.law, []).append(row)
    return found
