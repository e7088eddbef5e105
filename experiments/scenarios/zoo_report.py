"""The zoo's tables, for each half by itself: one row a run, misses with their explanations, granted / used by kind."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.harness.markdown import table
from experiments.scenarios.zoo_goals import PacedRun, ZooLimits, goals_of, long_programs

RUNS = ("program", "kind", "test", "deadline s", "end s", "error %", "late s", "all cores", "granted / used", "answer")
MISSES = ("step", "missed", "error %", "late s", "what its record says", "why")


def tables(
    parts: Sequence[str],
    halves: Mapping[str, str],
    programs: Mapping[str, tuple[str, str]],
    bases: Mapping[str, Sequence[Mapping[str, Any]]],
    runs: Sequence[PacedRun],
    limits: ZooLimits,
) -> str:
    """Return all tables, as Markdown. `programs`: kind and why the answer is random; `bases`: summaries of the runs without
    deadlines."""
    lines = _long(runs, limits)
    for part in parts:
        names = [name for name, half in halves.items() if half == part]
        lines += [f"### {part}: {len(names)} programs", "", *_goals(part, runs, limits)]
        mine = [run for run in runs if run.half == part]
        lines += table(RUNS, (_row(run, programs[run.program][1]) for run in mine))
        if missed := [run for run in mine if run.misses(limits)]:
            lines += ["Missed:", "", *table(MISSES, (_miss(run, limits) for run in missed))]
        lines += ["By kind:", "", *_by_kind([run for run in mine if not run.failed])]
        lines += ["On all cores, without a deadline:", "", *_alone(names, programs, bases)]
    return "\n".join(lines)


def _long(runs: Sequence[PacedRun], limits: ZooLimits) -> list[str]:
    long = long_programs(runs, limits)
    need = f"at least {limits.long_programs} are wanted"
    return [f"{len(long)} programs have deadlines of more than {limits.long_s:g} s; {need}.", ""]


def _goals(part: str, runs: Sequence[PacedRun], limits: ZooLimits) -> list[str]:
    def said(measured: float | None, unit: str) -> str:
        return "no run" if measured is None else f"{measured:g} {unit}"

    rows = (
        (g.goal, g.n, said(g.measured, g.unit), f"{g.limit:g}", {True: "met", False: "**missed**", None: ""}[g.met])
        for g in goals_of(part, runs, limits)
    )
    return table(("goal", "n", "measured", "limit", ""), rows)


def _row(run: PacedRun, is_random: str) -> list[str]:
    answer = "failed" if run.failed else "random" if is_random else "the same" if run.unequal is None else "another"
    return [
        *(run.program, run.kind, run.test, f"{run.deadline_s:.1f}", f"{run.end_s:.1f}"),
        *(f"{run.error_pct:+.2f}", f"{run.late_s:+.2f}", "yes" if run.all_cores else "", _ratio([run]), answer),
    ]


def _miss(run: PacedRun, limits: ZooLimits) -> list[str]:
    missed, why = ", ".join(run.misses(limits)), run.explained or "**not explained**"
    return [run.step, missed, f"{run.error_pct:+.2f}", f"{run.late_s:+.2f}", run.unequal or run.said, why]


def _by_kind(runs: Sequence[PacedRun]) -> list[str]:
    kinds = sorted({run.kind for run in runs})
    of = {kind: [run for run in runs if run.kind == kind] for kind in kinds}
    rows = (
        (
            *(kind, len({run.program for run in found}), len(found)),
            *(f"{error:+.2f}" for error in (min(r.error_pct for r in found), max(r.error_pct for r in found))),
            f"{statistics.fmean(abs(run.error_pct) for run in found):.2f}",
            _ratio(found),
        )
        for kind, found in of.items()
    )
    return table(("kind", "programs", "n", "least error %", "most", "mean abs", "granted / used"), rows)


def _ratio(runs: Sequence[PacedRun]) -> str:
    """Return the granted / used of all these runs together; empty where they used no CPU."""
    used = math.fsum(run.used_core_s for run in runs)
    return f"{math.fsum(run.allocated_core_s for run in runs) / used:.3f}" if used else ""


def _alone(
    names: Sequence[str],
    programs: Mapping[str, tuple[str, str]],
    bases: Mapping[str, Sequence[Mapping[str, Any]]],
) -> list[str]:
    rows = (
        (
            *(name, programs[name][0], len(bases[name])),
            ", ".join(f"{summary['end_s']:.1f}" for summary in bases[name]),
            ", ".join(f"{summary['used_core_s']:.1f}" for summary in bases[name]),
            programs[name][1],
        )
        for name in names
        if bases[name]
    )
    return table(("program", "kind", "n", "seconds", "used core-s", "random because it"), rows)
