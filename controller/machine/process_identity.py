"""Identity of the process that a pid means: pid, start time and boot together are never used twice. Linux /proc only."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PROC = Path("/proc")
STATE, STARTTIME = 0, 19
"""Places of proc(5)'s fields 3 and 22 after the command name."""


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The identity of a process. `start_ticks` is field 22 of /proc/PID/stat: clock ticks after boot."""

    pid: int
    start_ticks: int
    boot_id: str


@cache
def boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


@cache
def pid_namespace() -> str:
    """Return this process's namespace as "pid:[NUMBER]": process numbers mean something only within one. Empty where it is
    not known."""
    try:
        return str((PROC / "self/ns/pid").readlink())
    except OSError:
        return ""


def seen_here(namespace: str) -> bool:
    """Return True if process numbers of that namespace (empty: not known) are those of this process's own."""
    return namespace in ("", pid_namespace())


def uptime() -> str:
    """Return the current time on the machine's own clock, which is never set: "SECONDS@BOOT_ID", to be compared within one
    boot."""
    return f"{(PROC / 'uptime').read_text().split()[0]}@{boot_id()}"


def of(pid: int) -> ProcessIdentity | None:
    """Return the identity of a live process; None when it is gone (a zombie is gone)."""
    fields = _fields(pid)
    if fields is None or fields[STATE] in "ZX":
        return None
    return ProcessIdentity(pid, int(fields[STARTTIME]), boot_id())


def start_ticks(pid: int) -> int | None:
    """Return when the process (a zombie too) of that number started; None without such a process."""
    fields = _fields(pid)
    return None if fields is None else int(fields[STARTTIME])


def owner(pid: int) -> int | None:
    """Return the real user id of the process; None when it is gone."""
    found = status(pid).get("Uid")
    return int(found[0]) if found else None


def numbered(inner: int) -> Iterator[int]:
    """Yield the processes that have this number in a namespace of their own."""
    for entry in PROC.iterdir():
        if entry.name.isdecimal() and status(int(entry.name)).get("NSpid", [])[1:][-1:] == [str(inner)]:
            yield int(entry.name)


def command_line(pid: int) -> list[str]:
    """Return the words of the process's command line; none of a process that is gone, hidden or the kernel's."""
    try:
        data = (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return []
    return data.decode(errors="replace").rstrip("\0").split("\0") if data else []


def status(pid: int) -> dict[str, list[str]]:
    """Return the fields of /proc/PID/status; none of a process that is gone or hidden."""
    try:
        text = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return {}
    return {name: value.split() for name, _, value in (line.partition(":") for line in text.splitlines())}


def is_alive(identity: ProcessIdentity) -> bool:
    """Return True if that very process still runs."""
    fields = _fields(identity.pid) if is_this_boot(identity) else None
    return fields is not None and fields[STATE] not in "ZX" and int(fields[STARTTIME]) == identity.start_ticks


def is_this_boot(identity: ProcessIdentity) -> bool:
    return identity.boot_id == boot_id()


def send_signal(identity: ProcessIdentity, number: int) -> bool:
    """Send a signal to that very process, or to none if it is gone; return False where this process may not."""
    try:
        descriptor = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return True
    except OSError:  # a kernel without it
        return False
    try:
        if is_alive(identity):
            signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(descriptor)
    return True


def _fields(pid: int) -> list[str] | None:
    try:  # asked of every executor, several times a period: a bare descriptor costs half of what a file object does
        descriptor = os.open(f"{PROC}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
        try:
            stat = os.read(descriptor, 4096).decode(errors="replace")
        finally:
            os.close(descriptor)
    except OSError:
        return None
    return stat[stat.rindex(")") + 2 :].split(maxsplit=STARTTIME + 1)  # the command name may hold spaces and brackets
