"""Bytes that applications keep on this worker's disk, measured on a thread next to the control loop.

The kernel is asked about the whole disk first, which costs nothing; files are walked through only where an application may
have passed the limit (`controller.asks.local_limit`), and only until it has. The files are the application's: the walk
follows no links. A file counts with its blocks, without its holes, once for each of its names, and with one block at least:
so a walk ends after limit / 4 KiB files. Not seen: files that have lost their name and are still open, anything below
`MOST_LEVELS`, folders that this agent may not read.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from controller.agent.threads import Beat
from controller.asks.local_limit import Disk, LocalLimit

OVER_CODE = errno.EDQUOT
"""Exit code reported for an executor that was ended for its files. The signal's code would say that the application is not at
fault, and Spark would try its tasks for ever."""
LOOK_S = 5.0
"""Time between two looks."""
MOST_LEVELS = 64
"""Most levels of folders in folders; each holds a file descriptor."""
LEAST_BYTES = 4096
"""Least size that a file or folder counts with: its inode takes space, too."""
BATCH = 256
"""Files between two pauses."""
WALK_SHARE = 0.1
"""Largest part of a core for walking."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

Places = Mapping[str, Sequence[Path]]
"""Folders by application."""


def disk_of(path: Path) -> Disk:
    """Return the size and free space of the disk with `path`. Raise `OSError`."""
    found = os.statvfs(path)
    return Disk(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def kept_bytes(folders: Iterable[Path], most: float, pause: Callable[[], None] = lambda: None) -> int:
    """Count the bytes of files below `folders`; stop soon after `most`. `pause` is called now and then."""
    total = 0
    for number, size in enumerate(size for folder in folders for size in _sizes(folder)):
        total += size
        if total > most:
            break
        if number % BATCH == BATCH - 1:
            pause()
    return total


def _sizes(folder: Path) -> Iterator[int]:
    """Yield the sizes of all files and folders below `folder`. Folders are opened first and then read: a link in the place of
    a folder leads nowhere."""
    levels: list[tuple[int, list[str]]] = []
    """Open folders, one in another, with the names of the folders in them that are still to be looked into."""

    def enter(name: str | Path, above: int | None) -> Iterator[int]:
        with suppress(OSError):  # gone meanwhile, or not to be read
            here, below = os.open(name, FOLDER, dir_fd=above), list[str]()
            levels.append((here, below))
            yield from _read(here, below)

    try:
        yield from enter(folder, None)
        while levels:
            here, below = levels[-1]
            if below and len(levels) < MOST_LEVELS:
                yield from enter(below.pop(), here)
            else:
                os.close(here)
                levels.pop()
    finally:
        for here, _ in levels:
            os.close(here)


def _read(here: int, below: list[str]) -> Iterator[int]:
    """Yield the sizes of all entries of one folder; add the names of the folders in it to `below`."""
    with os.scandir(here) as entries:
        for entry in entries:
            with suppress(OSError):
                size = max(LEAST_BYTES, entry.stat(follow_symlinks=False).st_blocks * 512)
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                yield size


class LocalUse:
    """The measuring of files. `run` looks; `take` hands the findings to the loop, once."""

    def __init__(self, limit: LocalLimit, root: Path) -> None:
        self.limit, self.root = limit, root
        self.disk: Disk | None = None
        """The disk at the last look; None before the first one, and where the local directory is not there."""
        self._over: dict[str, str] = {}
        self._lock = threading.Lock()

    def take(self) -> Mapping[str, str]:
        """Return the applications that kept too much at the last look, with the reason for ending their executors. Each
        finding is returned once. A finding that still holds at the next look is returned again."""
        with self._lock:
            over, self._over = self._over, {}
        return over

    def run(self, places: Callable[[], Places], wake: Callable[[], None], stop: threading.Event, beat: Beat) -> None:
        """Run the thread: look until `stop`."""
        spent_s = 0.0

        def rest() -> None:
            nonlocal spent_s
            now_s = time.thread_time()
            stop.wait((now_s - spent_s) * (1 / WALK_SHARE - 1))
            spent_s = now_s
            self.disk = disk_of(self.root)  # a walk may take long
            beat()

        while not stop.wait(LOOK_S):
            beat()
            spent_s = time.thread_time()
            try:
                self.disk = disk = disk_of(self.root)
                if over := self.look(places(), disk, rest):
                    with self._lock:
                        self._over = over
                    wake()
            except FileNotFoundError:  # nothing has started yet
                self.disk = None

    def look(self, places: Places, disk: Disk, pause: Callable[[], None] = lambda: None) -> dict[str, str]:
        """Return the applications that keep too much now, with the reason."""
        if not self.limit.may_be_passed(disk):
            return {}
        most = self.limit.most(disk)
        return {app: self.limit.passed(most) for app, folders in places.items() if kept_bytes(folders, most, pause) > most}
