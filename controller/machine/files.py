"""Files that several processes of a machine share: written whole or not at all, locked while something is made once."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote_to_bytes

from controller.machine.waiting import wait_until
from stage_model.errors import BadInput, RuntimeFailed


def local_path(text: str) -> str:
    """Return the path that a URL file:/PATH or file:///PATH names (RFC 8089); any other text is a path already.

    Raise `BadInput` for a file of another machine."""
    if not text.startswith("file:"):
        return text
    path = text.removeprefix("file:")
    if path.startswith("//"):
        host, slash, path = path[2:].partition("/")
        if host not in ("", "localhost"):
            raise BadInput(
                f"{text[:200]!r} names a file of the machine {host[:80]!r}; give file:///PATH for one of this machine"
            )
        path = slash + path
    return os.fsdecode(unquote_to_bytes(path))


def cache_root() -> Path:
    """Return this user's own cache, for files that all clusters of the user share and can make again."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "sparkpace"


def write_whole(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Write `path`, mode 0600; a reader or a crash never meets half of it. `lasting`: once this returns, no part of it is
    lost with the power. Raise `OSError`."""
    descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if lasting:
                os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    if lasting:
        sync_folder(path.parent)


def no_space(error: BaseException) -> bool:
    """Return True if the disk, or the user's share of it, is full: a later try may find space."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last: a renamed file is found after a loss of power."""
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
    """Hold the lock on `path`, after a wait for it; the lock ends with its holder. Raise `RuntimeFailed` when the file cannot
    be opened, and when another process keeps the lock for longer than `within_s` seconds."""
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


def why_unreadable(error: OSError | ValueError) -> str:
    """Return the error's text, without its number and path, for a sentence that names the file."""
    return str(getattr(error, "strerror", None) or error)


def read_plain(path: Path, *, what: str, largest: int, follow: bool, safe: bool = False) -> bytes | None:
    """Return the content of a plain file of at most `largest` bytes, None if it does not exist; `follow` links. `what`: the
    file's name for people. `safe`: only this user and root may be able to change it, or put another in its place.

    Raise `BadInput` for any other file: a device or a pipe might never end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BadInput(f"{what} {path} cannot be opened ({why_unreadable(error)}); it must be a plain file") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            raise BadInput(f"{what} {path} is not a plain file of at most {largest >> 20} MB; give one that is, or remove it")
        if safe:
            folders = dict.fromkeys((path.parent, path.resolve().parent))  # the folders of a link and of its target
            for at, found in ((path, status), *((folder, folder.stat()) for folder in folders)):
                if _open_to_others(found):
                    where = "" if at == path else f", because its folder {at} is open to them"
                    raise BadInput(
                        f"{what} {path} may be changed by others{where} (mode {stat.S_IMODE(found.st_mode):04o}, user "
                        f"{found.st_uid}); it must belong to you or root: run chmod go-w on it"
                    )
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(largest)
    finally:
        os.close(descriptor)


def read_tail(path: Path, most: int) -> tuple[bytes, int] | None:
    """Return the last bytes of a plain file, `most` of them at most, and its size; None if it does not exist. Links are not
    followed. Raise `BadInput` for any other file, and for a file that cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInput(f"{path} cannot be opened ({why_unreadable(error)}); it must be a plain file") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{path} is not a plain file; remove it, so that it is made again")
        return os.pread(descriptor, most, max(0, status.st_size - most)), status.st_size
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({why_unreadable(error)}); look after its disk") from error
    finally:
        os.close(descriptor)


def _open_to_others(found: os.stat_result) -> bool:
    """Return True if users other than this one and root may write there; in a folder with the sticky bit, others can only
    change their own files."""
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return found.st_uid not in (0, os.geteuid()) or bool(found.st_mode & 0o022 and not sticky)
