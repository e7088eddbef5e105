"""One control core, several homes: how close to their deadlines the same applications end under several cluster managers.

Base: each application on all cores of each home, without a deadline. Then, repetition by repetition, each gets its base time
on that home, stretched, as its deadline, on one home after the other. Names of homes are the spec's clusters.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Goal, Order, answers_right, complete, within_capacity
from experiments.scenarios.table4 import ErrorLimits, allocated_per_used

COLUMNS = (
    *("test", "application", "home", "n", "deadline s", "least error %", "most", "mean abs", "late"),
    *("allocated / used", "submit to first task s"),
)
Summary = Mapping[str, Any]


class Homes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`tests`: by name, the deadline in base times. `options`: of `sparkpace submit`, everywhere. Nothing is drawn at random
    here: `seed` is kept because every experiment has one."""

    homes: tuple[str, ...]
    applications: dict[str, tuple[str, ...]]
    tests: dict[str, float]
    limits: ErrorLimits = ErrorLimits()
    repetitions: int = 3
    bases: int = 1
    options: tuple[str, ...] = ()
    seed: int = 1

    def steps(self) -> list[str]:
        return [*self._alone(), *self._paced()]

    def _alone(self) -> dict[str, tuple[str, str]]:
        """Return the application and home of every base step."""
        return {
            f"{_base(app, home)}{number}": (app, home)
            for number in range(self.bases)
            for app in self.applications
            for home in self.homes
        }

    def _paced(self) -> dict[str, tuple[str, str, str]]:
        """Return the application, test and home of every step with a deadline; compared steps stand side by side."""
        return {
            f"{_group(app, test, home)}{number}": (app, test, home)
            for number in range(self.repetitions)
            for app, test, home in self._cells()
        }

    def _cells(self) -> Iterator[tuple[str, str, str]]:
        return ((app, test, home) for app in self.applications for test in self.tests for home in self.homes)

    def orders(self, step: str, data: Data) -> list[Order]:
        alone = self._alone()
        if step in alone:
            app, home = alone[step]
            return [Order(app, self.applications[app], options=self.options, cluster=home)]
        app, test, home = self._paced()[step]
        deadline_s = self.tests[test] * statistics.median(s["end_s"] for s in _found(data, _base(app, home)))
        return [Order(app, self.applications[app], deadline_s, options=self.options, cluster=home)]

    def conditions(self, data: Data) -> list[Condition]:
        steps, most = list(data.steps.values()), self.limits
        judged = []
        for cell in self._cells():
            if runs := _found(data, _group(*cell)):
                errors, ratio = [s["error_pct"] for s in runs], allocated_per_used(runs)
                ends = f"{min(errors):+.2f} to {max(errors):+.2f}%, n={len(runs)}"
                for name, holds, detail in (
                    (f"none late by more than {most.late_pct:g}%", max(errors) <= most.late_pct, ends),
                    (f"none early by more than {most.early_pct:g}%", -min(errors) <= most.early_pct, ends),
                    (f"allocated / used within {most.allocated_to_used:g}", ratio <= most.allocated_to_used, f"{ratio:.3f}"),
                ):
                    judged.append(Condition(name, " ".join(cell), holds, detail))
        return [complete(data, self.steps()), *judged, *within_capacity(steps, data), *answers_right(steps)]

    def goals(self, data: Data) -> list[Goal]:
        """Return the goals of each home, over all its runs with a deadline."""
        found, most = [], self.limits
        for home in self.homes:
            runs = [s for app in self.applications for test in self.tests for s in _found(data, _group(app, test, home))]
            if runs:
                errors = [s["error_pct"] for s in runs]
                for name, measured, limit, unit in (
                    ("most late by", max(errors), most.late_pct, "% of the deadline"),
                    ("most early by", -min(errors), most.early_pct, "% of the deadline"),
                    ("mean |error|", statistics.fmean(map(abs, errors)), most.error_pct, "% of the deadline"),
                    ("allocated / used", allocated_per_used(runs), most.allocated_to_used, "ratio"),
                ):
                    of = f"{home}, real: {name}"
                    found.append(Goal(goal=of, measured=round(measured, 4), limit=limit, unit=unit, n=len(runs)))
        return found

    def tables(self, data: Data) -> str:
        each = [
            (test, app, home, *_numbers(runs))
            for test in self.tests
            for app in self.applications
            for home in self.homes
            if (runs := _found(data, _group(app, test, home)))
        ]
        together = [
            (test, home, *_numbers(runs))
            for test in self.tests
            for home in self.homes
            if (runs := [s for app in self.applications for s in _found(data, _group(app, test, home))])
        ]
        alone = [
            (app, home, len(runs), *(f"{statistics.median(s[key] for s in runs):.1f}" for key in ("end_s", "first_task_s")))
            for app in self.applications
            for home in self.homes
            if (runs := _found(data, _base(app, home)))
        ]
        columns = ("alone on all cores", "home", "n", "seconds, median", "submit to first task s")
        lines = [*table(COLUMNS, each), "All applications together:", "", *table((COLUMNS[0], *COLUMNS[2:]), together)]
        return "\n".join([*lines, *table(columns, alone)])

    def pictures(self, data: Data) -> dict[str, list[str]]:
        """Return the first run of each cell in detail."""
        first = {cell: data.starting(_group(*cell)) for cell in self._cells()}
        return {"-".join(cell): [steps[0].jobs[0].app_id] for cell, steps in first.items() if steps}


def _base(app: str, home: str) -> str:
    return f"base-{app}-{home}-"


def _group(app: str, test: str, home: str) -> str:
    """Return the common beginning of names of runs that differ only by their repetition."""
    return f"{app}-{test}-{home}-"


def _found(data: Data, prefix: str) -> list[Summary]:
    return [step.jobs[0].summary for step in data.starting(prefix)]


def _numbers(runs: Sequence[Summary]) -> list[str]:
    """Return the columns from n on."""
    errors = [s["error_pct"] for s in runs]
    return [
        str(len(runs)),
        f"{statistics.fmean(s['deadline_s'] for s in runs):.1f}",
        *(f"{error:+.2f}" for error in (min(errors), max(errors))),
        f"{statistics.fmean(map(abs, errors)):.2f}",
        str(sum(s["violated"] for s in runs)),
        f"{allocated_per_used(runs):.3f}",
        f"{statistics.median(s['first_task_s'] for s in runs):.1f}",
    ]
