"""The life of an application: its executors are brought about, its driver is watched, its record is written in the end.

Whoever changes something does it within `Lifecycle.changing`, which does the rest.

What goes wrong with one application is left out and reported to its user (`guard`). Records are written off the master's loop
(`finish`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from controller.master import dependencies, executors, queue
from controller.master.application import Application
from controller.master.changes import Changes
from controller.master.finish import Finisher, Written
from controller.master.guard import guarded
from controller.master.outcome import DriverEnd
from controller.master.placing import Placing
from controller.master.registry import Registry
from controller.master.versions import Versions
from controller.wire.states import ExecutorState, Outcome
from stage_model.errors import NotStored, PaceError

CLEAN_UP_S = 15.0
"""Longest wait for the last words of driver and executors before a run's record is written."""
WORD_S = 15.0
"""Seconds from a driver's end within which `submit` must have reported the exit code. It reports at once, and again until the
master has taken the report."""
HEARD_S = 2.5
"""A driver that has reported within this time lives: bridges speak every second."""
SILENCE_S = 60.0
"""A driver that cannot be seen from here and was silent for this long, with no executor running, is gone."""


class Lifecycle:
    """The lives of all applications: what follows from changes, and what only time brings about."""

    def __init__(self, registry: Registry, placing: Placing, versions: Versions, finisher: Finisher) -> None:
        self.registry, self.placing, self.versions, self.finisher = registry, placing, versions, finisher

    @contextmanager
    def changing(self, now_s: float) -> Iterator[Changes]:
        """Run a block that changes something. Then follow up the changes that are noted, always in this order: executors are
        brought about, by rank; agents look again; all is stored. After an exception the next block's end does it."""
        changes = self.registry.changes
        yield changes
        noted = changes.take()
        for application in queue.by_rank(changes.take_lacking(noted)):
            if not self._has_executors(application, now_s):
                changes.lacking[application.id] = application
        self.versions.wake_agents([*noted, *changes.take()])
        self.registry.store.catch_up()

    def turns(self, now_s: float) -> None:
        """Do what only time brings about, for each application: its driver may have died, its record may be written."""
        for application in list(self.registry.applications.values()):
            with guarded(application, "its turn in a pass"):
                self._turn(application, now_s)

    def _turn(self, application: Application, now_s: float) -> None:
        if not application.ended and self._driver_gone(application, now_s):
            self.registry.end(application, now_s, Outcome.DRIVER_DIED)
        if application.ended:
            if application.record.outcome is None and not self._word_to_come(application, now_s):
                if application.record.driver_end is DriverEnd.TO_COME and not _in_sight(application):
                    application.record.driver_end = DriverEnd.UNKNOWN  # a driver out of sight may live
                self.registry.settle(application, now_s)
            self._try_finish(application, now_s)

    def _has_executors(self, application: Application, now_s: float) -> bool:
        """Bring the executors to what Spark wants; return True if nothing is left to do for them."""
        with guarded(application, "bringing its executors about"):
            return application.ended or self._bring_executors(application, now_s)
        return False

    def _bring_executors(self, application: Application, now_s: float) -> bool:
        if reason := executors.too_many_failures(application):
            self.registry.end(application, now_s, Outcome.STOPPED, reason)
            return True
        found, held_back = len(application.record.comes_after), application.held_back
        if dependencies.settle(application, self.registry.jobs, now_s):
            self.registry.end(application, now_s, Outcome.STOPPED, application.held_back)
            return True
        if application.held_back != held_back:
            self.registry.changes.order(application)
        if len(application.record.comes_after) != found:
            self.registry.save(application)
        try:
            return executors.reconcile(application, self.registry, self.placing, now_s)
        except PaceError as error:
            application.waiting = f"its executors cannot be placed: {error}"
            application.notify(application.waiting)
            return False

    def _driver_gone(self, application: Application, now_s: float) -> bool:
        """Return True if the driver is gone. A driver whose exit code is known is gone. The process of a silent driver on the
        master's host is looked for. A silent driver elsewhere, or in a container that cannot be looked into, is gone when no
        executor of it runs either."""
        if application.record.exit_code is not None:
            return True
        silent_s = now_s - application.heard_s
        if silent_s < HEARD_S:
            return False
        if _in_sight(application):
            return not application.record.registration.process.is_alive()
        running = any(e.report and e.report.state is ExecutorState.RUNNING for e in application.live_executors())
        return not running and silent_s > SILENCE_S

    def _word_to_come(self, application: Application, now_s: float) -> bool:
        """Return True if a report of how the driver ended is still to come for an application that has ended: from `submit`
        once the driver is gone, or from the driver's bridge before."""
        record, stays = application.record, application.options.submission is not None
        if record.exit_code is not None or record.cut_off in (Outcome.KILLED, Outcome.STOPPED):
            return False
        if not stays and record.driver_end is not DriverEnd.TO_COME:
            return False
        if not self._driver_gone(application, now_s):
            application.driver_gone_s = None
            return True
        if application.driver_gone_s is None:
            application.driver_gone_s = now_s
        return stays and now_s - application.driver_gone_s < WORD_S

    def _driver_to_be_told(self, application: Application, now_s: float) -> bool:
        """Return True if the driver must still learn that its application has ended: it has not said that it goes, and lives.
        An application that waits has no executors that would take a while to end."""
        told = application.farewell or application.record.cut_off in (None, Outcome.DRIVER_DIED)
        return not told and not self._driver_gone(application, now_s)

    def _try_finish(self, application: Application, now_s: float) -> None:
        if application.finished or application.ended_monotonic_s is None or application.record.outcome is None:
            return
        if not self.finisher.begun(application):
            heard, waited_s = self.registry.workers.fresh(now_s), now_s - application.ended_monotonic_s
            left = any(not e.cleaned and e.record.worker_id in heard for e in application.executors.values())
            if waited_s < CLEAN_UP_S and (left or self._driver_to_be_told(application, now_s)):
                return
            used = {e.record.worker_id for e in application.executors.values()}
            runtime = next((w.info.runtime for w in self.registry.workers.by_id.values() if w.info.worker_id in used), "none")
            self.finisher.begin(application, self.registry.workers.capacity(application, now_s), runtime)
        written = self.finisher.step(application, now_s)
        if written is not None:
            self._finished(application, written, now_s)

    def _finished(self, application: Application, written: Written, now_s: float) -> None:
        application.record.unrecorded, application.record.untaught = written.problem, written.untaught
        try:
            self.registry.finished(application, written.removed)
        except NotStored as error:
            given_up = self.finisher.failed(application, error, now_s)
            if given_up is None:
                return
            # a restart will try again; nothing waits for it here
            application.finished, application.record.unrecorded = True, given_up.problem
        self.finisher.over(application)


def _in_sight(application: Application) -> bool:
    """Return True if the driver's process can be seen from here: it is on this host, in a pid namespace that shows here."""
    driver = application.record.registration.process
    return driver.boot_id == application.record.boot_id and driver.is_numbered_here()
