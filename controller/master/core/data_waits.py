"""Two waits for an application's data: the application's for a worker that has its input, and Spark's own, in each stage, for
executors near that stage's input. Both follow from document 002's forecast (`placement.data_wait`).

A stage's tasks wait if E = TT * S * K / t is 1 or more: TT the time to move a task's input (`spark.pace.locality.move`), S an
executor's slots, t the mean time of a task; only the driver knows K, the hosts with data of the stage's tasks, so the master
sends it the worth of one host. With the setting `none` tasks never wait; with a duration, they always wait that long.
"""

from __future__ import annotations

from controller.master.core.application import Application
from controller.master.core.queue import Queue
from controller.master.core.registry import Registry
from controller.wire.driver import Locality
from placement.data_wait import DataOutlook, DataWait, Patience, expected_requests


def data_shares(application: Application) -> dict[str, float]:
    """Return each host's share of the application's input."""
    return application.placement.shares(application.options.placement.prefer)


# ---------------------------------------------------------------- for a worker


def patience(application: Application, queue: Queue, now_s: float) -> Patience | None:
    """Return the way in which the application waits for a worker that has its input; None if it never waits."""
    options, waits, known = application.options.placement, application.record.data_waits, queue.registry.applications
    if options.wait == "none":
        return None
    stages = application.estimate.stages if application.estimate else ()
    return Patience(
        wait=options.wait,
        move_s=options.move_s,
        tasks=stages[0].tasks if stages else 1,
        deadline_s=application.options.deadline_s,
        elapsed_s=application.elapsed_s(now_s),
        last=waits[-1] if waits else None,
        duration_s=lambda name: _duration_s(known[name]) if name in known else None,
        ahead=lambda: [data_shares(known[name]) for name in queue.before(application)],
    )


def _duration_s(application: Application) -> float:
    """Return the application's duration as far as it is known: its deadline, else what its profile says, else as long as it
    has taken."""
    if application.options.deadline_s is not None:
        return application.options.deadline_s
    if application.estimate is not None:
        return max(1.0, sum(stage.duration_s for stage in application.estimate.stages))
    return max(1.0, application.heard_s - application.started_s)


def keep(application: Application, wait: DataWait, registry: Registry) -> None:
    """Keep a wait for a worker, which is stored when it begins and when it is over."""
    waits, goes_on = application.record.data_waits, application.waits_for_data
    if goes_on:
        waits.pop()
    waits.append(wait)
    if not goes_on or wait.local is not None:
        registry.changes.order(application)
        registry.save(application)


# ---------------------------------------------------------------- for executors


def locality(application: Application) -> Locality | None:
    """Return the worth of a host and the wait; None, for Spark's own waits, while the times of tasks are not known."""
    options = application.options.placement
    if options.wait == "none":
        return Locality(worth=0.0, wait_ms=0)
    if not isinstance(options.wait, str):
        return Locality(worth=1.0, wait_ms=round(1000 * options.wait))
    task_s = mean_task_s(application)
    live = [executor.record.slots for executor in application.live_executors()]
    if task_s is None or not live:
        return None
    worth = expected_requests(DataOutlook(options.move_s, sum(live) / len(live), task_s, machines=1))
    return Locality(worth=min(1.0, round(worth, 6)), wait_ms=round(1000 * options.move_s))


def mean_task_s(application: Application) -> float | None:
    """Return the mean time of this run's ended tasks, else of the profile's; None where it is not known."""
    stages = application.run.attempts.values()
    ended = sum(stage.ended for stage in stages)
    if ended:
        return sum(stage.run_ms for stage in stages) / 1000 / ended
    if application.estimate is None:
        return None
    tasks = sum(stage.tasks for stage in application.estimate.stages)
    return sum(stage.work_core_s for stage in application.estimate.stages) / tasks if tasks else None
