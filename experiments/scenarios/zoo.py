"""Programs that others wrote, as they ship, with deadlines: the test of a law that was tuned with none of these programs.

Each program runs on all cores without a deadline (base, which teaches its profile), then once with every stretch of the mean
base time as its deadline. Chance divides the programs into a half to develop with and a half to judge with: the seed
`division` and the names decide, so neither the order in the spec nor what was run so far changes a half. Steps follow the
same shuffled list, one half's program after the other's, so whatever has been run is a fair sample of both.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from experiments.harness.outputs import difference
from experiments.harness.recorded import (
    Condition,
    Data,
    Goal,
    Order,
    StepRecord,
    answers_right,
    complete,
    judged,
    within_capacity,
)
from experiments.scenarios.zoo_goals import PacedRun, ZooLimits, goals_of, long_programs, needed_all_cores
from experiments.scenarios.zoo_report import tables

BASE = "base"
HALVES = ("develop", "judge")
WHOLE = "all"
"""Name of the only part of a zoo without a division."""


class ZooProgram(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program and its arguments. `works_in` is as in `Order`: Spark's examples read files of a folder `data`. `random` is
    the reason why its answer differs from run to run, so that only its exit code is judged. If `random` is empty, its output
    must be the same in every run, except for lines that match `ignored` and, with `any_order`, for the order of lines.
    `tests` are the tests that the program takes part in; empty: all. `options` are options of `submit` that it needs."""

    kind: str
    words: tuple[str, ...]
    works_in: str = ""
    random: str = ""
    ignored: tuple[str, ...] = ()
    any_order: bool = False
    tests: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


class ZooStep(msgspec.Struct, frozen=True):
    """One run of a program; `test`: None for a base run."""

    half: str
    program: str
    test: str | None


class Zoo(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a zoo. `tests`: the deadline of each test in base times. `division`: the seed that divides the
    programs; None: they stay together. `bases`: base runs of each program. Nothing else is drawn at random: `seed` is kept
    because every experiment has one."""

    programs: dict[str, ZooProgram]
    tests: dict[str, float]
    division: int | None = None
    limits: ZooLimits = ZooLimits()
    bases: int = 2
    repetitions: int = 1
    options: tuple[str, ...] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        for name, program in self.programs.items():
            if "-" in name:
                raise ValueError(f"program {name!r} has a hyphen, which parts the words of a step's name")
            if unknown := set(program.tests) - self.tests.keys():
                raise ValueError(
                    f"program {name} names test {', '.join(sorted(unknown))}; there are: {', '.join(self.tests)}"
                )

    # ------------------------------------------------------------------ steps

    def halves(self) -> dict[str, str]:
        """Return the half of each program, in the order in which the programs run."""
        names = sorted(self.programs)
        if self.division is None:
            return dict.fromkeys(names, WHOLE)
        random.Random(self.division).shuffle(names)
        return {name: HALVES[place % 2] for place, name in enumerate(names)}

    def parts(self) -> tuple[str, ...]:
        return (WHOLE,) if self.division is None else HALVES

    def steps(self) -> list[str]:
        return list(self._steps())

    def _steps(self) -> dict[str, ZooStep]:
        found: dict[str, ZooStep] = {}
        for name, half in self.halves().items():
            found |= {f"{half}-{name}-{BASE}-{number}": ZooStep(half, name, None) for number in range(self.bases)}
            for number in range(self.repetitions):
                for test in self.programs[name].tests or self.tests:
                    found[f"{half}-{name}-{test}-{number}"] = ZooStep(half, name, test)
        return found

    def orders(self, step: str, data: Data) -> list[Order]:
        what = self._steps()[step]
        program = self.programs[what.program]
        return [
            Order(
                what.program,
                program.words,
                None if what.test is None else self.tests[what.test] * self.base_s(what, data),
                options=(*self.options, *program.options),
                works_in=program.works_in,
                may_fail=True,
            )
        ]

    def base_s(self, what: ZooStep, data: Data) -> float:
        """Return the seconds on all cores: the mean of the base runs that succeeded, or of all where no run did."""
        ran = [step.jobs[0] for step in self._bases(what.half, what.program, data)]
        good = [job for job in ran if job.exit_code == 0]
        return statistics.fmean(job.summary["end_s"] for job in good or ran)

    def _bases(self, half: str, name: str, data: Data) -> list[StepRecord]:
        return data.starting(f"{half}-{name}-{BASE}-")

    # ------------------------------------------------------------------ findings

    def runs(self, data: Data) -> list[PacedRun]:
        """Return the runs with deadlines that were made, in the order of the steps."""
        found = []
        for name, what in self._steps().items():
            record = data.steps.get(name)
            if record is None or what.test is None:
                continue
            [job] = record.jobs
            unequal = self._unequal(what, job.app_id, data)
            found.append(
                PacedRun(
                    step=name,
                    half=what.half,
                    program=what.program,
                    kind=self.programs[what.program].kind,
                    test=what.test,
                    deadline_s=job.summary["deadline_s"],
                    end_s=job.summary["end_s"],
                    allocated_core_s=job.summary["allocated_core_s"],
                    used_core_s=job.summary["used_core_s"],
                    all_cores=needed_all_cores(job.summary, data.samples.get(job.app_id, ()), record.capacity, job.workers),
                    failed=job.exit_code != 0,
                    unequal=unequal,
                    said=(job.summary.get("lateness") or {}).get("sentence", ""),
                    explained=data.explained.get(name, ""),
                )
            )
        return found

    def _unequal(self, what: ZooStep, app_id: str, data: Data) -> str | None:
        """Return the difference of a run's output from the first base run's; None where they agree, or where answers are
        random."""
        program = self.programs[what.program]
        bases = [step.jobs[0].app_id for step in self._bases(what.half, what.program, data)]
        if program.random or not bases:
            return None
        first, this = (data.outputs.get(app, "") for app in (bases[0], app_id))
        if not first.strip():
            return "the base run printed nothing"
        return difference(first, this, ignored=program.ignored, any_order=program.any_order)

    def conditions(self, data: Data) -> list[Condition]:
        steps, runs = list(data.steps.values()), self.runs(data)
        long, least = len(long_programs(runs, self.limits)), self.limits.long_programs
        unexplained = [run.step for run in runs if run.misses(self.limits) and not run.explained]
        return [
            complete(data, self.steps()),
            *(judged(g, part) for part in self.parts() for g in goals_of(part, runs, self.limits) if g.measured is not None),
            Condition("enough programs with long deadlines", "all", long >= least, f"{long} of at least {least}"),
            Condition("every miss is explained", "all", not unexplained, ", ".join(unexplained) or f"n={len(runs)}"),
            *self._same_answers(data),
            *within_capacity(steps, data),
            *answers_right(steps),
        ]

    def _same_answers(self, data: Data) -> list[Condition]:
        """Return one condition for each program that ran at least twice and whose answer is not random."""
        found = []
        for name, half in self.halves().items():
            ran = {
                step: data.steps[step] for step, what in self._steps().items() if what.program == name and step in data.steps
            }
            if len(ran) < 2 or self.programs[name].random:
                continue
            what = ZooStep(half, name, None)
            wrong = [
                f"{step}: {how}" for step, record in ran.items() if (how := self._unequal(what, record.jobs[0].app_id, data))
            ]
            detail = "; ".join(wrong) or f"n={len(ran)}"
            found.append(Condition("answers paced and unpaced are the same", name, not wrong, detail, always=True))
        return found

    def goals(self, data: Data) -> list[Goal]:
        runs = self.runs(data)
        return [goal for part in self.parts() for goal in goals_of(part, runs, self.limits)] if runs else []

    def tables(self, data: Data) -> str:
        bases: dict[str, Sequence[Mapping[str, Any]]] = {
            name: [step.jobs[0].summary for step in self._bases(half, name, data)] for name, half in self.halves().items()
        }
        kinds = {name: (program.kind, program.random) for name, program in self.programs.items()}
        return tables(self.parts(), self.halves(), kinds, bases, self.runs(data), self.limits)

    def pictures(self, data: Data) -> dict[str, list[str]]:
        """Return the runs that were too late, each in detail."""
        late = [run.step for run in self.runs(data) if "too late" in run.misses(self.limits)]
        return {step: [data.steps[step].jobs[0].app_id] for step in late}
