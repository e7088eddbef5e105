"""The speed of placement: one request among thousands of workers, decisions a second, lookups of addresses."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import msgspec

from experiments.bench.overhead.placements import KINDS, MadeUpFleet, decisions_ms, lookups_us
from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Goal, complete, judged, percentile

ONE_MS, PER_SECOND, LOOKUP_US = 5.0, 2000.0, 5.0


class Size(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    workers: int
    each: int
    decisions: int


class PlacingRow(msgspec.Struct, frozen=True, kw_only=True):
    """Times of single decisions of a kind (milliseconds); of lookups: microseconds each, by blocks of a thousand."""

    workers: int
    executors: int
    policy: str
    kind: str
    took: tuple[float, ...]


class PlacingSpeed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`large` is judged by its slowest decisions, `small` by decisions a second."""

    large: Size
    small: Size
    policies: tuple[str, ...]
    prefixes: int
    lookups: int
    repetitions: int = 1
    seed: int = 1

    def steps(self) -> list[str]:
        return [f"{part}-{n}" for n in range(self.repetitions) for part in ("large", "small", "topology")]

    def measure(self, step: str, folder: Path) -> list[dict[str, Any]]:  # noqa: ARG002 - no files
        part, _, number = step.rpartition("-")
        seed = 1000 * self.seed + int(number)
        if part == "topology":
            took = lookups_us(self.prefixes, self.lookups, seed)
            return [_row(self.prefixes, 0, "-", "lookup", took)]
        size = self.large if part == "large" else self.small
        crowd = MadeUpFleet(size.workers, size.each, seed)
        return [
            _row(size.workers, size.workers * size.each, policy, kind, decisions_ms(crowd, policy, kind, size.decisions))
            for policy in self.policies
            for kind in KINDS
        ]

    def conditions(self, data: Data) -> list[Condition]:
        return [complete(data, self.steps()), *(judged(goal, "measured") for goal in self.goals(data))]

    def goals(self, data: Data) -> list[Goal]:
        found = []
        if large := _rows(data, "large"):
            worst = max(large, key=lambda row: percentile(list(row.took), 0.99))
            among = f"{worst.workers} workers with {worst.executors} executors"
            of = f"one decision among {among} ({worst.policy}, {worst.kind}), p99"
            found.append(_goal(of, percentile(list(worst.took), 0.99), ONE_MS, "ms", len(worst.took)))
        for row in _rows(data, "small"):
            if row.kind == "plain":
                each_ms = statistics.fmean(row.took)
                of = f"a decision among {row.workers} workers ({row.policy}): {1000 / each_ms:.0f} a second"
                found.append(_goal(of, each_ms, 1000 / PER_SECOND, "ms", len(row.took)))
        for row in _rows(data, "topology"):
            of = f"a lookup among {row.workers} prefixes, p99 of blocks of a thousand"
            found.append(_goal(of, percentile(list(row.took), 0.99), LOOKUP_US, "us", len(row.took)))
        return found

    def tables(self, data: Data) -> str:
        rows = [row for part in ("large", "small", "topology") for row in _rows(data, part)]
        return "\n".join(
            table(
                ("workers", "executors", "policy", "request", "n", "median", "p99", "worst", "unit"),
                (
                    (
                        *(row.workers, row.executors, row.policy, row.kind, len(row.took)),
                        f"{statistics.median(row.took):.3f}",
                        *(f"{percentile(list(row.took), 0.99):.3f}", f"{max(row.took):.3f}"),
                        "us" if row.kind == "lookup" else "ms",
                    )
                    for row in rows
                ),
            )
        )

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - no run folders, no pictures
        return {}


def _row(workers: int, executors: int, policy: str, kind: str, took: list[float]) -> dict[str, Any]:
    row = PlacingRow(workers=workers, executors=executors, policy=policy, kind=kind, took=tuple(round(t, 5) for t in took))
    return dict(msgspec.to_builtins(row))


def _goal(goal: str, measured: float, limit: float, unit: str, n: int) -> Goal:
    return Goal(goal=goal, measured=round(measured, 3), limit=limit, unit=unit, n=n)


def _rows(data: Data, part: str) -> list[PlacingRow]:
    steps = [step for name, step in data.rows.items() if name.startswith(f"{part}-")]
    return [msgspec.convert(row, type=PlacingRow) for step in steps for row in step.rows]
