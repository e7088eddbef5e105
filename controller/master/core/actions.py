"""Deadlines of single jobs in a long-lived session: `sc.setLocalProperty("spark.pace.deadline", "60s")`.

An *action* is a job, or all jobs of one SQL execution (AQE starts several), that was submitted with the property set; its
deadline counts from its first job's start. Several actions may be under way at once, each with a deadline of its own.
Deadlines are read from job events, so a restart of the master replays them. Properties leak: a query's jobs carry all
settings of its session, and the threads of a PySpark pool share one set of properties, in which queries that run at once
leave their settings to later jobs. So a value that equals the application's counts for no job. Not covered: what follows for
stages and cores (`planning`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import partial
from heapq import heappop, heappush
from typing import TypeVar

from controller.wire.limits import NOTICE_LENGTH
from stage_model.errors import BadInput
from stage_model.history.events import AnyEvent, JobEnd, JobStart
from stage_model.units import parse_deadline, parse_priority

Number = TypeVar("Number", int, float)

MOST_AIMS = 16
"""Most actions under way whose deadlines count, the actions that are due first: each is work in every period."""
DEADLINE = "spark.pace.deadline"
PRIORITY = "spark.pace.priority"
EQUAL_S = 0.001
"""Deadlines closer than this are equal: `sparkpace submit` writes whole milliseconds."""


@dataclass(slots=True)
class Action:
    """An action of an application. Times are milliseconds of the driver's clock, as in events. `priority` None: the
    application's."""

    name: str
    start_ms: int
    deadline_s: float
    priority: int | None
    number: int
    """The action's place in the order of beginning."""
    jobs: set[int] = field(default_factory=set)
    under_way: set[int] = field(default_factory=set)
    end_ms: int | None = None


def key_of(event: JobStart) -> str:
    """Return the name of the query or job that a job is part of."""
    return f"job {event.job}" if event.sql_execution is None else f"query {event.sql_execution}"


@dataclass(slots=True)
class Actions:
    """All actions of one application, by SQL execution or job. `conf` is what the application was started with; times
    of day are of `zone`."""

    conf: Mapping[str, str] = field(default_factory=dict)
    zone: tzinfo = UTC
    by_key: dict[str, Action] = field(default_factory=dict)
    _of_job: dict[int, Action] = field(default_factory=dict)
    _due: list[tuple[float, int, str]] = field(default_factory=list)
    """A heap of actions under way, and of some that have ended: the time when each is due; actions due at one time are in
    order of beginning."""

    def apply(self, event: AnyEvent) -> str:
        """Fold one event in; return a sentence for the user when a property cannot be read."""
        if isinstance(event, JobStart):
            return self._started(event)
        if isinstance(event, JobEnd):
            action = self._of_job.get(event.job)
            if action is not None and event.job in action.under_way:
                action.under_way.discard(event.job)
                action.end_ms = event.time_ms
        return ""

    def _started(self, event: JobStart) -> str:
        key = key_of(event)
        known = self.by_key.get(key)
        if known is not None:
            if event.job not in self._of_job:
                self._begins(key, known, event.job)
            return ""
        try:
            action = self.begun_by(event)
        except BadInput as error:
            return f"{key} goes on without a deadline of its own: {error}"
        if action is not None:
            self.by_key[key] = action
            self._begins(key, action, event.job)
        return ""

    def begun_by(self, event: JobStart) -> Action | None:
        """Return the action that a job begins; None for a job of an action that has begun, or without a deadline of its own.
        Raise `BadInput` for a property that cannot be read."""
        key = key_of(event)
        if key in self.by_key or event.job in self._of_job:
            return None
        wall_ms = event.time_ms if event.wall_ms is None else event.wall_ms
        started = datetime.fromtimestamp(wall_ms / 1000, self.zone)
        deadline_s = self._own(event, DEADLINE, partial(parse_deadline, now=started, option=DEADLINE))
        if deadline_s is None:
            return None
        return Action(
            name=(event.properties.get("spark.job.description") or key)[:NOTICE_LENGTH],
            start_ms=event.time_ms,
            deadline_s=deadline_s,
            priority=self._own(event, PRIORITY, partial(parse_priority, option=PRIORITY)),
            number=len(self.by_key),
        )

    def _begins(self, key: str, action: Action, job: int) -> None:
        self._of_job[job] = action
        action.jobs.add(job)
        if not action.under_way:
            heappush(self._due, (action.start_ms + 1000 * action.deadline_s, action.number, key))
        action.under_way.add(job)

    def _own(self, event: JobStart, key: str, parse: Callable[[str], Number]) -> Number | None:
        """Return the property's value if the job has one and it differs from what the application was started with, however
        the two are written. Changes by `sparkpace set` reach no job's properties. Raise `BadInput` for a value that is
        refused."""
        text, started_with = event.properties.get(key), self.conf.get(key)
        if text is None or text == started_with:
            return None
        value = parse(text)
        try:
            equal = started_with is not None and abs(value - parse(started_with)) < EQUAL_S
        except BadInput:  # the application was started with a time of day that has passed since
            equal = False
        return None if equal else value

    def under_way(self) -> list[Action]:
        """Return the actions under way that are due first, in that order."""
        found: list[tuple[float, int, str]] = []
        while self._due and len(found) < MOST_AIMS:
            entry = heappop(self._due)
            # a query between two of its jobs was not under way, and was added once more
            if self.by_key[entry[2]].under_way and entry not in found[-1:]:
                found.append(entry)
        for entry in found:
            heappush(self._due, entry)
        return [self.by_key[key] for _, _, key in found]
