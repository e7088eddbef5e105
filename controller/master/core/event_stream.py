"""The events of an application's driver: how far they are taken in, and how many of them are lost. Pure.

Events are numbered. What is acknowledged is stored; what is taken in is ahead of that while nothing can be stored."""

from __future__ import annotations

from dataclasses import dataclass

from controller.wire import limits
from controller.wire.driver import DriverSync, Sequenced
from stage_model.history.events import TaskEnd
from stage_model.history.run import Run

STAGES = 20_000
"""Attempts that an application may report in all its life, and jobs; each event is still taken in within 50 ms."""
ACTIVE = 1000
"""Stages that may be active at a time: each is in the plan that agents get every second."""
SIZE = 400_000
"""Most of what is kept of a run (`Run.size`)."""


@dataclass(slots=True)
class EventStream:
    """The stream of one driver's events and snapshots."""

    acknowledged: int = 0
    """Number of the last event of its driver that is stored."""
    taken: int = 0
    """Number of the last event of its driver that is taken in: a later one, while nothing can be stored."""
    missed: int = 0
    """Events that its driver or an earlier life of the master had lost before they were stored."""
    left_out: int = 0
    """Events that could not be taken in: then nothing is learned from the application."""
    stored_bytes: int = 0
    """Bytes of its driver's events and snapshots, as they are stored."""
    overflow: str = ""
    """The limit that its driver's reports exceed: nothing more is taken in."""
    first_task_ms: int | None = None
    last_task_ms: int | None = None

    def unacknowledged(self, sync: DriverSync) -> list[Sequenced]:
        """Return the message's events that are to be stored."""
        return _behind(self.acknowledged, sync)

    def untaken(self, sync: DriverSync) -> list[Sequenced]:
        """Return the message's events that are to be taken in."""
        return _behind(self.taken, sync)

    def pass_over(self, sync: DriverSync) -> None:
        """Acknowledge all of a message whose events are not taken in."""
        last = max((numbered.seq for numbered in sync.events), default=0)
        last = max(self.acknowledged, last, 0 if sync.snapshot is None else sync.next_seq - 1)
        self.acknowledged = self.taken = last

    def go_on_at(self, next_seq: int) -> None:
        """Go on at that number, behind a snapshot; events before it that were not taken in are missed."""
        self.missed += max(0, next_seq - 1 - self.taken)
        self.taken = max(self.taken, next_seq - 1)

    def count_task(self, event: TaskEnd) -> None:
        """Take in when a task ran."""
        self.first_task_ms = min(self.first_task_ms or event.launch_ms, event.launch_ms)
        self.last_task_ms = max(self.last_task_ms or 0, event.finish_ms)

    def limit_exceeded(self, run: Run) -> str:
        """Return the limit that the reports of this run exceed; empty if all is well. The answer is the same live and at a
        restart, because it counts what was stored."""
        counted = (
            (len(run.attempts), STAGES, "stage attempts"),
            (len(run.jobs), STAGES, "jobs"),
            (len(run.active_stages()), ACTIVE, "stages at a time"),
            (run.size, SIZE, "stages, their parents and scopes"),
            (self.stored_bytes, limits.EVENT_BYTES, "bytes of events"),
        )
        return next((f"{most} {what}" for number, most, what in counted if number > most), "")


def _behind(number: int, sync: DriverSync) -> list[Sequenced]:
    """Return the events that follow `number`, or the message's snapshot, without a gap."""
    reached = number if sync.snapshot is None else max(number, sync.next_seq - 1)
    gapless: list[Sequenced] = []
    for numbered in sorted((e for e in sync.events if e.seq > reached), key=lambda e: e.seq):
        if numbered.seq == reached + len(gapless) + 1:
            gapless.append(numbered)
    return gapless
