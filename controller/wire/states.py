"""States of applications and executors and the outcomes of applications, as messages and stored records name them."""

from __future__ import annotations

from enum import StrEnum


class ApplicationState(StrEnum):
    """The state of an application, as people see it. The master knows further states (`controller.master.core.life`)."""

    WAITING = "waiting"
    """A state before any of its executors has run."""
    RUNNING = "running"
    ENDED = "ended"


class ExecutorState(StrEnum):
    """The state of an executor, as its agent sees it."""

    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    REFUSED = "refused"
    """An executor that can never start on this worker."""


class Outcome(StrEnum):
    """The way an application ended, as it is stored with the application's record."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    KILLED = "killed"
    """An end by `sparkpace kill`, or by a signal that asked its driver to end."""
    DRIVER_DIED = "driver_died"
    """The end of an application whose driver was gone without a farewell."""
    STOPPED = "stopped"
    """An end by the master, which says why."""
    UNKNOWN = "unknown"
    """An end that no one has seen, of an application whose jobs do not show that it ended well."""
