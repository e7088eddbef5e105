"""The paper's Figs. 6 and 7 with many jobs, simulated: every scheduler meets the same streams.

`experiments.simulator.streams` draws and runs them. `preemption` has real runs of the same kind, of few jobs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Goal, complete, judged, percentile
from experiments.simulator.streams import OURS, SCHEDULERS, LongShare, StreamRow, stream

COLUMNS = (
    *("load", "scheduler", "streams", "short jobs", "mean s", "p50", "p95", "long jobs", "mean s", "lost core-s"),
    *("used core-s per stream", "free cores granted to long jobs", "of these used"),
)


class StreamLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of ours, as multiples: short jobs' 95th percentile of that of killing; long jobs' mean time of that of killing
    and of FIFO. `wasted_pct`: the part of the cores left by short jobs that long jobs are not granted; the part of those
    granted that they do not use."""

    short_p95_of_kill: float
    long_mean_of_kill: float = 0.65
    long_mean_of_fifo: float = 1.05
    wasted_pct: float = 5.0


class Load(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`load`: share of the cluster that short jobs ask for."""

    name: str
    load: float
    limits: StreamLimits


class Streams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`repetitions` streams of `length_s` seconds for each load, each under every scheduler."""

    loads: tuple[Load, ...]
    length_s: float = 3600.0
    repetitions: int = 5
    seed: int = 1

    def steps(self) -> list[str]:
        return [f"{load.name}-{number}" for number in range(self.repetitions) for load in self.loads]

    def simulate(self, step: str) -> list[dict[str, Any]]:
        name, _, number = step.rpartition("-")
        [load] = [load for load in self.loads if load.name == name]
        seed = 1000 * self.seed + int(number)
        return [msgspec.to_builtins(stream(scheduler, load.load, seed, self.length_s)) for scheduler in SCHEDULERS]

    def conditions(self, data: Data) -> list[Condition]:
        return [complete(data, self.steps()), *(judged(goal, "simulated") for goal in self.goals(data))]

    def goals(self, data: Data) -> list[Goal]:
        found = []
        for load in self.loads:
            rows = _rows(data, load.name)
            if not rows:
                continue
            short, long = _short_p95(rows[OURS]), _long_mean(rows[OURS])
            shorts, longs = (sum(map(len, times)) for times in zip(*((r.short_s, r.long_s) for r in rows[OURS]), strict=True))
            of, limits = f"simulated, {load.name}", load.limits
            ratios = (
                ("short jobs' p95 / kill-based", short / _short_p95(rows["kill"]), limits.short_p95_of_kill, shorts),
                ("long jobs' mean time / kill-based", long / _long_mean(rows["kill"]), limits.long_mean_of_kill, longs),
                ("long jobs' mean time / FIFO", long / _long_mean(rows["fifo"]), limits.long_mean_of_fifo, longs),
            )
            found += [
                Goal(goal=f"{of}: {name}", measured=round(r, 4), limit=limit, unit="ratio", n=n)
                for name, r, limit, n in ratios
            ]
            share, most = _long_share(rows[OURS]), limits.wasted_pct
            wastes = (
                ("of what short jobs leave, not granted to long ones", share.granted_core_s, share.free_core_s),
                ("of what is granted to long jobs, not used", share.used_core_s, share.granted_core_s),
            )
            found += [
                Goal(goal=f"{of}: {name}", measured=round(100 * (1 - part / whole), 2), limit=most, unit="%", n=longs)
                for name, part, whole in wastes
            ]
            lost = math.fsum(row.lost_core_s for row in rows[OURS])
            found.append(Goal(goal=f"{of}: work lost", measured=lost, limit=0, unit="core-s", n=shorts + longs))
        return found

    def tables(self, data: Data) -> str:
        cells = []
        for load in self.loads:
            for scheduler, rows in _rows(data, load.name).items():
                shorts = [one for row in rows for one in row.short_s]
                longs = [one for row in rows for one in row.long_s]
                share = _long_share(rows)
                cells.append(
                    (
                        *(f"{load.load:.0%}", scheduler, len(rows), len(shorts), f"{statistics.fmean(shorts):.1f}"),
                        *(f"{percentile(shorts, share):.1f}" for share in (0.5, 0.95)),
                        *(len(longs), f"{_long_mean(rows):.1f}", f"{math.fsum(row.lost_core_s for row in rows):.0f}"),
                        f"{statistics.fmean(row.used_core_s for row in rows):.0f}",
                        f"{share.granted_core_s / share.free_core_s:.1%}",
                        f"{share.used_core_s / share.granted_core_s:.1%}",
                    )
                )
        about = (
            "Short jobs' times are from arrival to end, long jobs' from first task to end. Free cores are those without a "
            "quota of another job, from a long job's first stage to the end of its last one."
        )
        return "\n".join([about, "", *table(COLUMNS, cells)])

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - no run folders
        return {}

    def distributions(self, data: Data) -> dict[str, dict[str, list[float]]]:
        """Return the times of the short jobs under each scheduler."""
        found = {}
        for load in self.loads:
            rows = _rows(data, load.name)
            if rows:
                found[f"short-jobs-{load.name}"] = {s: [one for row in r for one in row.short_s] for s, r in rows.items()}
        return found


def _short_p95(rows: Sequence[StreamRow]) -> float:
    return percentile([one for row in rows for one in row.short_s], 0.95)


def _long_mean(rows: Sequence[StreamRow]) -> float:
    """Return the mean time of long jobs; nan where no long job ended."""
    found = [one for row in rows for one in row.long_s]
    return statistics.fmean(found) if found else math.nan


def _long_share(rows: Sequence[StreamRow]) -> LongShare:
    return sum((row.long_share for row in rows), LongShare())


def _rows(data: Data, load: str) -> dict[str, list[StreamRow]]:
    """Return the rows by scheduler."""
    found: dict[str, list[StreamRow]] = {}
    for name, step in data.rows.items():
        if name.rpartition("-")[0] == load:
            for row in step.rows:
                one = msgspec.convert(row, type=StreamRow)
                found.setdefault(one.scheduler, []).append(one)
    return found
