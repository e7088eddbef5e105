"""The executors' need of a worker: of its memory, in MiB, as the memory manager (`master_memory`) sees it; and the peak of
cores that is planned for each, for which placement and growth leave room."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from controller.master.core.application import Application, Resident
from controller.master.core.executor_spec import executor_memory, executor_slots
from controller.master.core.executor_state import Executor
from controller.master.core.feasibility import whole_forecast
from controller.master.core.placement_state import PlannedCores
from controller.master.core.workers import Workers
from controller.runtime.base import ExecutorKey
from controller.wire.driver import ExecutorWish
from controller.wire.worker import ExecutorSpec
from master_memory.split import Need


def needs(there: Iterable[Resident]) -> list[Need]:
    """Return the needs of executors on a worker that count; their cluster manager accounts for the memory of adopted
    executors."""
    return [
        _need(application, executor, executor.record.spec)
        for application, executor in there
        if executor.record.spec is not None and counts(application, executor)
    ]


def need_of_another(application: Application, profile_id: str, wish: ExecutorWish) -> Callable[[float], Need]:
    """Return a function from a worker's cores to the need of a further executor there; it raises `BadInput` where the
    executor cannot run."""
    registration = application.record.registration

    def need(cores: float) -> Need:
        slots = executor_slots(registration.conf, wish, profile_id, cores)
        size = executor_memory(registration.conf, wish, slots, python=registration.python is not None)
        return Need(f"{application.id}/new", size.total_mb, size.off_heap_floor_mb, priority=application.priority())

    return need


def counts(application: Application, executor: Executor) -> bool:
    """Return True if the executor is wanted and live. An executor that is being stopped still has its container, for which
    the agent waits."""
    return executor.live and not executor.record.planned_end and not application.ended


def _need(application: Application, executor: Executor, spec: ExecutorSpec) -> Need:
    """Return the need of an executor, whose claims to hold memory are believed up to its container's limit. A watched
    executor that runs keeps all memory of its container, so no other executor can count on it."""
    key, report = ExecutorKey(application.id, executor.record.executor_id).text, executor.report
    if spec.watched and report is not None and report.memory_limit_mb:
        return Need(key, report.memory_limit_mb, priority=application.priority())
    most_mb = max(0, report.memory_limit_mb - spec.memory_mb) if report else 0
    return Need(
        key=key,
        fixed_mb=spec.memory_mb,
        floor_mb=spec.off_heap_floor_mb,
        budget_mb=report.off_heap_mb if report else None,
        execution_mb=min(most_mb, report.off_heap_execution_mb) if report else 0,
        storage_mb=min(most_mb, report.off_heap_storage_mb) if report else 0,
        priority=application.priority(),
    )


def needs_peak(application: Application) -> bool:
    """Return True if the application needs its planned peak to keep its deadline; otherwise it can use that much, or less."""
    return application.estimate is not None and application.options.deadline_s is not None


def planned_peak(application: Application, workers: Workers, now_s: float, slots: int | None = None) -> float:
    """Return the peak that is planned for one executor, in cores: its share of the least cores for the deadline as they were
    at submission. Without a deadline or a profile the peak is all that an executor can use: its `slots` once it is placed,
    before that the mean over the workers that the application may get."""
    what, deadline_s = application.estimate, application.options.deadline_s
    if slots is not None and not needs_peak(application):
        return float(slots)
    known = application.placement.planned_cores
    if known is None or known.estimate is not what or known.deadline_s != deadline_s:
        most = workers.capacity(application, now_s)
        cores = None if what is None or deadline_s is None else whole_forecast(what, most).least_cores(deadline_s)
        peak = most.cores if cores is None else min(cores, most.cores)
        known = PlannedCores(what, deadline_s, peak / most.executors)
        # without a worker the peak is not known yet
        application.placement.planned_cores = known if most.cores else None
    return known.cores
