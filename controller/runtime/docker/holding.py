"""Check for whether the Docker engine mounts what this process holds open (`held`), so that it cannot be swapped after it was
checked.

The engine must see this process's number and have the same mounts: it is not remote, and neither is in a container.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from controller.runtime.base import Bind, Program
from controller.runtime.docker import container
from controller.runtime.docker.client import EngineClients
from controller.runtime.held import HeldPath
from stage_model.errors import RuntimeRefused

log = logging.getLogger(__name__)


class Holding:
    """The check of one engine; its answer is kept. `labels` are for the container that the check may need."""

    def __init__(self, engine: EngineClients, labels: Mapping[str, str]) -> None:
        self._engine, self._labels = engine, labels
        self._holds: bool | None = None

    def used_for(self, binds: Sequence[Bind], image: str) -> bool:
        """Return True if held files are used for these binds; the engine is asked only if there is something to hold. Raise
        the client's errors."""
        if all(bind.firm or bind.held is None or not bind.held.folder for bind in binds):
            return False
        if self._holds is None:
            self._holds = self._find_out(image)
            if not self._holds:
                log.warning(
                    "the Docker engine does not see what this agent holds open (it is remote, or one of the two is in a "
                    "container), so paths that their owners can change are mounted by name"
                )
        return self._holds

    def _find_out(self, image: str) -> bool:
        pid = self._engine.pid()
        if pid is None:
            return False
        try:
            return all(Path(f"/proc/{pid}/ns/{kind}").samefile(f"/proc/self/ns/{kind}") for kind in ("pid", "mnt"))
        except OSError:  # another user's process: tried with a file that stays
            own = HeldPath(os.open(Path(__file__).parent, os.O_PATH | os.O_CLOEXEC))
            seen = Program(["/bin/ls", "/held"], os.getuid(), os.getgid(), [Bind(Path("/held"), held=own, firm=False)])
            try:
                told = container.run_program(self._engine.patient(), image, seen, self._labels, hold=True)
            except RuntimeRefused:
                return False
            return Path(__file__).name in told.split()
