"""The relief of a worker's machine from period to period: the room that is left, and which applications give what now.

A shell around `controller.agent.core.relief`. Others carry the decision out each period: `resizing` the budgets, the core's
`step` the cores, the loop the ends of executors.

If the kernel counts no waiting (PSI), memory is judged only by how much is free. For pods nothing is read, because they may
be on any machine. For executors that other cluster managers start, no disk is read, because their local directories are
elsewhere. Waiting for disks is not looked at: reading and shuffling are ordinary work of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.agent.core.relief import Gives, Machine, Relief, Resident, Room
from controller.agent.core.step import TimedPlan
from controller.agent.executors.known import KnownExecutor
from controller.asks.amounts import parse_size_or_part
from controller.asks.local_limit import Disk
from controller.asks.options import AgentOptions
from controller.machine.proc import all_waited_for_memory
from controller.runtime.base import ExecutorKey, Observed
from controller.runtime.engines import free_memory
from controller.runtime.table import RUNTIMES
from stage_model.units import NORMAL_PRIORITY


class MachineRoom:
    """The readings that an agent's options ask for. `disk` is the last look at the local directory's disk (None: none yet):
    a disk may be slow, so no one waits for it here."""

    def __init__(self, options: AgentOptions, disk: Callable[[], Disk | None]) -> None:
        self._row, self._disk = RUNTIMES[options.runtime], disk
        self._least_memory = parse_size_or_part(options.least_free_memory, option="--least-free-memory")
        self._least_disk = parse_size_or_part(options.least_free_disk, option="--least-free-disk")

    def look(self) -> Machine:
        """Return what is left now."""
        return Machine() if self._row.everywhere else Machine(self._memory(), self._of_disk())

    def _memory(self) -> Room | None:
        try:
            now = free_memory(own_group=self._row.inside)
        except (OSError, ValueError):  # hidden, or an emulated file system
            return None
        least = self._least_memory.of(now.size)
        return None if least is None else Room(now.free, least, all_waited_for_memory() or 0.0)

    def _of_disk(self) -> Room | None:
        now = self._disk() if self._row.starts else None
        least = None if now is None else self._least_disk.of(now.size)
        return None if now is None or least is None else Room(now.free, least)


def residents_of(
    known: Mapping[ExecutorKey, KnownExecutor], plans: Mapping[str, TimedPlan], observed: Mapping[ExecutorKey, Observed]
) -> dict[str, Resident]:
    """Return the applications with executors here, with the facts by which relief decides what each gives."""
    residents = {}
    for key, one in known.items():
        timed, seen = plans.get(key.application_id), observed.get(key)
        watched = seen.watched if seen is not None else one.spec is not None and one.spec.watched
        residents[key.application_id] = Resident(
            priority=timed.plan.priority if timed else NORMAL_PRIORITY,
            evicts=timed is not None and timed.plan.evict,
            paced=not watched,
            started=not one.adopted,
        )
    return residents


class Relieving:
    """The relief now. `look` reads the machine; `note` takes a line for the master."""

    def __init__(self, look: Callable[[], Machine], note: Callable[[str], None]) -> None:
        self._look, self._note = look, note
        self._relief = Relief()
        self._residents: dict[str, Resident] = {}
        self.floored = self.slowed = self.ended = frozenset[str]()
        """Applications that get only their floor of off-heap memory, only their floor of cores, and no executors here now."""

    @property
    def why(self) -> str:
        """The newest shortage, as a clause."""
        return self._relief.why

    @property
    def steps_taken(self) -> int:
        return len(self._relief.taken)

    def relieve(self, residents: Mapping[str, Resident], now_s: float) -> None:
        """Look at the machine and decide who gives what."""
        before = self._relief
        # an application whose executors were ended may not come back, even while none of its executors is known here
        self._residents = here = {name: self._residents[name] for name in self.ended} | dict(residents)
        self._relief = now = before.after(self._look(), here, now_s)
        self.floored, self.slowed, self.ended = (now.givers(gives, here) for gives in Gives)
        if now.why and not before.why:
            self._note(f"under pressure: {now.why}; executors of lower priority make room, if there are any")
        if before.why and not now.why:
            self._note("no longer under pressure: executors have again what they ask for")
