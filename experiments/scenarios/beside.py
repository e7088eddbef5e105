"""A job on all workers while an important one keeps one of them busy, simulated (`experiments.simulator.beside`)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Goal, complete, judged
from experiments.simulator.beside import BesideRow, beside

COLUMNS = (
    *("seed", "alone on all s", "on those left s", "cpu-shares s", "ours s", "/ those left"),
    *("deadline s", "ended after s", "error %", "important s"),
)


class BesideAnother(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`repetitions` steps of `seeds` pairs of jobs. The limits: our mean time without a deadline / the mean time on the
    workers left, and percent of the jobs with a deadline that are late."""

    repetitions: int = 4
    seeds: int = 25
    most_of_left: float = 1.1
    most_late_pct: float = 1.0
    seed: int = 1

    def steps(self) -> list[str]:
        return [f"block-{number}" for number in range(self.repetitions)]

    def simulate(self, step: str) -> list[dict[str, Any]]:
        first = 10_000 * self.seed + int(step.removeprefix("block-")) * self.seeds
        return [msgspec.to_builtins(beside(seed)) for seed in range(first, first + self.seeds)]

    def conditions(self, data: Data) -> list[Condition]:
        return [complete(data, self.steps()), *(judged(goal, "simulated") for goal in self.goals(data))]

    def goals(self, data: Data) -> list[Goal]:
        rows = _rows(data)
        if not rows:
            return []
        of_left = statistics.fmean(row.ours_s for row in rows) / statistics.fmean(row.left_s for row in rows)
        late_pct = 100 * statistics.fmean(row.due_s > row.deadline_s for row in rows)
        measures = (
            ("mean time / on the workers that are left", of_left, self.most_of_left, "ratio"),
            ("late", late_pct, self.most_late_pct, "%"),
        )
        return [
            Goal(
                goal=f"simulated, next to an important job: {name}",
                measured=round(is_, 4),
                limit=most,
                unit=unit,
                n=len(rows),
            )
            for name, is_, most, unit in measures
        ]

    def tables(self, data: Data) -> str:
        rows = _rows(data)
        cells: list[tuple[object, ...]] = [(row.seed, *_cells(_numbers(row))) for row in rows]
        if rows:
            means = zip(*(_numbers(row) for row in rows), strict=True)
            cells.append(("mean", *_cells([statistics.fmean(column) for column in means])))
        return "\n".join(table(COLUMNS, cells))

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - no run folders
        return {}


def _numbers(row: BesideRow) -> tuple[float, ...]:
    alone = (row.all_s, row.left_s, row.shares_s, row.ours_s, row.ours_s / row.left_s)
    return (*alone, row.deadline_s, row.due_s, 100 * (row.due_s / row.deadline_s - 1), row.important_s[0])


def _cells(numbers: Sequence[float]) -> list[str]:
    digits = (1, 1, 1, 1, 3, 1, 1, 2, 1)
    return [f"{number:.{places}f}" for number, places in zip(numbers, digits, strict=True)]


def _rows(data: Data) -> list[BesideRow]:
    return [msgspec.convert(row, type=BesideRow) for step in data.rows.values() for row in step.rows]
