"""/proc: the present boot of the machine, the resources that its programs wait for, and the kernel's facts about the process
that has a number now. Linux only.

A number means another process later: `controller.machine.process` distinguishes a process from its successor.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PROC = Path("/proc")
STATE, STARTTIME = 0, 19
"""Places of proc(5)'s fields 3 and 22 after the command name."""


@cache
def boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


@cache
def pid_namespace() -> str:
    """Return this process's namespace as "pid:[NUMBER]": process numbers mean something only within one. Empty where it is
    not known."""
    return pid_namespace_of("self")


def uptime() -> str:
    """Return the current time on the machine's own clock, which is never set: "SECONDS@BOOT_ID", to be compared within one
    boot."""
    return f"{(PROC / 'uptime').read_text().split()[0]}@{boot_id()}"


def pid_namespace_of(pid: int | str) -> str:
    """Return the namespace of the process's number; empty where this process may not see it."""
    try:
        return str((PROC / str(pid) / "ns/pid").readlink())
    except OSError:
        return ""


def start_ticks(pid: int, *, zombie: bool = True) -> int | None:
    """Return when the process of that number started, in clock ticks after the boot; None without such a process, and for a
    zombie if it does not count."""
    fields = _fields(pid)
    return None if fields is None or (not zombie and fields[STATE] in "ZX") else int(fields[STARTTIME])


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


def all_waited_for_memory() -> float | None:
    """Return the part of the last 10 s in which everything that could have run waited for memory: the kernel's pressure stall
    information. None where the kernel does not count it."""
    try:
        text = (PROC / "pressure" / "memory").read_text()
    except OSError:  # no such file, or turned off at boot
        return None
    found = re.search(r"^full avg10=([0-9]+\.[0-9]+) ", text, re.MULTILINE)
    return float(found[1]) / 100 if found else None


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
