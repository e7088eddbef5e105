"""Document 003's figure 12 in miniature: the same scan, its executors pinned to the hosts of the data, restricted by labels,
free with data-awareness, and free without.

The document's tenants 1 to 3: freedom costs nothing where the scheduler knows the places of the data, and much where it does
not.
"""

from __future__ import annotations

import statistics

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Order, answers_right, complete, within_capacity

COLUMNS = (*("executors", "n", "mean time s", "sd", "least", "most", "against pinned %"), "executors by worker")
PINNED, FREE = "pinned", "free"


class Scan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ways`: options of each; `alike_pct`: percent longer than pinned that is no loss."""

    words: tuple[str, ...]
    ways: dict[str, tuple[str, ...]]
    options: tuple[str, ...] = ()
    repetitions: int = 3
    alike_pct: float = 10.0
    seed: int = 1

    def steps(self) -> list[str]:
        return [f"{way}-{number}" for number in range(self.repetitions) for way in self.ways]

    def orders(self, step: str, data: Data) -> list[Order]:  # noqa: ARG002 - nothing is learned from earlier steps
        way = step.rpartition("-")[0]
        return [Order("scan", self.words, options=(*self.options, *self.ways[way]))]

    def conditions(self, data: Data) -> list[Condition]:
        found, pinned = [], self._times(PINNED, data)
        for way in self.ways:
            times = self._times(way, data)
            if not times or not pinned or way == PINNED:
                continue
            more = 100 * (statistics.median(times) / statistics.median(pinned) - 1)
            said = f"{more:+.1f}% of the median, n={len(times)}"
            if way == FREE:
                found.append(
                    Condition("without data-awareness it takes longer than pinned", way, more > self.alike_pct, said)
                )
            else:
                found.append(Condition("no loss against pinned", way, more <= self.alike_pct, said))
        steps = list(data.steps.values())
        return [complete(data, self.steps()), *found, *within_capacity(steps, data), *answers_right(steps)]

    def tables(self, data: Data) -> str:
        rows, pinned = [], self._times(PINNED, data)
        for way in self.ways:
            times = self._times(way, data)
            if times:
                where = sorted({w for step in data.starting(f"{way}-") for w in step.job("scan").workers.values()})
                more = 100 * (statistics.fmean(times) / statistics.fmean(pinned) - 1) if pinned else 0.0
                rows.append(
                    (
                        *(way, len(times), f"{statistics.fmean(times):.1f}", f"{statistics.pstdev(times):.1f}"),
                        *(f"{min(times):.1f}", f"{max(times):.1f}", f"{more:+.1f}", ", ".join(where)),
                    )
                )
        about = (
            "Reading from another host goes at 100 Mbit/s (document 002's network), which the input's file system sees to."
        )
        return "\n".join([about, "", *table(COLUMNS, rows)])

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - the table has it
        return {}

    def _times(self, way: str, data: Data) -> list[float]:
        return [float(step.job("scan").summary["end_s"]) for step in data.starting(f"{way}-")]
