"""The topology's file: read at the start, and again whenever it has changed. `placement.topology` reads its content."""

from __future__ import annotations

import logging
from pathlib import Path

from controller.machine.files import why_unreadable
from placement.topology import Topology, parse_topology
from stage_model.errors import BadInput

log = logging.getLogger("sparkpace.master")


class TopologyFile:
    """A file that may change while the master runs. A file that cannot be read is logged once, and the last good topology
    stays."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None

    def changed(self) -> Topology | None:
        """Return the new topology; None if the file is as it was, or cannot be used."""
        try:
            status = self.path.stat()
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            seen = (0, 0, 0)
        if seen == self._seen:
            return None
        self._seen = seen
        try:
            topology = read_topology(self.path)
        except BadInput as error:
            log.error("%s; the last good one stays", error)
            return None
        log.info("topology: %d networks of %s", len(topology), self.path)
        return topology


def checked_topology(path: Path | None) -> Path | None:
    """Return the absolute path of a file that can be read. Raise `BadInput` for any other."""
    if path is None:
        return None
    read_topology(path)
    return path.absolute()


def read_topology(path: Path) -> Topology:
    """Return the topology of a file. Raise `BadInput` for a file that cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--topology {path} cannot be read ({why_unreadable(error)}); name a text file") from error
    return parse_topology(text, source=str(path))
