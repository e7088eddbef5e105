"""The most an application can get of the workers it may use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controller.wire.worker import WorkerInfo
from stage_model.deadlines import initial_cores


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most an application can get: cores and slots over its workers, cores one task can use, executors; and the longest
    control period of these workers."""

    cores: float
    slots: int
    speed_limit: float
    executors: int
    period_s: float = 1.0


def capacity(workers: Sequence[WorkerInfo], slots: Callable[[WorkerInfo], int], count: int | None) -> Capacity:
    """Capacity of the `count` largest of these workers (None: all)."""
    chosen = sorted(workers, key=lambda w: -w.cores)[: len(workers) if count is None else max(1, count)]
    slots_of = [slots(w) for w in chosen]
    per_slot = [min(w.cores, n) for w, n in zip(chosen, slots_of, strict=True)]
    return Capacity(
        cores=sum(per_slot),
        slots=sum(slots_of) or 1,
        speed_limit=min([1.0, *per_slot]) if per_slot else 1.0,
        executors=max(1, len(chosen)),
        period_s=max((w.period_s for w in workers), default=1.0),
    )


def initial(work_core_s: float, length_s: float, most: Capacity) -> float:
    """Initial cores per executor: records / (deadline * nominal rate) is work / deadline, shared by the executors."""
    per_executor = most.slots / most.executors
    if length_s <= 0 or work_core_s / length_s >= per_executor * most.executors:
        return per_executor
    return min(per_executor, initial_cores(work_core_s / length_s, most.executors))
