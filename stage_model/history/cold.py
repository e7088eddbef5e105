"""Cold code: the CPU that a stage uses for its first records beyond what it uses for as many later ones.

While executors read the first records, they load and compile classes and start Python workers. So the first quarter of a
stage's records may use more than half of its CPU. Agents report records and CPU of a stage while it runs (`Readings`); its
`cold_core_s` follows from these. Not covered: what is left of a stage that has a cold part (`laws.forecast`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIRST = 0.25
"""Share of a stage's records, the first ones, with which all of the cold part comes."""
LAST = 0.6
"""Largest share of its records at which a point shows the cold part: what comes later must say enough of the rest."""
KEPT = 16
"""Most points that are kept of a stage attempt."""
COMPLETE = 0.05
"""Largest part of a stage's records by which the reports may differ from what its driver says."""


@dataclass(slots=True)
class Readings:
    """The `records` that a stage attempt has read and the `core_s` that it has used by now, over all executors. `points` are
    the same at earlier times; after the first one, each stands for `every` reports."""

    records: float
    core_s: float
    points: list[tuple[float, float]] = field(init=False)
    every: int = 1
    left_out: int = 0

    def __post_init__(self) -> None:
        self.points = [(self.records, self.core_s)]

    def add(self, records: float, core_s: float) -> None:
        """Take in what a report adds."""
        self.records += records
        self.core_s += core_s
        self.left_out += 1
        if self.left_out < self.every:
            return
        self.left_out = 0
        self.points.append((self.records, self.core_s))
        if len(self.points) > KEPT:
            del self.points[::2]
            self.every *= 2

    def cold_core_s(self, records: float) -> float | None:
        """Return the core-seconds that the stage used for its first records beyond what it used for as many later ones. It
        read this many `records`. Return None if the reports cannot tell."""
        if records <= 0 or abs(self.records - records) > COMPLETE * records:
            return None
        for read, core_s in self.points:
            part = read / self.records
            if FIRST <= part <= LAST:
                return max(0.0, (core_s - part * self.core_s) / (1 - part))
        return None
