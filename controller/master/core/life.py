"""The life of an application: its states, and the moves between them. Pure.

A state says what the master does for the application next. Facts that hold in several states are not states. They are fields
of the part that they concern: it outlived the memory of a master (`ApplicationRecord`), its events overflowed
(`EventStream`), no worker is large enough for it or others were evicted for it (`PlacementState`), its driver has said that
it goes (`Life`).

The state is not stored, because it follows from the record and the executors, which are: a restored application begins in
the state that its record shows (`Life.of_record`), and runs if any of its executors was stored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

from controller.wire.states import ApplicationState


class LifeState(StrEnum):
    """A state of an application that the master knows."""

    HELD_BACK = "held_back"
    """The application gets no executors, because a job that it comes after has not ended or does not serve, or its user has
    as much as the limits allow."""
    WAITING = "waiting"
    """The application may have executors, and none has run."""
    RUNNING = "running"
    """An executor of the application has run."""
    ENDED = "ended"
    """The application has ended, and a report of how its driver ended may still come."""
    JUDGED = "judged"
    """The outcome is settled; driver and executors have a moment for their last words."""
    RECORDING = "recording"
    """The record of the run is being written, or will be tried again."""
    FINISHED = "finished"
    """The record of the run is written, or given up. The application is kept until its run folder is removed."""


_DEPENDS = "a job that it comes after has not ended or does not serve, or its user has as much as the limits allow"
_RUNS = "an agent reports that an executor runs"
_ENDS = "its driver ends or dies, or it is killed or stopped"
MOVES: Mapping[tuple[LifeState | None, LifeState], str] = {
    (None, LifeState.WAITING): "its driver registers, or the master starts again",
    (None, LifeState.ENDED): "the master starts again",
    (None, LifeState.JUDGED): "the master starts again, and its outcome is stored",
    (LifeState.WAITING, LifeState.HELD_BACK): _DEPENDS,
    (LifeState.HELD_BACK, LifeState.WAITING): "all jobs that it comes after have ended or serve, and its user may have more",
    (LifeState.HELD_BACK, LifeState.RUNNING): _RUNS,
    (LifeState.WAITING, LifeState.RUNNING): _RUNS,
    (LifeState.HELD_BACK, LifeState.ENDED): _ENDS,
    (LifeState.WAITING, LifeState.ENDED): _ENDS,
    (LifeState.RUNNING, LifeState.ENDED): _ENDS,
    (LifeState.ENDED, LifeState.JUDGED): "its driver's end is reported, or no report will come",
    (LifeState.JUDGED, LifeState.RECORDING): "the last words are said, or took too long",
    (LifeState.RECORDING, LifeState.FINISHED): "its record is written, or given up",
}
"""Every move that may be made, and the event that causes it; None is the time before the master knows the application."""
SHOWN: Mapping[LifeState, ApplicationState] = {
    LifeState.HELD_BACK: ApplicationState.WAITING,
    LifeState.WAITING: ApplicationState.WAITING,
    LifeState.RUNNING: ApplicationState.RUNNING,
    LifeState.ENDED: ApplicationState.ENDED,
    LifeState.JUDGED: ApplicationState.ENDED,
    LifeState.RECORDING: ApplicationState.ENDED,
    LifeState.FINISHED: ApplicationState.ENDED,
}
"""The state that people see: what matters to them besides is in the reason, the outcome and the record."""


class ImpossibleMove(Exception):
    """A move that is not in the table: a mistake of the master's."""


class Life:
    """The life of one application. Only `move` changes its state; the other fields are facts that its moves wait for."""

    __slots__ = ("_state", "driver_gone_s", "ended", "ended_monotonic_s", "farewell")
    ended: bool
    """True if nothing of the application is to run any more."""
    ended_monotonic_s: float
    """The time when this life of the master learned that the application had ended."""
    farewell: bool
    """True if its driver has said that it goes."""
    driver_gone_s: float | None
    """Monotonic time since when its driver is known to be gone, while its outcome is not settled."""

    def __init__(self, state: LifeState = LifeState.WAITING) -> None:
        self.ended_monotonic_s, self.farewell, self.driver_gone_s = math.inf, False, None
        self._enter(None, state)

    @classmethod
    def of_record(cls, *, ended: bool, judged: bool) -> Life:
        """Return the life of an application whose record says that it has ended, and that its outcome is settled."""
        return cls(LifeState.JUDGED if judged else LifeState.ENDED if ended else LifeState.WAITING)

    @property
    def state(self) -> LifeState:
        return self._state

    @property
    def shown(self) -> ApplicationState:
        """The state that people see."""
        return SHOWN[self._state]

    def move(self, to: LifeState) -> None:
        """Move to another state. Raise `ImpossibleMove` for a move that is not in the table; then nothing changes."""
        self._enter(self._state, to)

    def hold_back(self, held_back: bool) -> bool:
        """Hold the application back, or let it wait; return True if that is a change. An application that has run stays as
        it is."""
        to = LifeState.HELD_BACK if held_back else LifeState.WAITING
        if self._state in (to, LifeState.RUNNING):
            return False
        self.move(to)
        return True

    def run(self) -> None:
        """Note that an executor has run. An application that has ended stays as it is."""
        if self._state in (LifeState.HELD_BACK, LifeState.WAITING):
            self.move(LifeState.RUNNING)

    def _enter(self, before: LifeState | None, to: LifeState) -> None:
        if (before, to) not in MOVES:
            raise ImpossibleMove(f"an application that is {before or 'new'} cannot become {to}")
        self._state = to
        self.ended = SHOWN[to] is ApplicationState.ENDED
