"""Who has which memory on which worker, who may join, who waits and why: all of it derived anew whenever it is asked.

The arithmetic is `master_memory.split`; this module finds the applications on a worker, puts those that wait in order
(priority, then arrival) and says it to people. Sizes are MiB. How a running executor gets to its budget is the agent's matter
(`controller.agent.memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from controller.master.application import Application, Executor, Placed
from controller.master.executor_spec import executor_memory, executor_slots
from controller.messages import ExecutorWish, WorkerInfo
from master_memory.room import free_mb
from master_memory.split import POLICIES, Need, admits, share_mb
from placement.spread import Room

Rank = tuple[int, float, str]
On = Callable[[str], Iterable[Placed]]
"""The executors placed on a worker, by its id."""


def budgets(info: WorkerInfo, there: Iterable[Placed], policy: str) -> dict[str, int]:
    """The wanted split of one worker: off-heap memory by "APPLICATION/EXECUTOR"; `there` are the executors placed on it."""
    return POLICIES[policy](info.memory_mb, occupants(there))


def occupants(there: Iterable[Placed]) -> list[Need]:
    """Who counts of them: executors that are wanted and live. One that is being stopped still has its container, for which
    the agent waits."""
    return [_need(application, executor) for application, executor in there if _counts(application, executor)]


def newcomer(application: Application, wish: ExecutorWish, profile_id: str, info: WorkerInfo) -> Need:
    """What a further executor of the application would need on that worker. Raises `BadInput` for unreadable sizes."""
    registration = application.record.registration
    slots = executor_slots(registration.conf, wish, profile_id, info)
    memory = executor_memory(registration.conf, wish, slots, python=registration.python is not None)
    return Need(f"{application.id}/new", memory.total_mb, memory.off_heap_floor_mb)


# ---------------------------------------------------------------- waiting


def by_rank(applications: Iterable[Application]) -> list[Application]:
    """Higher priority first, then who was submitted first."""
    return sorted(applications, key=_rank)


def waits(application: Application) -> bool:
    """It wants executors and has none."""
    if application.ended:
        return False
    wants = any(wish.count is None or wish.count > 0 for wish in application.wanted.values())
    return wants and not any(_counts(application, executor) for executor in application.executors.values())


def place(application: Application, applications: Iterable[Application]) -> int | None:
    """From 1 among those that wait; None for one that does not."""
    if not waits(application):
        return None
    return 1 + sum(1 for other in applications if waits(other) and _rank(other) < _rank(application))


def waiting_line(application: Application, applications: Iterable[Application]) -> str | None:
    """Place and reason, for the terminal of a stock spark-submit; `submit` says it from the view."""
    number = place(application, applications)
    if number is None or not application.waiting or application.options.submission is not None:
        return None
    return f"waits, place {number}: {application.waiting}"


# ---------------------------------------------------------------- who fits where


def rooms(
    application: Application,
    wish: ExecutorWish,
    profile_id: str,
    workers: Sequence[WorkerInfo],
    applications: Iterable[Application],
    on: On,
) -> list[Room]:
    """The workers as placement sees them for one application: with the container it would get there, 0 where it may not go,
    because it does not fit or because one ahead of it waits for that worker."""
    ahead = _ahead(application, applications)
    taken = {e.record.worker_id for e in application.executors.values() if not e.cleaned}
    found = []
    needs: dict[int, Need] = {}
    """Of workers where it would have so many slots: the same."""
    for info in workers:
        present = occupants(on(info.worker_id))
        slots = executor_slots(application.record.registration.conf, wish, profile_id, info)
        if slots not in needs:
            needs[slots] = newcomer(application, wish, profile_id, info)
        need, container_mb = needs[slots], 0
        if not _kept_for(info, ahead) and admits(info.memory_mb, present, need):
            elastic = need.floor_mb is not None
            container_mb = need.fixed_mb + share_mb(info.memory_mb, [*present, need]) if elastic else _free_mb(info, present)
        found.append(
            Room(
                worker_id=info.worker_id,
                cores=info.cores,
                memory_mb=info.memory_mb,
                free_memory_mb=container_mb,
                taken=info.worker_id in taken,
            )
        )
    return found


def least_mb(application: Application, wish: ExecutorWish, profile_id: str, workers: Sequence[WorkerInfo]) -> int:
    """The smallest container of the application on any of these workers."""
    return min((newcomer(application, wish, profile_id, info).least_mb for info in workers), default=0)


def why_waiting(
    application: Application,
    wish: ExecutorWish,
    profile_id: str,
    workers: Sequence[WorkerInfo],
    applications: Iterable[Application],
    on: On,
) -> str:
    """One clause that says why no worker takes an executor of it now."""
    if not workers:
        return "no worker has joined"
    ahead = _ahead(application, applications)
    open_to_it = [info for info in workers if not _kept_for(info, ahead)]
    if not open_to_it:
        return f"{len(ahead)} ahead of it {'waits' if len(ahead) == 1 else 'wait'} for memory, too"
    nearest, present, need = max(
        ((info, occupants(on(info.worker_id)), newcomer(application, wish, profile_id, info)) for info in open_to_it),
        key=lambda found: share_mb(found[0].memory_mb, [*found[1], found[2]]),
    )
    after = [*present, need]
    elastic = [one for one in after if one.floor_mb is not None]
    if not elastic or sum(one.least_mb for one in after) > nearest.memory_mb:
        free = max(_free_mb(info, occupants(on(info.worker_id))) for info in open_to_it)
        return f"an executor needs {need.least_mb} MiB and the most that is free on a worker is {free} MiB"
    if admits(nearest.memory_mb, present, need):
        return "its executor on every worker that has room is not removed yet"
    share, most = share_mb(nearest.memory_mb, after), max(one.fixed_mb for one in elastic)
    return (
        f"with it each of {len(elastic)} on worker {nearest.worker_id} would have {share} MiB of off-heap memory, less than "
        f"the {most} MiB of heap, overhead and Python"
    )


def _rank(application: Application) -> Rank:
    return (-application.options.priority, application.record.started_epoch_s, application.id)


def _ahead(application: Application, applications: Iterable[Application]) -> list[Application]:
    return [other for other in applications if waits(other) and _rank(other) < _rank(application)]


def _kept_for(info: WorkerInfo, ahead: Iterable[Application]) -> bool:
    """Somebody ahead may go there sooner or later: one that is too large for the worker keeps nobody from it."""
    return any(
        newcomer(other, wish, profile_id, info).least_mb <= info.memory_mb
        for other in ahead
        for profile_id, wish in other.wanted.items()
    )


def _counts(application: Application, executor: Executor) -> bool:
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
    )


def _free_mb(info: WorkerInfo, present: Iterable[Need]) -> int:
    return free_mb(info.memory_mb, (one.least_mb for one in present))
