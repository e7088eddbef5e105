"""Deadlines of single jobs in a long-lived session: `sc.setLocalProperty("spark.pace.deadline", "60s")`.

An *action* is a job, or all jobs of one SQL execution (AQE starts several), that was submitted with the property set; its
deadline counts from its first job's start. Of actions under way at once the one with the least time left governs. Read from
job events, so a restart of the master replays it. Not covered: what follows for stages and cores (`planning`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from stage_model.errors import BadInput
from stage_model.history.events import AnyEvent, JobEnd, JobStart
from stage_model.units import parse_deadline, parse_priority

DEADLINE = "spark.pace.deadline"
PRIORITY = "spark.pace.priority"


@dataclass(slots=True)
class Action:
    """Times are milliseconds of the driver's clock, as in events. `priority` None: the application's."""

    name: str
    start_ms: int
    deadline_s: float
    priority: int | None
    jobs: set[int]
    under_way: set[int]
    end_ms: int | None = None


@dataclass(slots=True)
class Actions:
    """All actions of one application, by SQL execution or job. `conf` is what the application was started with."""

    conf: Mapping[str, str] = field(default_factory=dict)
    by_key: dict[str, Action] = field(default_factory=dict)

    def apply(self, event: AnyEvent) -> str:
        """Folds one event in; returns a sentence for the user when a property cannot be read."""
        if isinstance(event, JobStart):
            return self._started(event)
        if isinstance(event, JobEnd):
            for action in self.by_key.values():
                if event.job in action.under_way:
                    action.under_way.discard(event.job)
                    action.end_ms = event.time_ms
        return ""

    def _started(self, event: JobStart) -> str:
        key = f"job {event.job}" if event.sql_execution is None else f"query {event.sql_execution}"
        known = self.by_key.get(key)
        if known is not None:
            if event.job not in known.jobs:
                known.jobs.add(event.job)
                known.under_way.add(event.job)
            return ""
        text = self._own(event, DEADLINE)
        if text is None:
            return ""
        try:
            wall_ms = event.time_ms if event.wall_ms is None else event.wall_ms
            deadline_s = parse_deadline(text, datetime.fromtimestamp(wall_ms / 1000, UTC), option=DEADLINE)
            given = self._own(event, PRIORITY)
            priority = None if given is None else parse_priority(given, option=PRIORITY)
        except BadInput as error:
            return f"{key} goes on without a deadline of its own: {error}"
        self.by_key[key] = Action(
            name=event.properties.get("spark.job.description") or key,
            start_ms=event.time_ms,
            deadline_s=deadline_s,
            priority=priority,
            jobs={event.job},
            under_way={event.job},
        )
        return ""

    def _own(self, event: JobStart, key: str) -> str | None:
        """The property if the job has it of its own: to a query's jobs Spark gives all settings of its session
        (SQLExecution.withSQLConfPropagated), also those that the application was started with."""
        text = event.properties.get(key)
        return None if event.sql_execution is not None and text == self.conf.get(key) else text

    def current(self) -> Action | None:
        """The one under way that is due first."""
        if not self.by_key:  # as in most applications; it is asked often
            return None
        under_way = (action for action in self.by_key.values() if action.under_way)
        return min(under_way, key=lambda action: action.start_ms + 1000 * action.deadline_s, default=None)
