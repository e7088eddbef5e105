"""The waiting of a stage's tasks by Spark's own metrics, as sums over its tasks and its attempts. Pure.

Not covered: what follows for what bounds the stage (`stage_model.forecast.bounds`).
"""

from __future__ import annotations

from collections.abc import Sequence

from stage_model.history.events import TaskEnd, TaskWaits
from stage_model.history.profile import StageWaits

NO_WAITS = TaskWaits()


def with_task(sums: TaskWaits | None, task: TaskEnd) -> TaskWaits | None:
    """Return the sums with a further task's metrics; None from the first task on whose metrics are not known. No task waits
    for longer than it runs; an amount below 0, which only a broken driver reports, counts as 0."""
    more = task.waits
    if sums is None or more is None:
        return None
    run_ms = max(0, task.run_ms)
    return TaskWaits(
        fetch_ms=sums.fetch_ms + min(max(0, more.fetch_ms), run_ms),
        remote_bytes=sums.remote_bytes + max(0, more.remote_bytes),
        write_ns=sums.write_ns + min(max(0, more.write_ns), 1_000_000 * run_ms),
        memory_spilled_bytes=sums.memory_spilled_bytes + max(0, more.memory_spilled_bytes),
        disk_spilled_bytes=sums.disk_spilled_bytes + max(0, more.disk_spilled_bytes),
    )


def of_attempts(attempts: Sequence[TaskWaits | None], scale: float) -> StageWaits | None:
    """Return the sums over a stage's attempts times `scale`; None if the metrics of one attempt are not known."""
    known = [waits for waits in attempts if waits is not None]
    if len(known) < len(attempts):
        return None
    return StageWaits(
        fetch_s=scale * sum(waits.fetch_ms for waits in known) / 1e3,
        remote_bytes=round(scale * sum(waits.remote_bytes for waits in known)),
        write_s=scale * sum(waits.write_ns for waits in known) / 1e9,
        memory_spilled_bytes=round(scale * sum(waits.memory_spilled_bytes for waits in known)),
        disk_spilled_bytes=round(scale * sum(waits.disk_spilled_bytes for waits in known)),
    )
