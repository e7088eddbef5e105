"""Spark's own wait for data-local executors, decided for each stage by document 002's forecast (`placement.locality`).

A stage's tasks wait if E = TT * S * K / t is 1 or more: TT the time to move a task's input (`spark.pace.locality.move`), S an
executor's slots, t the mean time of a task; only the driver knows K, the hosts with data of the stage's tasks, so the master
sends it the worth of one host. With the setting `none` tasks never wait; with a duration, they always wait that long.
"""

from __future__ import annotations

from controller.master.core.application import Application
from controller.wire.driver import Locality
from placement.locality import DataOutlook, expected_requests


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
