"""The effects of the master's decisions, as plain data. The core notes them in `Changes`; its shell carries them out
(`controller.master.outside`).

An effect that stores says whose newest state is to be stored, not the state: what changes twice meanwhile is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from controller.master.core.run_ending import RunEnding
from controller.wire.driver import Sequenced
from controller.wire.worker import Sample
from placement.growth import EndWorker, StartWorker

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Log:
    """A line for the master's log, with the traceback of `error` if there is one."""

    level: Level
    line: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """A wake-up: the desired states of these workers have changed, so their agents should look again at once."""

    worker_ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class StoreApplication:
    """The record of an application is to be stored."""

    application_id: str


@dataclass(frozen=True, slots=True)
class StoreExecutor:
    """The record of an executor is to be stored."""

    application_id: str
    executor_id: str


@dataclass(frozen=True, slots=True)
class StoreMeta:
    """The offers of workers, their labels, the hosted drivers, the list of workers that were started, or the time that the
    last one took to start are to be stored."""

    what: Literal["workers", "labels", "drivers", "started_workers", "worker_start_s"]


Storing = StoreApplication | StoreExecutor | StoreMeta


@dataclass(frozen=True, slots=True)
class StoreEvents:
    """A driver's snapshot and events behind event `behind`, without a gap; they are acknowledged once they are stored.
    Numbering goes on at `next_seq` after the snapshot."""

    application_id: str
    behind: int
    next_seq: int
    snapshot: tuple[msgspec.Raw, ...] | None
    events: Sequence[Sequenced]

    @property
    def reached(self) -> int:
        """Number of the last event that is stored by this."""
        return self.events[-1].seq if self.events else max(self.behind, self.next_seq - 1)


@dataclass(frozen=True, slots=True)
class WriteSamples:
    """Samples of an application are to be added to its run folder."""

    application_id: str
    samples: Sequence[Sample]


@dataclass(frozen=True, slots=True)
class WriteRecord:
    """The record of a run is to be written; then `Records.written` or `Records.failed` is called."""

    ending: RunEnding


@dataclass(frozen=True, slots=True)
class DropDetails:
    """The record of an application is written: its details and the applications whose run folders were `removed` are to be
    dropped; then `Records.over` or `Records.failed` is called."""

    application_id: str
    removed: Sequence[str]


Effect = Log | Wake | Storing | WriteSamples | WriteRecord | DropDetails | StartWorker | EndWorker
