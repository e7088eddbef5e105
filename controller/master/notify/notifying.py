"""The shell of notifications: looks at all applications in each pass and sends what has happened (`events`)."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from controller.master.core.application import Application
from controller.master.core.findings import lateness_to_come
from controller.master.core.guard import guarded
from controller.master.core.registry import Registry
from controller.master.core.summary import error_pct
from controller.master.core.view import demanded_and_granted, forecast_end_s
from controller.master.notify.events import EventWatch, HookEvent, JobLook, Risk, body, refused_event, with_risk
from controller.master.notify.missing import MissingJobs
from controller.master.notify.sender import Sender
from controller.wire.states import Outcome
from stage_model.units import PRIORITIES


class Notifying:
    """The notifications of the cluster with this id; `wall` is seconds since the epoch. `missing` None: no one wants to know
    of jobs that did not come."""

    def __init__(
        self, sender: Sender, cluster_id: str, wall: Callable[[], float], missing: MissingJobs | None = None
    ) -> None:
        self._sender, self._cluster_id, self._wall = sender, cluster_id, wall
        self._watch, self._missing = EventWatch(), missing

    def look(self, registry: Registry, now_s: float) -> None:
        """Send what has happened since the look before; `now_s` is monotonic."""
        looks = list[JobLook]()
        for application in registry.applications.values():
            with guarded(application, "looking at it for a notification"):
                looks.append(_look(application, now_s))
        for event in self._watch.events(looks, now_s):
            self._tell(_explained(event, registry, now_s) if event.event == "deadline_at_risk" else event)
        for event in self._missing.events(registry.submitted, self._wall()) if self._missing else ():
            self._tell(event)

    def refused(self, name: str, reason: str, deadline_s: float | None) -> None:
        """Send that a submission of that name, which had asked for that deadline, was refused."""
        self._tell(refused_event(name, reason, deadline_s))

    def counts(self) -> tuple[dict[str, int], int]:
        return self._sender.counts()

    def _tell(self, event: HookEvent) -> None:
        notification_id = uuid.uuid4().hex
        content = body(event, notification_id=notification_id, epoch_s=self._wall(), cluster_id=self._cluster_id)
        self._sender.put(notification_id, content)


def _look(application: Application, now_s: float) -> JobLook:
    """Return the deadline and forecast end as `ps` and the metrics show them; of an application that has ended, as they are
    counted."""
    elapsed_s = application.elapsed_s(now_s)
    outcome = application.record.outcome
    if outcome is None:
        target = application.target()
        deadline_s = None if target is None else target.due_s
        return JobLook(application.id, application.name, elapsed_s, deadline_s, forecast_end_s(application))
    deadline_s = application.options.deadline_s
    error = error_pct(elapsed_s, deadline_s) if outcome is Outcome.SUCCEEDED else None
    lateness = application.record.lateness
    return JobLook(
        application.id,
        application.name,
        elapsed_s,
        deadline_s,
        outcome=outcome,
        error_pct=None if error is None else round(error, 4),
        reason=application.record.end_reason,
        lateness=lateness.sentence if lateness else "",
        squeezed_by=lateness.by if lateness else (),
        attached=application.attached,
    )


def _explained(event: HookEvent, registry: Registry, now_s: float) -> HookEvent:
    """Return the event of a deadline at risk with its reasons; without them if they cannot be worked out."""
    application = registry.applications[event.application_id or ""]
    with guarded(application, "saying why its deadline is at risk"):
        return with_risk(event, _risk(application, registry, now_s))
    return event


def _risk(application: Application, registry: Registry, now_s: float) -> Risk:
    end_s, most = forecast_end_s(application), registry.workers.capacity(application, now_s)
    limits = registry.shares.limits_of(application.uid)
    lateness = None if end_s is None else lateness_to_come(application, most, end_s)
    demanded, granted = demanded_and_granted(application)
    return Risk(
        late_since_s=application.late_since_s(),
        lateness=lateness.sentence if lateness else "",
        squeezed_by=lateness.by if lateness else (),
        waits_for=application.placement.waiting,
        demanded_cores=demanded,
        granted_cores=granted,
        priority=application.priority(),
        highest_priority=PRIORITIES["high"] if limits is None or limits.priority is None else limits.priority,
    )
