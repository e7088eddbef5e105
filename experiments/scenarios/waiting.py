"""Document 002's comparison, simulated (`experiments.simulator.waiting`): RFD against Fair with a fixed delay and FIFO.

Jobs of all sizes come at once, so that the forecast has jobs ahead to look at. RFD is judged against FIFO, which serves jobs
in the same order and never looks beyond the first job. Its two variants, which differ only in the forecast, are judged
against each other. The document's own figures are in the table only, because the forecast decides none of them. Times under
Fair differ by the order in which jobs are served, from FIFO's as much as from RFD's, and no forecast of a mean is right in
over 90% of the cases (docs/design.md, section 4).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, complete
from experiments.simulator.waiting import SCHEDULERS, Setup, WaitingRow, simulate_waiting

COLUMNS = (
    *("maps", "scheduler", "n", "mean time s", "against Fair %", "sd", "against FIFO %", "sd", "local %"),
    *("forecasts", "right %", "within one %", "waiting judged right %"),
)
INTENDED, PRINTED = "rfd-intended", "rfd-printed"


class Waiting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs of all these numbers of maps together, under each scheduler, with `repetitions` seeds."""

    maps: tuple[int, ...]
    setup: Setup = Setup()
    repetitions: int = 10
    seed: int = 1

    def steps(self) -> list[str]:
        return [f"mix-{number}" for number in range(self.repetitions)]

    def simulate(self, step: str) -> list[dict[str, Any]]:
        seed = 1000 * self.seed + int(step.removeprefix("mix-"))
        return [
            msgspec.to_builtins(row)
            for scheduler in SCHEDULERS
            for row in simulate_waiting(self.setup, scheduler, self.maps, seed)
        ]

    def conditions(self, data: Data) -> list[Condition]:
        rows, found = _rows(data), [complete(data, self.steps())]
        if not rows:
            return found
        for rfd in (INTENDED, PRINTED):
            gains, points = _gains(rows, rfd, "fifo"), _local_points(rows, rfd, "fifo")
            mean = statistics.fmean(points)
            said = f"{mean:+.1f} points (sd {statistics.pstdev(points):.1f}), n={len(points)}, simulated"
            found += [
                Condition(f"{rfd}: jobs take less time than under FIFO", "jobs", statistics.fmean(gains) < 0, _said(gains)),
                Condition(f"{rfd}: more maps are local than under FIFO", "maps", mean > 0, said),
            ]
        gains = _gains(rows, INTENDED, PRINTED)
        name = f"{INTENDED}: jobs take no longer than under {PRINTED}"
        return [*found, Condition(name, "jobs", statistics.fmean(gains) <= 0, _said(gains))]

    def tables(self, data: Data) -> str:
        rows, lines = _rows(data), []
        for maps in self.maps:
            alike = [row for row in rows if row.maps == maps]
            for scheduler in SCHEDULERS:
                mine = [row for row in alike if row.scheduler == scheduler]
                if not mine:
                    continue
                made = sum(row.forecasts for row in mine)
                shares = [
                    sum(values) / made if made else None
                    for values in zip(*((r.right, r.near, r.waits_right) for r in mine), strict=True)
                ]
                against = [_gains(alike, scheduler, base) for base in ("fair", "fifo")]
                lines.append(
                    (
                        *(maps, scheduler, len(mine), f"{statistics.fmean(r.mean_s for r in mine):.1f}"),
                        *(text for gains in against for text in _mean_and_sd(gains)),
                        f"{100 * statistics.fmean(r.local for r in mine):.0f}",
                        *(made or "-", *("-" if share is None else f"{100 * share:.0f}" for share in shares)),
                    )
                )
        about = (
            "Forecasts: of every waiting job, once in TT; right: rounded, it is the number of requests that came within TT."
        )
        return "\n".join([about, "", *table(COLUMNS, lines)])

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - no run folders, no pictures
        return {}


def _gains(rows: Sequence[WaitingRow], scheduler: str, base: str) -> list[float]:
    """Return the percents of the jobs' mean time beyond that under `base`, seed by seed. Each size has as many jobs."""
    return [
        100 * (statistics.fmean(row.mean_s for row in mine) / statistics.fmean(row.mean_s for row in other) - 1)
        for mine, other in _pairs(rows, scheduler, base)
    ]


def _local_points(rows: Sequence[WaitingRow], scheduler: str, base: str) -> list[float]:
    """Return the percentage points by which more of all maps are local than under `base`, seed by seed."""
    return [100 * (_local(mine) - _local(other)) for mine, other in _pairs(rows, scheduler, base)]


def _local(rows: Sequence[WaitingRow]) -> float:
    return sum(row.local * row.maps for row in rows) / sum(row.maps for row in rows)


def _pairs(rows: Sequence[WaitingRow], scheduler: str, base: str) -> list[tuple[list[WaitingRow], list[WaitingRow]]]:
    """Return the rows of both schedulers, seed by seed."""
    mine, other = _by_seed(rows, scheduler), _by_seed(rows, base)
    return [(mine[seed], other[seed]) for seed in mine if seed in other]


def _by_seed(rows: Sequence[WaitingRow], scheduler: str) -> dict[int, list[WaitingRow]]:
    found: dict[int, list[WaitingRow]] = {}
    for row in rows:
        if row.scheduler == scheduler:
            found.setdefault(row.seed, []).append(row)
    return found


def _mean_and_sd(gains: Sequence[float]) -> tuple[str, str]:
    return f"{statistics.fmean(gains):+.1f}", f"{statistics.pstdev(gains):.1f}"


def _said(gains: Sequence[float]) -> str:
    mean, sd = _mean_and_sd(gains)
    return f"{mean}% (sd {sd}), n={len(gains)}, simulated"


def _rows(data: Data) -> list[WaitingRow]:
    return [msgspec.convert(row, type=WaitingRow) for step in data.rows.values() for row in step.rows]
