"""Relief of a machine under pressure: what applications of lower priority give up there, step by step (document 003, figure
11). Pure.

Lowest priority first, off-heap memory comes down to its floor, then cores. Only when that was not enough, and only for an
application with `--evict`, executors of lower priority are ended, one application after the other. The highest priority that
is present gives nothing, as in `master_memory.split.squeezed`. A shortage of disk takes only cores: less memory would spill
more, and files of an ended executor stay until its application ends. When there has been ample room for a while, the last
step is taken back, then the one before. Not covered: the readings and how executors give (`controller.agent.relieving`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct, structs

STEP_S = 5.0
"""Time from one squeeze to the next: executors give cached data back within seconds."""
EVICT_S = 30.0
"""Time from the last step, and from the beginning of the shortage, to the end of an executor, which costs work."""
CALM_S = 15.0
"""Time with ample room before a step is taken back: each time that memory is taken and given back costs cached data."""
MARGIN, MOST_MARGIN = 0.25, 512 << 20
"""Room is ample if it exceeds the least by this part of the least, or by this many bytes if they are fewer."""
NEAR = 2.0
"""Room of this many times the least is far from short, however long programs wait."""
MOST_WAITING = 0.1
"""Part of the time that all programs at once may wait for memory while it is nearly short. Programs that wait while there is
much memory do so within limits of their own, such as an executor in its container."""
MIB = 1 << 20


class Room(Struct, frozen=True):
    """The room that is left of one thing: `free` bytes where there should be `least`. `waiting`: part of the last 10 s in
    which everything that could have run waited for it; 0 where the kernel does not say."""

    free: float
    least: float
    waiting: float = 0.0

    @property
    def short(self) -> bool:
        return self.free < self.least or self._waited_for(MOST_WAITING)

    @property
    def ample(self) -> bool:
        margin = min(MARGIN * self.least, MOST_MARGIN)
        return self.free >= self.least + margin and not self._waited_for(MOST_WAITING / 2)

    def _waited_for(self, most: float) -> bool:
        return self.waiting > most and self.free < NEAR * self.least

    def said(self, sentence: str) -> str:
        """Return the shortage as a clause; `sentence` has a place for what is free."""
        if self.free < self.least:
            return sentence.format(f"{self.free / MIB:,.0f} MiB")
        return f"all that runs on this machine waits for memory {self.waiting:.0%} of the time"


class Machine(Struct, frozen=True):
    """The room on a worker's machine; None: it is not known, or its limit is turned off."""

    memory: Room | None = None
    disk: Room | None = None

    @property
    def shortage(self) -> str:
        """The shortage, as a clause for people; empty without one."""
        if self.memory is not None and self.memory.short:
            return self.memory.said("this machine has {} of free memory")
        if self.disk is not None and self.disk.short:
            return self.disk.said("the disk of the local directory has {} free")
        return ""

    @property
    def ample(self) -> bool:
        return all(room is None or room.ample for room in (self.memory, self.disk))

    def helped_by(self, gives: Gives) -> bool:
        """Return True if the shortage may become less where applications give this."""
        return gives is Gives.CORES or (self.memory is not None and self.memory.short)


class Gives(IntEnum):
    """Kinds of what an application gives, the mildest first."""

    MEMORY = 0
    CORES = 1
    EXECUTORS = 2


class Resident(Struct, frozen=True):
    """An application with executors on the worker. `evicts`: it was submitted with `--evict`; `paced` false: nothing of it is
    changed; `started` false: another cluster manager has started its executors, so they give only cores."""

    priority: int
    evicts: bool = False
    paced: bool = True
    started: bool = True


class ReliefStep(NamedTuple):
    """A step. `application_id` empty: all applications of that priority give."""

    gives: Gives
    priority: int
    application_id: str = ""


def relief_steps(residents: Mapping[str, Resident]) -> list[ReliefStep]:
    """Return all steps that may be taken, in their order."""
    highest = max((one.priority for one in residents.values()), default=0)
    lower = {name: one for name, one in residents.items() if one.paced and one.priority < highest}
    squeezes = [
        ReliefStep(gives, priority)
        for priority in sorted({one.priority for one in lower.values()})
        for gives in (Gives.MEMORY, Gives.CORES)
        if gives is Gives.CORES or any(one.started for one in lower.values() if one.priority == priority)
    ]
    evicting = max((one.priority for one in residents.values() if one.evicts), default=-math.inf)
    ended = sorted((one.priority, name) for name, one in lower.items() if one.started and one.priority < evicting)
    return [*squeezes, *(ReliefStep(Gives.EXECUTORS, priority, name) for priority, name in ended)]


class Relief(Struct, frozen=True):
    """State from look to look. `taken` are the steps in force, in their order; `why` is the newest shortage, empty once it is
    over for good; `short_s` is the time at which the shortage began (None: nothing is short now), `scarce_s` the last time
    without ample room, `moved_s` the time at which a step was last taken or taken back (monotonic seconds)."""

    taken: tuple[ReliefStep, ...] = ()
    why: str = ""
    short_s: float | None = None
    scarce_s: float = -math.inf
    moved_s: float = -math.inf

    def after(self, machine: Machine, residents: Mapping[str, Resident], now_s: float) -> Relief:
        """Return the relief after a look at `now_s`, which moves by one step at most. Steps that no longer concern an
        application are dropped."""
        order, had = relief_steps(residents), set(self.taken)
        taken = tuple(step for step in order if step in had)
        why = machine.shortage
        if why:
            short_s = now_s if self.short_s is None else self.short_s
            after = structs.replace(self, taken=taken, why=why, short_s=short_s, scarce_s=now_s)
            due = next((step for step in order if step not in had and machine.helped_by(step.gives)), None)
            if due is None or now_s < self._next_s(due.gives, short_s):
                return after
            return structs.replace(after, taken=tuple(s for s in order if s in had or s == due), moved_s=now_s)
        scarce_s = self.scarce_s if machine.ample else now_s
        after = structs.replace(self, taken=taken, short_s=None, scarce_s=scarce_s)
        if now_s - max(self.moved_s, scarce_s) < CALM_S:
            return after
        return structs.replace(after, taken=taken[:-1], moved_s=now_s) if taken else structs.replace(after, why="")

    def givers(self, gives: Gives, residents: Mapping[str, Resident]) -> frozenset[str]:
        """Return the applications that give this now."""
        return frozenset(name for name, one in residents.items() if self._takes(gives, name, one))

    def _takes(self, gives: Gives, name: str, one: Resident) -> bool:
        may = one.paced and (one.started or gives is Gives.CORES)
        return may and any(ReliefStep(gives, one.priority, of) in self.taken for of in ("", name))

    def _next_s(self, gives: Gives, short_s: float) -> float:
        """Return the time from which on a step of this kind may be taken."""
        return max(self.moved_s, short_s) + EVICT_S if gives is Gives.EXECUTORS else self.moved_s + STEP_S
