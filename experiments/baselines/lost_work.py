"""The story of a job under a stock scheduler, from its Spark event log: its times, and the work lost with killed executors.

Work is lost when a task ended without success, and when a task that had succeeded was run again because its output had gone
with its executor. A task's seconds count as many cores as its slot has: an upper bound of its CPU, because a task may wait
for data. Cached partitions that had to be made again inside other tasks are not seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controller.runs.eventlog_files import event_log_lines
from stage_model.errors import BadInput
from stage_model.history.eventlog import read_line
from stage_model.history.eventlog_schema import ApplicationStart, EventLine
from stage_model.history.events import ApplicationEnd, ExecutorRemoved, TaskEnd


@dataclass(slots=True)
class Story:
    """One application. Times are epoch milliseconds; None: not known."""

    app_id: str = ""
    name: str = ""
    end_ms: int | None = None
    tasks: list[TaskEnd] = field(default_factory=list)
    removed_ms: list[int] = field(default_factory=list)

    def lost_tasks(self) -> Iterator[TaskEnd]:
        """Yield the attempts whose work was for nothing: without success, or followed by another success of the same task."""
        last: dict[tuple[int, int], TaskEnd] = {}
        for task in sorted(self.tasks, key=lambda one: one.finish_ms):
            if not task.ok:
                yield task
                continue
            before = last.get((task.stage, task.index))
            if before is not None:
                yield before
            last[task.stage, task.index] = task

    def summary(self, submitted_epoch_s: float, *, cores_per_slot: float) -> dict[str, Any]:
        """Return a summary like that of a Sparkpace run, as far as a log has its figures. Raise `BadInput` for a log without
        tasks or end."""
        if self.end_ms is None or not self.tasks:
            raise BadInput(
                f"the event log of {self.app_id or 'an application'} tells no task or no end; it did not run through"
            )

        def since_s(time_ms: int) -> float:
            return round(time_ms / 1000 - submitted_epoch_s, 3)

        first_ms = min(task.launch_ms for task in self.tasks)
        last_ms = max(task.finish_ms for task in self.tasks)
        lost_s = math.fsum(task.finish_ms - task.launch_ms for task in self.lost_tasks()) / 1000
        return {
            "app_id": self.app_id,
            "name": self.name,
            "deadline_s": None,
            "end_s": since_s(self.end_ms),
            "error_pct": None,
            "first_task_s": since_s(first_ms),
            "last_task_s": since_s(last_ms),
            "tasks_failed": sum(not task.ok for task in self.tasks),
            "executors_lost": sum(time_ms <= last_ms for time_ms in self.removed_ms),
            "lost_core_s": round(lost_s * cores_per_slot, 3),
            "submitted_epoch_s": submitted_epoch_s,
        }


def read_story(path: Path) -> Story:
    return tell(event_log_lines(path))


def tell(lines: Iterable[bytes]) -> Story:
    story = Story()
    for line in lines:
        found = read_line(line) if line.strip() else None
        if isinstance(found, ApplicationStart):
            story.app_id, story.name = found.id or "", found.name
        elif isinstance(found, EventLine):
            event = found.event()
            if isinstance(event, TaskEnd):
                story.tasks.append(event)
            elif isinstance(event, ExecutorRemoved):
                story.removed_ms.append(event.time_ms)
            elif isinstance(event, ApplicationEnd):
                story.end_ms = event.time_ms
    return story
