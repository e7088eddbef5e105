"""Document 000's policies under load, simulated (`experiments.simulator.spillover`): throughput, balance and time by policy.

The document says: 10 to 20% more throughput than random, resource-pick-kx better while resources are free, smooth weighted
round robin better when they are exhausted. The conditions say whether that holds here.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, complete
from experiments.simulator.spillover import Node, SpilloverRow, TaskKind, simulate_spillover

COLUMNS = (
    *("load", "policy", "n", "throughput", "against random %", "sd", "balance: sd of use", "mean time / alone", "waited s"),
)
FREE, FULL = 0.7, 1.0
"""Loads up to which resources are free, and from which on they are exhausted."""


class Spillover(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Each of `loads` under each of `policies`, with `repetitions` seeds of `seconds` virtual seconds."""

    nodes: tuple[Node, ...]
    kinds: tuple[TaskKind, ...]
    loads: tuple[float, ...]
    policies: tuple[str, ...]
    seconds: float
    repetitions: int = 10
    seed: int = 1

    def steps(self) -> list[str]:
        return [f"load-{load:g}" for load in self.loads]

    def simulate(self, step: str) -> list[dict[str, Any]]:
        load = float(step.removeprefix("load-"))
        return [
            msgspec.to_builtins(
                simulate_spillover(self.nodes, self.kinds, policy, load, 1000 * self.seed + number, self.seconds)
            )
            for number in range(self.repetitions)
            for policy in self.policies
        ]

    def conditions(self, data: Data) -> list[Condition]:
        rows = _rows(data)
        found = [complete(data, self.steps())]
        for policy, of, loads in (
            ("resource-pick-kx", "while resources are free", [load for load in self.loads if load <= FREE]),
            ("smooth-wrr", "when resources are exhausted", [load for load in self.loads if load >= FULL]),
        ):
            if gains := [gain for load in loads for gain in _gains(rows, policy, load)]:
                gain, other = statistics.fmean(gains), _other(policy)
                over = [
                    a - b
                    for load in loads
                    for a, b in zip(_gains(rows, policy, load), _gains(rows, other, load), strict=True)
                ]
                said = f"{gain:+.1f}% (sd {statistics.pstdev(gains):.1f}), n={len(gains)}, simulated"
                found.append(Condition(f"{policy} has 10 to 20% more throughput than random", of, 10 <= gain <= 20, said))
                said = f"{statistics.fmean(over):+.1f} points, n={len(over)}, simulated"
                found.append(Condition(f"{policy} has more throughput than {other}", of, statistics.fmean(over) > 0, said))
        return found

    def tables(self, data: Data) -> str:
        rows, lines = _rows(data), []
        for load in self.loads:
            for policy in self.policies:
                mine = [row for row in rows if row.load == load and row.policy == policy]
                if mine:
                    gains = _gains(rows, policy, load)
                    lines.append(
                        (
                            *(f"{load:.0%}", policy, len(mine), f"{statistics.fmean(r.throughput for r in mine):.3f}"),
                            *(f"{statistics.fmean(gains):+.1f}", f"{statistics.pstdev(gains):.1f}"),
                            f"{statistics.fmean(r.spread for r in mine):.3f}",
                            f"{statistics.fmean(r.slowdown for r in mine):.2f}",
                            f"{statistics.fmean(r.waited for r in mine):.1f}",
                        )
                    )
        about = "Throughput: CPU seconds of tasks done per second and core. Against random: of the same seeds."
        return "\n".join([about, "", *table(COLUMNS, lines)])

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - no run folders, no pictures
        return {}


def _other(policy: str) -> str:
    return "smooth-wrr" if policy == "resource-pick-kx" else "resource-pick-kx"


def _gains(rows: Sequence[SpilloverRow], policy: str, load: float) -> list[float]:
    """Return the percents of throughput beyond random's, seed by seed."""
    base = {row.seed: row.throughput for row in rows if row.load == load and row.policy == "random"}
    mine = (row for row in rows if row.load == load and row.policy == policy)
    return [100 * (row.throughput / base[row.seed] - 1) for row in mine if row.seed in base]


def _rows(data: Data) -> list[SpilloverRow]:
    return [msgspec.convert(row, type=SpilloverRow) for step in data.rows.values() for row in step.rows]
