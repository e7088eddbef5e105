"""Document 002's comparison, simulated (`experiments.simulator.waiting`): RFD against Fair with a fixed delay and FIFO.

The document says: with 16 to 64 maps RFD's jobs take 28.8% less time than Fair's at equal locality; with 2 to 8 it loses to
Fair, at 2 to FIFO too; the forecast is right in over 90% of the cases. The conditions say whether that holds here.
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
    *("maps", "scheduler", "n", "mean time s", "against Fair %", "sd", "local %"),
    *("forecasts", "right %", "within one %", "waiting judged right %"),
)
SMALL, LARGE = 8, 16
LESS_PCT = -28.8
RIGHT = 0.9


class Waiting(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Jobs of each number of maps, under each scheduler, with `repetitions` seeds."""

    maps: tuple[int, ...]
    setup: Setup = Setup()
    repetitions: int = 10
    seed: int = 1

    def steps(self) -> list[str]:
        return [f"maps-{maps}" for maps in self.maps]

    def simulate(self, step: str) -> list[dict[str, Any]]:
        maps = int(step.removeprefix("maps-"))
        return [
            msgspec.to_builtins(simulate_waiting(self.setup, scheduler, maps, 1000 * self.seed + number))
            for number in range(self.repetitions)
            for scheduler in SCHEDULERS
        ]

    def conditions(self, data: Data) -> list[Condition]:
        rows, found = _rows(data), [complete(data, self.steps())]
        if not rows:
            return found
        for rfd in ("rfd-intended", "rfd-printed"):
            large = [gain for maps in self.maps if maps >= LARGE for gain in _gains(rows, rfd, maps)]
            small = [gain for maps in self.maps if maps <= SMALL for gain in _gains(rows, rfd, maps)]
            if large:
                said = f"{statistics.fmean(large):+.1f}% (sd {statistics.pstdev(large):.1f}), n={len(large)}, simulated"
                holds = statistics.fmean(large) <= LESS_PCT
                found.append(
                    Condition(f"{rfd}: jobs of 16 to 64 maps take 28.8% less time than under Fair", "maps", holds, said)
                )
            if small:
                said = f"{statistics.fmean(small):+.1f}% (sd {statistics.pstdev(small):.1f}), n={len(small)}, simulated"
                found.append(
                    Condition(
                        f"{rfd}: jobs of 2 to 8 maps take longer than under Fair", "maps", statistics.fmean(small) > 0, said
                    )
                )
            made = [row for row in rows if row.scheduler == rfd and row.forecasts]
            if made:
                share = sum(row.right for row in made) / sum(row.forecasts for row in made)
                said = f"{share:.1%} of {sum(row.forecasts for row in made)}, simulated"
                found.append(
                    Condition(
                        f"{rfd}: the forecast, rounded, is right in 90% of the cases", "forecasts", share >= RIGHT, said
                    )
                )
        return found

    def tables(self, data: Data) -> str:
        rows, lines = _rows(data), []
        for maps in self.maps:
            for scheduler in SCHEDULERS:
                mine = [row for row in rows if row.maps == maps and row.scheduler == scheduler]
                if not mine:
                    continue
                gains, made = _gains(rows, scheduler, maps), sum(row.forecasts for row in mine)
                shares = [
                    sum(values) / made if made else None
                    for values in zip(*((r.right, r.near, r.waits_right) for r in mine), strict=True)
                ]
                lines.append(
                    (
                        *(maps, scheduler, len(mine), f"{statistics.fmean(r.mean_s for r in mine):.1f}"),
                        *(f"{statistics.fmean(gains):+.1f}", f"{statistics.pstdev(gains):.1f}"),
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


def _gains(rows: Sequence[WaitingRow], scheduler: str, maps: int) -> list[float]:
    """Return the percents of mean time beyond Fair's, seed by seed."""
    base = {row.seed: row.mean_s for row in rows if row.maps == maps and row.scheduler == "fair"}
    mine = (row for row in rows if row.maps == maps and row.scheduler == scheduler)
    return [100 * (row.mean_s / base[row.seed] - 1) for row in mine if row.seed in base]


def _rows(data: Data) -> list[WaitingRow]:
    return [msgspec.convert(row, type=WaitingRow) for step in data.rows.values() for row in step.rows]
