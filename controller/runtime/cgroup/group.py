"""A control group, in either version: its directories, what is read of it, and its files, which are read and written as the
kernel wants it, fast, and without an error where the group has gone.

Kernel documentation: admin-guide/cgroup-v1 and admin-guide/cgroup-v2. Not here: which files there are, and what they mean
(`v1`, `v2`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from controller.runtime.base import CPU_PERIOD_US, Observed

ADOPTED = "sparkpace-adopted"
"""Name of the group in which the groups of adopted executors lie; these are emptied, never killed."""
MIN_QUOTA_US = 1_000
"""Smallest quota: the kernel refuses less."""
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESRCH, errno.ENODEV)
"""Errors of a file or process that is not there. ENODEV: the group went away under the open file."""
READ_BYTES = 16_384
ROUNDS = 20
"""Largest number of rounds in which processes are moved or killed: a group that forks meanwhile is empty after a few. A
process in uninterruptible sleep may not be killed by then."""

IoRates = tuple[float, float]
"""Bytes per second that a group may read from a device and write to it; inf: no limit."""
Text = Callable[[str], str | None]
"""Content of a file; None when the file is not there or its group is gone."""


@dataclass(frozen=True, slots=True)
class Group:
    """The directories of one control group: on v2 always the same one. `memory`, `io` None: no such controller."""

    cpu: Path
    cpuacct: Path
    memory: Path | None
    io: Path | None = None

    def directories(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(path for path in (self.cpu, self.cpuacct, self.memory, self.io) if path is not None))


@dataclass(frozen=True, slots=True)
class Usage:
    """A reading of a group. `cpu_s` and `throttled_s` count since the group was made; `quota_cores` None: no quota;
    `memory_bytes` leaves out file cache, which the kernel can drop (None: no memory controller); `memory_limit_bytes` None:
    no limit. `throttled_s`: seconds that threads which could have run stood still because the quota of a period was used up,
    summed over the CPUs they would have run on; None where the kernel counts none."""

    cpu_s: float
    quota_cores: float | None
    memory_bytes: int | None
    memory_limit_bytes: int | None = None
    throttled_s: float | None = None


def with_usage(last: Observed, usage: Usage) -> Observed:
    """Return the state of an executor with a reading of its group."""
    return replace(
        last,
        quota_cores=usage.quota_cores,
        cpu_s=usage.cpu_s,
        memory_bytes=usage.memory_bytes or 0,
        memory_limit_bytes=usage.memory_limit_bytes,
        throttled_s=usage.throttled_s,
    )


def quota_us(cores: float) -> int:
    """Return the microseconds of CPU per period of `CPU_PERIOD_US` for `cores` (> 0), not below what the kernel accepts."""
    return max(MIN_QUOTA_US, round(cores * CPU_PERIOD_US))


def text_of(path: str) -> str | None:
    """Read a file once: a path as text and a bare descriptor cost a fifth of what `Path` does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return _read(descriptor)
        finally:
            os.close(descriptor)
    except OSError:  # ENOENT: never there or gone; ENODEV: removed while it was open
        return None


class OpenFiles:
    """Open files of one group, kept open. An agent reads seven files of a group per period, and opening is most of the cost
    of reading. The files are closed with this object; a group that is removed and made again needs another object."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        weakref.finalize(self, _close, self._open)

    def text(self, path: str) -> str | None:
        """Read a file like `text_of`."""
        try:
            if path not in self._open:
                self._open[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            return _read(self._open[path])
        except OSError:
            return None


def _close(descriptors: dict[str, int]) -> None:
    for descriptor in descriptors.values():
        os.close(descriptor)


def _read(descriptor: int) -> str:
    data = os.pread(descriptor, READ_BYTES, 0)
    while len(data) % READ_BYTES == 0 and (more := os.pread(descriptor, READ_BYTES, len(data))):
        data += more
    return data.decode().strip()


def number_of(stat: str | None, key: str) -> int | None:
    """Return the number on the line of `key` in a file with a key and a number on each line; None without the file or the
    key."""
    begin = f"\n{stat}".find(f"\n{key} ")
    return None if stat is None or begin < 0 else int(stat[begin + len(key) + 1 :].split(maxsplit=1)[0])


def write_text(path: Path, value: str) -> bool:
    """Write a file; return False when the group is gone. Raise `OSError` when the kernel refuses."""
    try:
        # never creates: in a cgroup tree a missing file is a missing group; a bare descriptor costs a third of a file object
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in GONE:
            return False
        raise
    return True


def removed(directory: Path) -> bool:
    """Remove the group; return True if it is gone, now or before. The kernel keeps a group that holds processes."""
    try:
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def move_all(source: Path, target: Path) -> None:
    """Move all processes from one group to another, also processes that are forked meanwhile."""
    for _ in range(ROUNDS):
        pids = (text_of(f"{source}/cgroup.procs") or "").split()
        for pid in pids:
            with contextlib.suppress(OSError):  # a process that has just ended
                write_text(target / "cgroup.procs", pid)
        if not pids:
            return


def weights_in(directory: Path, name: str) -> int:
    """Return the sum of the numbers in the files `name` of all groups in a directory."""
    weights = [text_of(str(file)) for file in directory.glob(f"*/{name}")]
    return sum(int(weight) for weight in weights if weight)
