"""Many applications on many workers in the simulator: the time that it takes, where that goes, and how the jobs fare.

Each point is simulated `repetitions` times with seeds of its own; then the first one once more under Python's profiler, which
makes it slower and shows where the time goes.
"""

from __future__ import annotations

import statistics
from typing import Any

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Goal, complete, judged
from experiments.simulator.crowd import CrowdRow, crowd

COLUMNS = (
    *("workers", "jobs", "load", "n", "seconds of this machine", "CPU seconds", "virtual seconds", "decisions"),
    *("CPU us per decision, all in", "mean error %", "allocated / used", "violated: low %", "normal %", "high %"),
    *("withheld core-s", "debt left"),
)


class Point(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`most_s`: seconds of this machine that the point may take; None: only reported."""

    workers: int
    jobs: int
    load: float = 0.7
    most_s: float | None = None

    @property
    def name(self) -> str:
        return f"{self.jobs}-jobs-on-{self.workers}-workers"


class Scale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`profiled_jobs`: number of jobs of the first point that are simulated under the profiler."""

    points: tuple[Point, ...]
    repetitions: int = 1
    profiled_jobs: int = 200
    seed: int = 1

    def steps(self) -> list[str]:
        return [*(f"{p.name}-{n}" for p in self.points for n in range(self.repetitions)), "profiled"]

    def simulate(self, step: str) -> list[dict[str, Any]]:
        first = self.points[0]
        if step == "profiled":
            row = crowd(first.workers, self.profiled_jobs, first.load, self.seed, profiled=True)
        else:
            name, _, number = step.rpartition("-")
            point = next(p for p in self.points if p.name == name)
            row = crowd(point.workers, point.jobs, point.load, 1000 * self.seed + int(number))
        return [msgspec.to_builtins(row)]

    def conditions(self, data: Data) -> list[Condition]:
        found = [complete(data, self.steps()), *(judged(goal, "simulated") for goal in self.goals(data))]
        for point in self.points:
            for row in _rows(data, point.name):
                detail = f"{row.most_over_capacity:g} cores above, {row.decisions} decisions, simulated"
                holds = row.most_over_capacity <= 1e-6
                found.append(Condition("grants never sum to more than a worker has", point.name, holds, detail))
        return found

    def goals(self, data: Data) -> list[Goal]:
        return [
            Goal(
                goal=f"{point.jobs} jobs on {point.workers} workers are simulated in time",
                measured=max(row.wall_s for row in found),
                limit=point.most_s,
                unit="s",
                n=len(found),
            )
            for point in self.points
            if point.most_s is not None and (found := _rows(data, point.name))
        ]

    def tables(self, data: Data) -> str:
        points = ((point, _rows(data, point.name)) for point in self.points)
        lines = table(COLUMNS, (_cells(point, found) for point, found in points if found))
        for row in _rows(data, "profiled"):
            about = f"{row.jobs} jobs under the profiler, which makes it {row.cpu_s:.1f} CPU seconds"
            lines += [f"Where the time goes: {about}.", ""]
            shares = ((part, f"{100 * share:.1f}%") for part, share in row.where.items())
            lines += table(("own code of", "share of the time"), shares)
        return "\n".join(lines)

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - no run folders, no pictures
        return {}


def _cells(point: Point, found: list[CrowdRow]) -> list[str]:
    cpu_s, decisions = statistics.fmean(r.cpu_s for r in found), statistics.fmean(r.decisions for r in found)
    violated = [100 * statistics.fmean(r.violated[name] for r in found) for name in ("low", "normal", "high")]
    return [
        *(str(point.workers), str(point.jobs), f"{point.load:g}", str(len(found))),
        *(f"{statistics.fmean(r.wall_s for r in found):.1f}", f"{cpu_s:.1f}"),
        *(f"{statistics.fmean(r.virtual_s for r in found):.0f}", f"{decisions:.0f}"),
        *(f"{1e6 * cpu_s / decisions:.0f}", f"{statistics.fmean(r.mean_error_pct for r in found):+.2f}"),
        f"{statistics.fmean(r.allocated_to_used for r in found):.3f}",
        *(f"{share:.1f}" for share in violated),
        f"{statistics.fmean(r.withheld_core_s for r in found):.0f}",
        f"{statistics.fmean(r.debt_core_s for r in found):.0f}",
    ]


def _rows(data: Data, name: str) -> list[CrowdRow]:
    steps = [s for key, s in data.rows.items() if key == name or key.rpartition("-")[0] == name]
    return [msgspec.convert(row, type=CrowdRow) for step in steps for row in step.rows]
