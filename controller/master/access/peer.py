"""The other end of a connection, and the process of a driver, as the kernel shows them: /proc/net/tcp, /proc/PID.

This module only asks; `controller.master.access.vouching` decides. It reads only files of the kernel, except for a user's
groups, which the user database names: call it off the event loop.
"""

from __future__ import annotations

import ipaddress
import os
import pwd
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from controller.home import User
from controller.machine import proc
from controller.machine.proc import PROC
from controller.machine.process import Process

LOOKS = 3
"""The kernel's table of connections changes while it is read, so what is not found is looked for again."""
ESTABLISHED = "01"
UID, INODE = 3, 5
"""Fields of a line of /proc/net/tcp after the state's."""


class Address(NamedTuple):
    host: str
    port: int


class OtherEnd(NamedTuple):
    """The socket at the other end: its owner and its number."""

    uid: int
    inode: int


class DriverSeen(NamedTuple):
    """A driver's process. `uid` and `groups` are its real ones: a program with a set-user-id or set-group-id bit lends others
    to whoever starts it. `nested`: its process numbers are a container's. `connected`: whether the connection is its own,
    None where that cannot be seen."""

    pid: int
    uid: int
    groups: frozenset[int]
    nested: bool
    connected: bool | None


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about the sender of a registration or of a hosted driver, beyond what it says. `user`: the owner of its token,
    None: several may have it. `address`: where the connection comes from; `peer_uid`: the uid of its other end, None: that
    end is not of this host. `in_sight`: the process it names would be seen from here; `driver`: that process. `groups`: of
    the uid that it says, by the user database here; `namespace`: of process numbers here."""

    address: str
    user: User | None = None
    peer_uid: int | None = None
    in_sight: bool = False
    driver: DriverSeen | None = None
    groups: frozenset[int] = frozenset()
    namespace: str = ""


def find_facts(process: Process, uid: int, user: User | None, ends: tuple[Address, Address] | None) -> Facts:
    """Return the facts that the kernel and the user database have about the sender of a call, which says that it is this
    process of `uid`."""
    peer = find_peer(*ends) if ends else None
    here = process.is_this_boot()
    inode = peer.inode if peer else None
    return Facts(
        address=ends[0].host if ends else "nowhere",
        user=user,
        peer_uid=peer.uid if peer else None,
        in_sight=here and process.is_numbered_here(),
        driver=find_driver(process, uid, inode) if here else None,
        groups=user_groups(uid),
        namespace=proc.pid_namespace(),
    )


def find_peer(other: Address, here: Address) -> OtherEnd | None:
    """Return the other end of an open connection whose end `here` is ours; None if it is not of this host, or of another
    network namespace."""
    for _ in range(LOOKS):
        for table, keys in (("tcp", _keys(other, here, 4)), ("tcp6", _keys(other, here, 6))):
            with suppress(OSError):
                found = _line_with(keys, (PROC / "net" / table).read_text()) if keys else None
                # the kernel names root for an end that no process has any longer
                if found is not None and int(found[INODE]):
                    return OtherEnd(int(found[UID]), int(found[INODE]))
    return None


def _line_with(keys: str, table: str) -> list[str] | None:
    at = table.find(keys)
    return None if at < 0 else table[at + len(keys) :].split(maxsplit=INODE + 1)


def _keys(other: Address, here: Address, version: int) -> str | None:
    """Return both ends as a line of an open connection has them, the other's first; None where they cannot be of this
    version."""
    ends = [_key(end, version) for end in (other, here)]
    return None if None in ends else f" {ends[0]} {ends[1]} {ESTABLISHED} "


def _key(end: Address, version: int) -> str | None:
    """Return an end in the machine's own order of bytes, word by word. A socket for both versions has version 4 within
    version 6."""
    try:
        address = ipaddress.ip_address(end.host.partition("%")[0])
    except ValueError:
        return None
    packed = address.packed
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        packed = address.ipv4_mapped.packed
    if version == 4 and len(packed) != 4:
        return None
    if version == 6 and len(packed) == 4:
        packed = bytes(10) + b"\xff\xff" + packed
    words = (int.from_bytes(packed[at : at + 4], sys.byteorder) for at in range(0, len(packed), 4))
    return "".join(f"{word:08X}" for word in words) + f":{end.port:04X}"


def find_driver(claimed: Process, uid: int, inode: int | None) -> DriverSeen | None:
    """Return the process of that number and start, of `uid` if it is in another namespace of process numbers: there, several
    processes may have the same number. `inode` is of the socket that should be its. None if it cannot be seen."""
    if claimed.is_numbered_here():
        return _driver(claimed.pid, claimed.start_ticks, inode)
    found = {_driver(outer, claimed.start_ticks, inode) for outer in proc.numbered(claimed.pid)}
    seen = [driver for driver in found if driver is not None and driver.uid == uid and driver.connected is not False]
    return seen[0] if len(seen) == 1 else None


def _driver(pid: int, start: int, inode: int | None) -> DriverSeen | None:
    status = proc.status(pid)
    if proc.start_ticks(pid) != start or "Uid" not in status:  # asked afterwards: the number is still its own
        return None
    groups = frozenset(map(int, [status["Gid"][0], *status.get("Groups", [])]))
    nested = len(status.get("NSpid", [])) > 1
    return DriverSeen(pid, int(status["Uid"][0]), groups, nested, None if inode is None else _has_socket(pid, inode))


def _has_socket(pid: int, inode: int) -> bool | None:
    folder = PROC / str(pid) / "fd"
    try:
        descriptors = list(folder.iterdir())
    except OSError:
        return None
    for descriptor in descriptors:
        with suppress(OSError):
            if str(descriptor.readlink()) == f"socket:[{inode}]":
                return True
    return False


def user_groups(uid: int) -> frozenset[int]:
    """Return the groups that the user database names; none for a user that it does not know."""
    try:
        user = pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return frozenset()
    return frozenset(os.getgrouplist(user.pw_name, user.pw_gid))
