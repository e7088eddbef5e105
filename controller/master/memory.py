"""Who has which memory on which worker, who waits in which order, and what memory lacks: derived anew whenever it is asked.

The arithmetic is `master_memory.split`; this module finds the applications on a worker, puts those that wait in order
(priority, then arrival) and says it to people. Sizes are MiB. Which worker takes an executor is `placing`; how a running one
gets to its budget is the agent's matter (`controller.agent.memory`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller.master.application import Application, Executor, Placed
from controller.messages import WorkerInfo
from master_memory.room import free_mb
from master_memory.split import POLICIES, Need, share_mb

Rank = tuple[int, float, str]


def budgets(info: WorkerInfo, there: Iterable[Placed], policy: str) -> dict[str, int]:
    """The wanted split of one worker: off-heap memory by "APPLICATION/EXECUTOR"; `there` are the executors placed on it."""
    return POLICIES[policy](info.memory_mb, occupants(there))


def occupants(there: Iterable[Placed]) -> list[Need]:
    """Who of them counts."""
    return [_need(application, executor) for application, executor in there if counts(application, executor)]


# ---------------------------------------------------------------- waiting


def by_rank(applications: Iterable[Application]) -> list[Application]:
    """Higher priority first, then who was submitted first."""
    return sorted(applications, key=rank)


def waits(application: Application) -> bool:
    """It wants executors and has none."""
    if application.ended:
        return False
    wants = any(wish.count is None or wish.count > 0 for wish in application.wanted.values())
    return wants and not any(counts(application, executor) for executor in application.executors.values())


def waiting_line(application: Application, place: int | None) -> str | None:
    """Place and reason, for the terminal of a stock spark-submit; `submit` says it from the view."""
    if place is None or not application.waiting or application.options.submission is not None:
        return None
    return f"waits, place {place}: {application.waiting}"


def ahead(application: Application, applications: Iterable[Application]) -> list[Application]:
    """Those that wait for room and come first; one that waits for another application to end keeps nobody out."""
    return [other for other in applications if waits(other) and not other.held_back and rank(other) < rank(application)]


def lacking(workers: Sequence[tuple[str, int, Sequence[Need], Need]]) -> str:
    """What memory lacks on these workers (name, MiB, who is there, what the newcomer needs there), as one clause."""
    name, memory_mb, present, need = max(workers, key=lambda one: share_mb(one[1], [*one[2], one[3]]))
    after = [*present, need]
    elastic = [one for one in after if one.floor_mb is not None]
    if not elastic or sum(one.least_mb for one in after) > memory_mb:
        free = max(free_mb(size, (one.least_mb for one in there)) for _, size, there, _ in workers)
        return f"an executor needs {need.least_mb} MiB and the most that is free on a worker is {free} MiB"
    share, most = share_mb(memory_mb, after), max(one.fixed_mb for one in elastic)
    return (
        f"with it each of {len(elastic)} on worker {name} would have {share} MiB of off-heap memory, less than "
        f"the {most} MiB of heap, overhead and Python"
    )


def rank(application: Application) -> Rank:
    """Less comes first."""
    return (-application.priority(), application.started_s, application.id)


def counts(application: Application, executor: Executor) -> bool:
    """Whether it is wanted and live; one that is being stopped still has its container, for which the agent waits."""
    return executor.live and not executor.record.planned_end and not application.ended


def _need(application: Application, executor: Executor) -> Need:
    """What an executor claims to hold is believed up to its container's limit."""
    spec, report = executor.record.spec, executor.report
    most_mb = max(0, report.memory_limit_mb - spec.memory_mb) if report else 0
    return Need(
        key=f"{application.id}/{executor.record.executor_id}",
        fixed_mb=spec.memory_mb,
        floor_mb=spec.off_heap_floor_mb,
        budget_mb=report.off_heap_mb if report else None,
        execution_mb=min(most_mb, report.off_heap_execution_mb) if report else 0,
        storage_mb=min(most_mb, report.off_heap_storage_mb) if report else 0,
        priority=application.priority(),
    )
