"""Access to paths with a submitter's rights, though the agent is root: the kernel says what that user may reach.

Only one thread's rights on files change (fsuid, fsgid, groups), and the thread ends afterwards (setfsuid(2)); the C library
would change the rights of the whole process. An agent that is not root looks with its own rights.
"""

from __future__ import annotations

import ctypes
import os
import platform
import pwd
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159, "loongarch64": 159, "ppc64le": 81, "s390x": 206}
"""Number of the system call, which changes the groups of one thread only."""
LIBC = ctypes.CDLL(None, use_errno=True)


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
    """Return the user's groups in this machine's user database, and `gid`. A driver does not get to name groups."""
    try:
        return os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
    except KeyError:
        return [gid]
