"""Document 003's figure 12 in miniature: the same scan, its executors pinned to the hosts of the data, restricted by labels,
free with data-awareness, and free without.

The document's tenants 1 to 3: freedom costs nothing where the scheduler knows the places of the data, and much where it does
not. A free choice among workers that are alike goes by their names, so the data lie on each pair of hosts once: that is every
shuffle of the names. The driver's host has no room for an executor, because the choice would begin there.
"""

from __future__ import annotations

import statistics

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Order, answers_right, complete, within_capacity

COLUMNS = (*("executors", "n", "mean time s", "sd", "least", "most", "against pinned %"), "executors by worker")
PINNED, FREE = "pinned", "free"


class Scan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`ways`: options of each; `shuffled`: the words of each repetition of `free`, whose last is an input on other hosts
    (empty: `words` each time); `alike_pct`: percent longer than pinned that is no loss."""

    words: tuple[str, ...]
    ways: dict[str, tuple[str, ...]]
    shuffled: tuple[tuple[str, ...], ...] = ()
    options: tuple[str, ...] = ()
    repetitions: int = 3
    alike_pct: float = 10.0
    seed: int = 1

    def steps(self) -> list[str]:
        times = dict.fromkeys(self.ways, self.repetitions)
        if self.shuffled:
            times[FREE] = len(self.shuffled)
        return [f"{way}-{number}" for number in range(max(times.values())) for way in self.ways if number < times[way]]

    def orders(self, step: str, data: Data) -> list[Order]:  # noqa: ARG002 - nothing is learned from earlier steps
        way, _, number = step.rpartition("-")
        words = self.shuffled[int(number)] if way == FREE and self.shuffled else self.words
        return [Order("scan", words, options=(*self.options, *self.ways[way]))]

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
        return "\n".join([about, "", *table(COLUMNS, rows), *self._shuffles(data)])

    def _shuffles(self, data: Data) -> list[str]:
        """Return the table of the repetitions of `free`, if each has its data elsewhere."""
        if not self.shuffled:
            return []
        rows = []
        for step in data.starting(f"{FREE}-"):
            job, (*_, folder) = step.job("scan"), self.shuffled[int(step.step.rpartition("-")[2])]
            where = ", ".join(sorted(job.workers.values()))
            rows.append((step.step, 1, folder.rpartition("-")[2], where, f"{job.summary['end_s']:.1f}"))
        return table(("step", "n", "hosts of the data", "executors", "time s"), rows)

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - the table has it
        return {}

    def _times(self, way: str, data: Data) -> list[float]:
        return [float(step.job("scan").summary["end_s"]) for step in data.starting(f"{way}-")]
