"""Executors that get tasks only when many wait: those that others took the cores from, while others run. Pure.

A task at the floor runs many times as long as elsewhere, and its stage waits for it. Spark knows nothing of quotas and gives
a task to any executor with a free slot. Not covered: how Spark is kept from that (the bridge, `StageTasks`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

STARVED = 4.0
"""An executor is starved where its cores times this are less than it asks for."""
RECOVERED_S = 10.0
"""An executor stays starved until it has been given enough for this long: cores that others leave at the end of a stage they
take back at once."""
SURETY = 4.0
"""A starved executor gets a task where this many times as many wait as the others may end while it ends one: tasks differ,
and cores may become fewer still."""


class Starvation(Struct, frozen=True):
    """The times when one executor last asked for cores and was last starved (seconds, by its samples), and its cores then. An
    executor that asks for nothing, as between stages, stays as it was."""

    asked_s: float = -math.inf
    starved_s: float = -math.inf
    grant: float = 0.0

    def after(self, time_s: float, demand: float, grant: float) -> Starvation:
        if demand <= 0 or grant <= 0:
            return self
        starved = grant * STARVED < demand
        return Starvation(time_s, time_s, grant) if starved else Starvation(time_s, self.starved_s, self.grant)

    @property
    def starved(self) -> bool:
        return self.asked_s - self.starved_s < RECOVERED_S


UNTOLD = Starvation()


def least_waiting(executors: Iterable[tuple[str, int, Starvation]]) -> dict[str, int]:
    """Return for each starved one of these executors (id, slots, starvation), which take the same tasks, how many tasks of a
    stage must wait for one to be given to it. Empty where no executor is starved, or every one is."""
    others, slots_per_core = 0, dict[str, float]()
    for name, slots, starvation in executors:
        if starvation.starved:
            slots_per_core[name] = slots / starvation.grant
        else:
            others += slots
    # at most a core a slot: while a starved executor ends a task on each of its slots, the others end this many
    return {name: math.ceil(SURETY * others * per_core) for name, per_core in slots_per_core.items()} if others else {}
