"""A submitter's paths on this machine: each is opened with the submitter's rights on files, and held.

The kernel says what the submitter may reach, though the agent is root. Only one thread's rights on files change (fsuid,
fsgid, groups), and the thread ends afterwards (setfsuid(2)); the C library would change the rights of the whole process. An
agent that is not root looks with its own rights.

Of a bridge jar, executors are shown the agent's own copy, which no one changes behind the agent's back. A registration may
name any path, so a file that is no bridge of some release of Sparkpace's, or that its submitter cannot read, is refused.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import io
import os
import platform
import pwd
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from controller.machine.files import write_whole
from controller.runtime.held import FD, HeldPath
from controller.submit.bridge_jar import SETTINGS
from controller.wire.worker import ExecutorSpec
from stage_model.errors import RuntimeRefused

T = TypeVar("T")

SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "loongarch64": 159, "ppc64le": 81, "s390x": 206}
"""Number of the system call, which changes the groups of one thread only."""
LIBC = ctypes.CDLL(None, use_errno=True)
NOT_FILES = ("/proc", "/sys", "/dev")
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - files like others, from any maker
MOST_BYTES = 8 << 20
"""Size of the largest bridge jar."""
KEPT = 8
"""Number of copies of bridge jars kept; the oldest go. A running executor keeps its own."""


def open_as(spec: ExecutorSpec, path: str) -> HeldPath:
    """Open a path of the submitter's. Raise `RuntimeRefused` if the submitter cannot reach it, or it is no file or
    directory."""
    try:
        held = HeldPath(with_rights_of(spec.uid, spec.gid, lambda: os.open(path, os.O_PATH | os.O_CLOEXEC)))
    except (FileNotFoundError, NotADirectoryError):
        raise RuntimeRefused(f"mount {path!r} does not exist on this worker") from None
    except PermissionError as error:
        who = f"uid {spec.uid}" if os.geteuid() in (0, spec.uid) else "this agent's user"
        raise RuntimeRefused(
            f"mount {path!r} cannot be reached by {who} ({error.strerror or error}); name a path that the submitter may open"
        ) from error
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENAMETOOLONG):
            raise
        raise RuntimeRefused(f"mount {path!r:.200} is not a path here ({error.strerror}); name a file or directory") from None
    if not held.folder and not held.file:
        raise RuntimeRefused(f"mount {path!r} is not allowed: it is a socket, device or pipe; name a file or directory")
    if any(held.real.is_relative_to(root) for root in NOT_FILES) and not held.real.is_relative_to(SHARED_MEMORY):
        raise RuntimeRefused(f"mount {path!r} is not allowed: what lies there is the kernel's; name a path on a disk")
    return held


def own_copy(jar: HeldPath, uid: int, gid: int, folder: Path) -> HeldPath:
    """Return the copy in the agent's `folder`. Raise `RuntimeRefused` for a file that is no bridge jar, and `OSError`."""
    content = with_rights_of(uid, gid, lambda: _content(jar)) if jar.file else b""
    if not _is_bridge(content):
        raise RuntimeRefused(
            f"bridge jar {str(jar.real)!r} is not one of Sparkpace's, or over {MOST_BYTES >> 20} MiB; use the jar that "
            f"`sparkpace conf` names"
        )
    # by time, too: a JVM takes a class archive only with the very jar, of that time, that it was made with
    copy = folder / f"{hashlib.sha256(content).hexdigest()[:32]}-{jar.found.st_mtime_ns}.jar"
    if not copy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        for old in sorted(folder.glob("*.jar"), key=lambda path: path.stat().st_ctime_ns)[: -KEPT + 1]:
            old.unlink()
        write_whole(copy, content, lasting=False)
        os.utime(copy, ns=(jar.found.st_mtime_ns, jar.found.st_mtime_ns))
        copy.chmod(0o644)
    return HeldPath(os.open(copy, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))


def _content(jar: HeldPath) -> bytes:
    with (FD / str(jar.descriptor)).open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _is_bridge(content: bytes) -> bool:
    if len(content) > MOST_BYTES:
        return False
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return SETTINGS in archive.NameToInfo
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        return False


def with_rights_of(uid: int, gid: int, look: Callable[[], T]) -> T:
    """Run `look` with that user's rights: its result or exception is the caller's. Raise `PermissionError` where root may not
    take them."""
    if os.geteuid() != 0 or uid == 0:
        return look()
    said: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            _become(uid, gid)
            said.append(look())
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            raised.append(error)

    thread = threading.Thread(target=run, name="looks as another user")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return said[0]


def _become(uid: int, gid: int) -> None:
    """Give this thread the user's rights on files, for good."""
    groups = groups_of_user(uid, gid)
    number = SETGROUPS.get(platform.machine())
    if number is None or LIBC.syscall(number, len(groups), (ctypes.c_uint32 * len(groups))(*groups)):
        raise PermissionError(f"groups of uid {uid} cannot be taken here")
    LIBC.setfsgid(gid)
    LIBC.setfsuid(uid)
    if LIBC.setfsgid(-1) != gid or LIBC.setfsuid(-1) != uid:  # both return no error, only the id before
        raise PermissionError(f"rights of {uid}:{gid} cannot be taken here")


def groups_of_user(uid: int, gid: int) -> list[int]:
    """Return the user's groups in this machine's user database, and `gid`. A driver cannot name groups."""
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]
