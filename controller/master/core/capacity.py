"""The most an application can get of the workers it may use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from controller.asks.allocation import most_executors
from controller.wire.worker import WorkerInfo
from placement.growth import WorkerType
from stage_model.deadlines import initial_cores


@dataclass(frozen=True, slots=True)
class Capacity:
    """The most an application can get: cores and slots over its workers, cores that one task can use, executors; and the
    longest control period of these workers. Of unlike workers the mean over the slots counts for a task, because a worker of
    less than a core slows only its own tasks."""

    cores: float
    slots: int
    speed_limit: float
    executors: int
    period_s: float = 1.0


def capacity(workers: Sequence[WorkerInfo], slots: Callable[[WorkerInfo], int], count: int | None) -> Capacity:
    """Return the capacity of the `count` largest of these workers (None: all)."""
    chosen = sorted(workers, key=lambda w: -w.cores)[: len(workers) if count is None else max(1, count)]
    return capacity_of([(w.cores, slots(w)) for w in chosen], len(chosen), workers)


def slots_on(cores: float, most: int | None) -> int:
    """Return the slots of an executor on a worker: all its `cores`, rounded up, and `most` at most (None: no limit)."""
    slots = math.ceil(cores)
    return slots if most is None else max(1, min(slots, most))


def expected_worker(kind: WorkerType) -> WorkerInfo:
    """Return a worker that is not there yet, with the fields that capacity needs."""
    return WorkerInfo(worker_id="", host="", cores=kind.cores, memory_mb=kind.memory_mb, runtime="", pid=0, boot_id="")


def asked_capacity(conf: Mapping[str, str], workers: Sequence[WorkerInfo]) -> Capacity:
    """Return the capacity that the settings of an attached application without executors yet ask for, as a cluster manager
    would share these workers out: a number of cores (spark.cores.max), or executors of a number of cores; without either
    setting, all cores."""
    per = _whole(conf, "spark.executor.cores")
    instances = most_executors(conf, _whole(conf, "spark.executor.instances"))
    left = min(_whole(conf, "spark.cores.max") or math.inf, math.inf if instances is None or per is None else instances * per)
    shares = []
    for cores in sorted((w.cores / w.nodes for w in workers for _ in range(w.nodes)), reverse=True):
        slots = int(min(left, math.ceil(cores)))
        if not slots:
            break
        left -= slots
        shares.append((cores, slots))
    return capacity_of(shares, len(shares), workers)


def capacity_of(shares: Sequence[tuple[float, int]], executors: int, workers: Sequence[WorkerInfo]) -> Capacity:
    """Return the capacity of `shares`, the cores and slots of each worker."""
    slots = sum(slots for _, slots in shares)
    return Capacity(
        cores=sum(min(has, slots) for has, slots in shares),
        slots=slots or 1,
        speed_limit=sum(slots * min(1.0, has) for has, slots in shares) / slots if slots else 1.0,
        executors=max(1, executors),
        period_s=max((w.period_s for w in workers), default=1.0),
    )


def _whole(conf: Mapping[str, str], key: str) -> int | None:
    text = conf.get(key, "").strip()
    return int(text) if text.isdecimal() and int(text) else None


def initial(work_core_s: float, length_s: float, most: Capacity) -> float:
    """Return the initial cores per executor: records / (deadline * nominal rate) is work / deadline, shared by the
    executors."""
    per_executor = most.slots / most.executors
    if length_s <= 0 or work_core_s / length_s >= per_executor * most.executors:
        return per_executor
    return min(per_executor, initial_cores(work_core_s / length_s, most.executors))
