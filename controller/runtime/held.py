"""A path that was checked once and is held open since: another file may take the path, but the held file stays the same.

The engine mounts by name, as root and later. A held directory goes to the engine by the name that the kernel has for the
descriptor (/proc/PID/fd/N), which leads to that very directory whatever became of its path.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

FD = Path("/proc/self/fd")


class HeldPath:
    """A held path. It takes over a descriptor (O_PATH) and closes it when it is no longer needed. `real` is where the kernel
    says that it lies. Raises `FileNotFoundError` for a file that was removed meanwhile."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.found = os.fstat(descriptor)
        self.real = Path(str((FD / str(descriptor)).readlink()))
        if not self.found.st_nlink or not self.same_as(self.real):
            raise FileNotFoundError(self.real)

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.descriptor)

    @property
    def folder(self) -> bool:
        return stat.S_ISDIR(self.found.st_mode)

    @property
    def file(self) -> bool:
        return stat.S_ISREG(self.found.st_mode)

    @property
    def name(self) -> str:
        """Name by which any process that sees this one's number finds the held path."""
        return f"/proc/{os.getpid()}/fd/{self.descriptor}"

    def same_as(self, path: Path) -> bool:
        """Return True if `path`, which is no link, is still what is held."""
        try:
            return os.path.samestat(path.lstat(), self.found)
        except OSError:
            return False

    def is_firm(self, uid: int) -> bool:
        """Return True if neither that user nor others can make the path lead elsewhere: root or this process's user owns
        everything above it, and no other user may change it."""
        trusted = {0, os.geteuid()} - ({uid} - {0})
        above = self.real.parents
        for folder, below in zip(above, (self.real, *above), strict=False):
            found = folder.lstat()
            if found.st_uid not in trusted:
                return False
            # in a sticky folder only its owner renames an entry
            if found.st_mode & 0o022 and not (found.st_mode & stat.S_ISVTX and below.lstat().st_uid in trusted):
                return False
        return True
