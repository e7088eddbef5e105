"""The life of an application: its executors are brought about, its driver is watched, its record is written in the end.

Whoever changes something only notes it (`changes`); `Lifecycle.follow_up` does the rest.

What goes wrong with one application is left out and reported to its user (`guard`)."""

from __future__ import annotations

from collections.abc import Collection

from controller.master.core import dependencies, executors, queue
from controller.master.core.application import Application
from controller.master.core.effects import Effect, Log, Wake
from controller.master.core.guard import guarded
from controller.master.core.life import LifeState
from controller.master.core.outcome import DriverEnd
from controller.master.core.placing import Placing
from controller.master.core.records import Records
from controller.master.core.registry import Registry
from controller.wire.states import ExecutorState, Outcome
from stage_model.errors import PaceError

CLEAN_UP_S = 15.0
"""Longest wait for the last words of driver and executors before a run's record is written."""
WORD_S = 15.0
"""Seconds from a driver's end within which `submit` must have reported the exit code. It reports at once, and again until the
master has taken the report."""
HEARD_S = 2.5
"""A driver that has reported within this time lives: bridges speak every second."""
SILENCE_S = 60.0
"""A driver that cannot be seen from here and was silent for this long, with no executor known to run, is gone."""


class Lifecycle:
    """The lives of all applications: what follows from changes, and what only time brings about."""

    def __init__(self, registry: Registry, placing: Placing) -> None:
        self.registry, self.placing, self.records = registry, placing, Records(registry.changes)
        self._versions: dict[str, int] = {}

    def version(self, worker_id: str) -> int:
        """Return the version of a worker's desired state: it grows whenever its agent should look again before the period is
        over."""
        return self._versions.get(worker_id, 1)

    def follow_up(self, now_s: float) -> list[Effect]:
        """Follow up the changes that are noted: executors are brought about, by rank, then agents look again. Return all
        effects that are noted by then."""
        changes = self.registry.changes
        noted = changes.take()
        for application in queue.by_rank(changes.take_lacking(noted)):
            if not self._has_executors(application, now_s):
                changes.lacking[application.id] = application
        changed = [*noted, *changes.take()]
        self.wake(set[str]().union(*(application.worker_ids() for application in changed)))
        return changes.take_effects()

    def wake(self, worker_ids: Collection[str]) -> None:
        """Have the agents of these workers look again: the desired state of each has changed."""
        self._versions.update({worker_id: self.version(worker_id) + 1 for worker_id in worker_ids})
        if worker_ids:
            self.registry.changes.effect(Wake(frozenset(worker_ids)))

    def silent(self, now_s: float) -> list[Application]:
        """Return the applications whose drivers have been silent, and whose processes can be looked for from here."""
        found = []
        for application in self.registry.applications.values():
            if now_s - application.heard_s >= HEARD_S and not application.finished:
                with guarded(application, "looking for its driver"):
                    if application.record.exit_code is None and self.registry.life.sees(application.record):
                        found.append(application)
        return found

    def turns(self, dead: Collection[str], now_s: float) -> None:
        """Do what only time brings about, for each application: its driver may have died, its record may be written. `dead`:
        the `silent` applications whose drivers' processes have ended."""
        for application in list(self.registry.applications.values()):
            with guarded(application, "its turn in a pass"):
                self._turn(application, dead, now_s)
            for line, error in application.unlogged:
                self.registry.changes.effect(Log("error", f"{application.id}: {line}", error))
            application.unlogged.clear()

    def _turn(self, application: Application, dead: Collection[str], now_s: float) -> None:
        if not application.ended and self._driver_gone(application, dead, now_s):
            self.registry.end(application, now_s, Outcome.DRIVER_DIED)
        if application.life.state is LifeState.ENDED and not self._word_to_come(application, dead, now_s):
            in_sight = self.registry.life.sees(application.record)
            if application.record.driver_end is DriverEnd.TO_COME and not in_sight:
                application.record.driver_end = DriverEnd.UNKNOWN  # a driver out of sight may live
            self.registry.settle(application, now_s)
        if application.life.state is LifeState.JUDGED and not self._last_words_to_come(application, dead, now_s):
            self._begin_record(application, now_s)
        if application.life.state is LifeState.RECORDING:
            self.records.step(application, now_s)

    def _has_executors(self, application: Application, now_s: float) -> bool:
        """Bring the executors to what Spark wants; return True if nothing is left to do for them."""
        with guarded(application, "bringing its executors about"):
            return application.ended or self._bring_executors(application, now_s)
        return False

    def _bring_executors(self, application: Application, now_s: float) -> bool:
        if reason := executors.too_many_failures(application):
            self.registry.end(application, now_s, Outcome.STOPPED, reason)
            return True
        found = len(application.record.comes_after)
        obstacle, never = dependencies.obstacle(application, self.registry.jobs, now_s)
        if never:
            self.registry.end(application, now_s, Outcome.STOPPED, obstacle)
            return True
        obstacle = obstacle or self._share_obstacle(application, now_s)
        if application.life.hold_back(bool(obstacle)):
            self.registry.changes.order(application)
        if len(application.record.comes_after) != found:
            self.registry.save(application)
        try:
            return executors.reconcile(application, self.registry, self.placing, obstacle, now_s)
        except PaceError as error:
            application.placement.waiting = f"its executors cannot be placed: {error}"
            application.notify(application.placement.waiting)
            return False

    def _share_obstacle(self, application: Application, now_s: float) -> str:
        """Return the reason why the application's user may not have its first executor yet; empty without one."""
        shares, wanted = self.registry.shares, application.placement.wanted
        if not shares.limited or application.attached or not application.placement.wants_any:
            return ""
        self.placing.refresh(now_s)
        sizes_mb = (self.placing.most_mb(application, name, wish) for name, wish in wanted.items() if wish.count != 0)
        return shares.obstacle(application, min(sizes_mb))

    def _driver_gone(self, application: Application, dead: Collection[str], now_s: float) -> bool:
        """Return True if the driver is gone. A driver whose exit code is known is gone. The process of a silent driver on the
        master's host is looked for, and may be `dead`. A silent driver elsewhere, or in a container that cannot be looked
        into, is gone when no executor of it runs either, or its own host is lost. Reports of lost workers are too old to
        count, nor does time in which the master itself stood still."""
        if application.record.exit_code is not None:
            return True
        if now_s - application.heard_s < HEARD_S:
            return False
        if self.registry.life.sees(application.record):
            return application.id in dead
        workers = self.registry.workers
        reported = (e for e in application.live_executors() if not workers.is_lost(e.record.worker_id))
        running = any(e.report and e.report.state is ExecutorState.RUNNING for e in reported)
        lives = running and not workers.is_host_lost(application.record.registration.boot_id)
        silent_s = now_s - max(application.heard_s, self.registry.listening_s)
        return not lives and silent_s > SILENCE_S

    def _word_to_come(self, application: Application, dead: Collection[str], now_s: float) -> bool:
        """Return True if a report of how the driver ended is still to come for an application that has ended: from `submit`
        once the driver is gone, or from the driver's bridge before. The event of the end may arrive before the farewell,
        which says how the driver ends."""
        record, stays = application.record, application.options.submission is not None
        if record.exit_code is not None or record.cut_off in (Outcome.KILLED, Outcome.STOPPED):
            return False
        farewell_to_come = record.cut_off is None and record.driver_end is None and not application.life.farewell
        if not stays and not farewell_to_come and record.driver_end is not DriverEnd.TO_COME:
            return False
        if not self._driver_gone(application, dead, now_s):
            application.life.driver_gone_s = None
            return True
        if application.life.driver_gone_s is None:
            application.life.driver_gone_s = now_s
        return stays and now_s - application.life.driver_gone_s < WORD_S

    def _driver_must_learn(self, application: Application, dead: Collection[str], now_s: float) -> bool:
        """Return True if the driver must still learn that its application has ended: it has not said that it goes, and lives.
        An application that waits has no executors that would take a while to end."""
        knows = application.life.farewell or application.record.cut_off in (None, Outcome.DRIVER_DIED)
        return not knows and not self._driver_gone(application, dead, now_s)

    def _last_words_to_come(self, application: Application, dead: Collection[str], now_s: float) -> bool:
        """Return True if executors of an application that has ended are still to go, or its driver is to learn of its end."""
        if now_s - application.life.ended_monotonic_s >= CLEAN_UP_S:
            return False
        fresh = self.registry.workers.fresh(now_s)
        left = any(not e.cleaned and e.record.worker_id in fresh for e in application.executors.values())
        return left or self._driver_must_learn(application, dead, now_s)

    def _begin_record(self, application: Application, now_s: float) -> None:
        used = {e.record.worker_id for e in application.executors.values()}
        runtime = next((w.info.runtime for w in self.registry.workers.by_id.values() if w.info.worker_id in used), "none")
        self.records.begin(application, self.registry.workers.capacity(application, now_s), runtime)
        application.life.move(LifeState.RECORDING)
