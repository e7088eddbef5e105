"""The records of runs that have ended: the attempts to write each record, and when they are given up.

`RunEnding` says what is written; that is done off the master's loop (`controller.master.recording`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.machine.back_off import BackOff
from controller.master.core.application import Application
from controller.master.core.capacity import Capacity
from controller.master.core.changes import Changes
from controller.master.core.effects import DropDetails, Log, WriteRecord
from controller.master.core.guard import Caught
from controller.master.core.run_ending import run_ending
from controller.wire.basis import Untaught

BACK_OFF = BackOff(first_s=1.0, most_s=60.0)
"""Waits between two tries to write a record."""
MOST_TRIES = 20
"""A record that cannot be written in a quarter of an hour is given up: nothing may wait for a record for ever. A full disk is
the only fault that is waited for, because it passes; a fault in the record's data would not."""


@dataclass(slots=True)
class _Try:
    """The tries to write a record. `under_way` False: the next one is due at `due_s`."""

    most: Capacity
    runtime: str
    under_way: bool = False
    failed: int = 0
    due_s: float = 0.0


class Records:
    """The tries of all applications, by id."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._tries: dict[str, _Try] = {}

    def begin(self, application: Application, most: Capacity, runtime: str) -> None:
        """Let `step` bring the application's record about from now on."""
        self._tries[application.id] = _Try(most, runtime)

    def step(self, application: Application, now_s: float) -> None:
        """Have the record written where a try is due."""
        now = self._tries[application.id]
        if now.under_way or now_s < now.due_s:
            return
        with Caught() as problem:
            self._changes.effect(WriteRecord(run_ending(application, now.most, now.runtime)))
            now.under_way = True
        if problem.error is not None:
            self.failed(application, problem.error, now_s)

    def written(self, application: Application, untaught: Untaught | None, removed: Sequence[str]) -> None:
        """Take in that the record is written; `untaught` is the reason if the run taught nothing. The records of the runs
        `removed` made room for it."""
        application.record.unrecorded, application.record.untaught = "", untaught
        self._changes.effect(DropDetails(application.id, removed))

    def failed(self, application: Application, error: BaseException, now_s: float, *, passes: bool = False) -> None:
        """Put the next try off after a failed one, or give up. An error that `passes` is a full disk's."""
        now = self._tries[application.id]
        now.under_way, now.failed = False, now.failed + 1
        now.due_s = now_s + BACK_OFF.wait_s(now.failed)
        if now.failed == 1:
            said = f"the record of {application.id} cannot be written and will be tried again: {error}"
            self._changes.effect(Log("error", said, None if passes or not isinstance(error, Exception) else error))
        if now.failed < MOST_TRIES or passes:
            return
        problem = f"its record could not be written: {error}"
        self._changes.log(f"{application.id}: {problem}; given up after {now.failed} tries", "error")
        application.record.unrecorded, application.record.untaught = problem, None
        self._changes.effect(DropDetails(application.id, ()))

    def over(self, application: Application) -> None:
        """Forget what was kept for the application."""
        self._tries.pop(application.id, None)
