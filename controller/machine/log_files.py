"""Small logs: each is a file in the home's `logs/` that `up` made a service's standard error.

The file is copied and emptied, not renamed: a supervisor, its child and the processes that these start write into the same
file, and each of them may put it aside. The module imports nothing that would make a supervisor large.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path

LARGEST = 10 << 20
"""Bytes from which on a log is put aside as NAME.1, and the former NAME.1 as NAME.2."""
STDERR = 2


def tail(log: Path, lines: int = 12) -> str:
    """Return the last lines of a log file; empty when it does not exist."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return ""


def keep_small(folder: Path, descriptor: int = STDERR, largest: int = LARGEST) -> None:
    """Put the log aside if it is too large; do nothing to a file that is no log in `folder`. Lines that others write in the
    moment between copying and emptying are lost. Raise nothing: where no copy can be made, for instance on a full disk, the
    log is emptied all the same."""
    with contextlib.suppress(OSError):
        if not _too_large(descriptor, largest):
            return
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.parent != folder.resolve() or not fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND:
            return
        # processes that inherited the descriptor share one open file, and a lock belongs to that: so each opens the log again
        source = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(source, fcntl.LOCK_EX)
            if _too_large(descriptor, largest):  # else another process was faster
                _put_aside(path, source, descriptor)
        finally:
            os.close(source)  # gives up the lock


def _too_large(descriptor: int, largest: int) -> bool:
    info = os.fstat(descriptor)
    return info.st_size > largest and stat.S_ISREG(info.st_mode)


def _put_aside(path: Path, source: int, descriptor: int) -> None:
    newer, older = (path.with_name(f"{path.name}.{number}") for number in (1, 2))
    copy = newer.with_name(f".{newer.name}")
    try:
        _copy(source, copy)
        with contextlib.suppress(FileNotFoundError):
            newer.replace(older)
        copy.replace(newer)
    except OSError:
        with contextlib.suppress(OSError):
            copy.unlink()
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"what was said before is in {newer}\n".encode())


def _copy(source: int, copy: Path) -> None:
    target = os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        while os.sendfile(target, source, None, 1 << 20):
            pass
    finally:
        os.close(target)
