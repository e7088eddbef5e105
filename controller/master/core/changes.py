"""The changes of applications and workers, and the effects that follow: noted where they happen, then followed up
(`Lifecycle.follow_up`) and carried out (`controller.master.outside`)."""

from __future__ import annotations

from controller.master.core.application import Application
from controller.master.core.effects import Effect, Level, Log
from controller.master.core.executor_state import Executor


class Changes:
    """The changes that are still to be followed up. Two of the sets are for `placing`, which empties them when it is asked
    for something that rests on them."""

    def __init__(self) -> None:
        self.dirty_applications: set[str] = set()
        """Applications whose places in the queue, or whose wanted workers, may have changed."""
        self.dirty_workers: set[str] = set()
        """Workers whose occupants may have changed."""
        self.lacking: dict[str, Application] = {}
        """Applications that may lack executors: applications noted since the last look, and applications that lacked
        executors then."""
        self.version = 0
        """Number of changes of applications and executors that were noted."""
        self._noted: dict[str, Application] = {}
        self._effects: list[Effect] = []
        self._room = False

    def application(self, application: Application) -> None:
        """Note that something about the application has changed that counts for its executors, its agents or others."""
        application.placement.requests.clear()
        self._note(application)

    def executor(self, application: Application, executor: Executor) -> None:
        """Note that an executor is placed, is to end, or has ended."""
        self.dirty_workers.add(executor.record.worker_id)
        self._note(application)

    def worker(self, worker_id: str) -> None:
        """Note that an executor on the worker counts in another way, or no longer, for placement."""
        self.dirty_workers.add(worker_id)

    def order(self, application: Application) -> None:
        """Note that the application waits in another place, or for something else."""
        self.dirty_applications.add(application.id)

    def room(self) -> None:
        """Note that there may be room for executors that any application lacks."""
        self._room = True

    def effect(self, effect: Effect) -> None:
        """Note something that the shell is to do."""
        self._effects.append(effect)

    def log(self, line: str, level: Level = "info") -> None:
        """Note a line for the master's log."""
        self._effects.append(Log(level, line))

    def _note(self, application: Application) -> None:
        self.version += 1
        self.dirty_applications.add(application.id)
        self.lacking[application.id] = self._noted[application.id] = application

    @property
    def noted(self) -> bool:
        """True if anything is noted that is not followed up yet."""
        return bool(self._noted)

    def take(self) -> list[Application]:
        """Return the applications noted since the last call, each of whose executors may count otherwise from now on."""
        noted, self._noted = list(self._noted.values()), {}
        for application in noted:
            self.dirty_workers |= application.worker_ids()
        return noted

    def take_effects(self) -> list[Effect]:
        """Return the effects noted since the last call, in their order."""
        effects, self._effects = self._effects, []
        return effects

    def take_lacking(self, noted: list[Application]) -> list[Application]:
        """Return the applications whose executors are to be brought about: the noted applications and, where there may be
        room, all applications that lack executors. Each of them counts as complete from now on."""
        room, self._room = self._room, False
        found = list(self.lacking.values()) if room else noted
        for application in found:
            self.lacking.pop(application.id, None)
        return found
