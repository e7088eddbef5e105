"""The cores that the executors of an application held over its time, as its event log or its samples have them. Pure.

Not covered: the cores that tasks could use (`RunRecord.cores_there`), what fewer cores would hold
(`stage_model.forecast.saving`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import groupby, pairwise

from msgspec import Struct


class Held(Struct, frozen=True):
    """Steps (seconds after submission, cores of all executors from then on), in order, until `end_s`, the application's
    end."""

    steps: tuple[tuple[float, float], ...]
    end_s: float

    @property
    def first_s(self) -> float:
        """Seconds after submission until the first executor is there; `end_s` where none came."""
        return next((since_s for since_s, cores in self.steps if cores), self.end_s)

    @property
    def most_cores(self) -> float:
        return max((cores for _, cores in self.steps), default=0.0)

    @property
    def core_s(self) -> float:
        """Core-seconds: each executor's cores times its time there."""
        ends = [*self.steps, (self.end_s, 0.0)]
        return math.fsum(cores * (until_s - since_s) for (since_s, cores), (until_s, _) in pairwise(ends))

    def at_most(self, cores: float) -> Held:
        """Return what was held if a quota left the executors no more than these cores together."""
        return Held(tuple((since_s, min(cores, there)) for since_s, there in self.steps), self.end_s)


def cores_held(changes: Iterable[tuple[int, int]], started_ms: int, duration_s: float) -> Held:
    """Return what was held, from the cores of all executors from each change (epoch milliseconds) on. A change before the
    start or after the end counts there, and a clock that was set back gives no negative time."""
    steps: list[tuple[float, float]] = []
    now_s = 0.0
    for ms, cores in changes:
        now_s = min(duration_s, max(now_s, (ms - started_ms) / 1e3))
        if steps and steps[-1][0] == now_s:
            steps.pop()
        steps.append((now_s, float(cores)))
    return Held(tuple(steps), duration_s)


def cores_over(spans: Iterable[tuple[float, float, float]], end_s: float) -> Held:
    """Return what was held in these spans together, each from a second to a second after submission, with its cores. Spans
    may overlap, and what is after `end_s` does not count."""
    changes = [
        change
        for since_s, until_s, cores in spans
        for change in ((min(since_s, end_s), cores), (min(until_s, end_s), -cores))
    ]
    steps: list[tuple[float, float]] = []
    held = 0.0
    for at_s, together in groupby(sorted(changes), key=lambda change: change[0]):
        held += math.fsum(cores for _, cores in together)
        steps.append((at_s, max(0.0, held)))
    return Held(tuple(steps), end_s)
