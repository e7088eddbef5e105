"""The room that is left on this machine, read for `controller.agent.core.relief`: memory, and the local directory's disk.

If the kernel counts no waiting (PSI), memory is judged only by how much is free. For pods nothing is read, because they may
be on any machine. For executors that other cluster managers start, no disk is read, because their local directories are
elsewhere. Waiting for disks is not looked at: reading and shuffling are ordinary work of Spark.
"""

from __future__ import annotations

from collections.abc import Callable

from controller.agent.core.relief import Machine, Room
from controller.asks.amounts import parse_size_or_part
from controller.asks.local_limit import Disk
from controller.asks.options import AgentOptions
from controller.machine.proc import all_waited_for_memory
from controller.runtime.engines import free_memory
from controller.runtime.table import RUNTIMES


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
