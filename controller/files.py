"""Files that several processes of a machine share: written whole or not at all, locked while something is made once."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.waiting import wait_until
from stage_model.errors import RuntimeFailed


def cache_root() -> Path:
    """This user's own, for what all clusters of theirs share and can make again."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "sparkpace"


def write_whole(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Writes `path`, mode 0600; a reader or a crash never meets half of it. `lasting`: once this returns, a loss of power
    loses nothing of it. Raises `OSError`."""
    descriptor, beside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
    if lasting:
        sync_folder(path.parent)


def no_space(error: BaseException) -> bool:
    """Whether the disk, or the user's share of it, is full: that passes."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder last: a renamed file is found after a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _takes(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def locked(path: Path, within_s: float) -> Iterator[None]:
    """Waits for the lock on `path`; it goes with its holder. Raises `RuntimeFailed` when the file cannot be opened, and when
    another keeps the lock for longer than `within_s` seconds."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise RuntimeFailed(f"lock file {path} cannot be opened ({error.strerror}); choose another") from error
    try:
        if not wait_until(lambda: _takes(descriptor), within_s, every_s=0.005):
            raise RuntimeFailed(f"{path} has been locked by another process for {within_s:g} s; end that one, or try later")
        yield
    finally:
        os.close(descriptor)
