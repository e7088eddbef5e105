"""The figures of a run that are sums over its executors, as they are planned with and recorded. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from controller.master.core.executor_state import Executor, known_sum
from stage_model.history.stage_run import StageKey


@dataclass(frozen=True, slots=True)
class ExecutorTotals:
    """The sums over all executors that an application has ever had."""

    executors: Mapping[str, Executor]

    def used_core_s(self) -> float:
        """Return the container CPU of all executors since their starts, in stages or not, core-seconds."""
        return math.fsum(executor.record.cpu_core_s for executor in self.executors.values())

    def stage_use(self) -> dict[StageKey, float]:
        """Return the container CPU per stage attempt over all executors, core-seconds."""
        total: dict[StageKey, float] = {}
        for executor in self.executors.values():
            for key, use in executor.use().items():
                total[key] = total.get(key, 0.0) + use.cpu_core_s
        return total

    def stage_allocation(self) -> dict[StageKey, float]:
        """Return the allocated core-seconds per stage attempt over all executors."""
        total: dict[StageKey, float] = {}
        for executor in self.executors.values():
            for key, use in executor.use().items():
                total[key] = total.get(key, 0.0) + use.allocated_core_s
        return total

    def stage_throttling(self) -> dict[StageKey, float]:
        """Return the seconds that quotas held each stage attempt back, over all executors; without the attempts for which an
        executor does not know them."""
        total: dict[StageKey, float | None] = {}
        for executor in self.executors.values():
            for key, use in executor.use().items():
                total[key] = known_sum(total.get(key, 0.0), use.throttled_s)
        return {key: seconds for key, seconds in total.items() if seconds is not None}

    def withheld_core_s(self) -> float:
        """Return all core-seconds that squeezes ever withheld, given back or not."""
        return sum(e.record.debt.withheld_core_s for e in self.executors.values())

    def squeezed_by(self) -> dict[str, float]:
        """Return the core-seconds withheld from the application, by the name of the application that had the cores."""
        total: dict[str, float] = {}
        for executor in self.executors.values():
            for name, core_s in executor.record.squeezed_by.items():
                total[name] = total.get(name, 0.0) + core_s
        return total
