"""Control groups, v1 and v2, behind one class.

A hybrid machine (v1 controllers plus an empty v2 tree) counts as v1. A missing file means that the group is gone, which
is ordinary: readers return None, writers False. `math.inf` is "no limit". Not here: which process is whose executor, which
files a version has (`v1`, `v2`), and how a file is read (`group`).
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from controller.machine.waiting import wait_until
from controller.runtime.base import CPU_PERIOD_US
from controller.runtime.cgroup.group import (
    ADOPTED,
    ROUNDS,
    Group,
    IoRates,
    Text,
    Usage,
    move_all,
    removed,
    text_of,
    write_text,
)
from controller.runtime.cgroup.v1 import V1
from controller.runtime.cgroup.v2 import REST, V2
from stage_model.errors import Unavailable

PARENT = "sparkpace"
"""Name of the group in which executors' groups lie; it goes with the last of them."""
EMPTY_S = 10.0
"""Longest wait for a group to be empty after SIGKILL."""


class CgroupTree:
    """One mounted cgroup file system at `root`; `proc` is where /proc is. `version` is that of the file system; None
    without any."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> None:
        self._root = root
        self._proc = proc
        self._files: V1 | V2 = V2(root) if (root / "cgroup.controllers").exists() else V1(root)
        self.version = self._files.number if self._files.mounted() else None

    # ---------------------------------------------------------------- finding

    def group_of(self, pid: int, must_contain: str = "") -> Group | None:
        """Return the group of a live process; None if the process or its group is not visible from here.

        `must_contain` guards against a pid of another pid namespace: the group's path must hold it (a container id).
        """
        group = self._files.group(self._paths_of(pid))
        group = None if group is None else _in_sight(group)
        if group is None or must_contain not in str(group.cpu) or not all(d.is_dir() for d in group.directories()):
            return None
        return group

    def _paths_of(self, pid: int) -> dict[str, str]:
        """Return controller name ("" on v2) -> path within its hierarchy, from /proc/PID/cgroup."""
        paths: dict[str, str] = {}
        for line in (text_of(f"{self._proc}/{pid}/cgroup") or "").splitlines():
            _, names, path = line.split(":", 2)
            paths.update(dict.fromkeys(names.split(","), path))
        return paths

    # ---------------------------------------------------------------- reading

    def read(self, group: Group, text: Text = text_of) -> Usage | None:
        """Return CPU, quota and memory now; None when the group is gone. `text` reads files: for a group that is read
        repeatedly, `OpenFiles.text`."""
        cpu_s, quota = self._files.cpu_s(group, text), self._files.quota(group, text)
        if cpu_s is None or quota is None:
            return None
        memory = None if group.memory is None else self._files.memory_bytes(group.memory, text)
        limit = self.read_memory_limit(group, text)
        limited = None if math.isinf(quota) else quota
        return Usage(cpu_s, limited, memory, limit, self._files.throttled_s(group, text))

    def read_quota(self, group: Group) -> float | None:
        """Return the cores that the quota allows, inf without one, None when the group is gone."""
        return self._files.quota(group, text_of)

    def own_quota(self) -> float:
        """Return the cores that the group at the root allows, in a container the container's own; inf without a quota."""
        root = self._files.group(dict.fromkeys(("", "cpu", "cpuacct"), "/"))
        try:
            quota = self.read_quota(root) if root is not None else None
        except ValueError:  # an emulated file system
            quota = None
        return math.inf if quota is None else quota

    def quota_over(self, pid: int) -> float:
        """Return the least quota, in cores, of the groups that hold the process, up to the root; inf without one."""
        held = self.group_of(pid)
        try:
            above = math.inf if held is None else self.quota_above(Group(held.cpu / PARENT, held.cpuacct, None))
        except ValueError:  # an emulated file system
            above = math.inf
        return min(self.own_quota(), above)

    def own_memory(self) -> tuple[int, int] | None:
        """Return the memory limit of the group at the root, in a container the container's own, and the bytes of it that are
        in use; None without a limit."""
        root = self._files.group(dict.fromkeys(("", "cpu", "cpuacct", "memory"), "/"))
        if root is None or root.memory is None:
            return None
        try:
            limit, used = self.read_memory_limit(root), self._files.memory_bytes(root.memory, text_of)
        except ValueError:  # an emulated file system
            return None
        return None if limit is None or used is None else (limit, used)

    def read_memory_limit(self, group: Group, text: Text = text_of) -> int | None:
        """Return the group's own memory limit in bytes; None without one, without a memory controller, or when the group is
        gone."""
        return None if group.memory is None else self._files.memory_limit(group.memory, text)

    def count_io(self, directory: Path, device: str) -> None:
        """Let the kernel count what `io_bytes` returns. Do nothing when the group is gone or has no such controller. Raise
        `OSError`."""
        self._files.count_io(directory, device)

    def io_bytes(self, directory: Path, device: str) -> tuple[int, int] | None:
        """Return the bytes that the group with this directory for I/O has read from the device "MAJOR:MINOR" and written to
        it; None when the group is gone or has no such controller. Version 1 does not count buffered writes."""
        return self._files.io_bytes(directory, device)

    def io_rates(self, directory: Path) -> dict[str, IoRates] | None:
        """Return the group's rates by device; None as for `io_bytes`."""
        return self._files.io_rates(directory)

    def why_no_rates(self) -> str:
        """Return why no control group here can have rates; empty where control groups can."""
        return self._files.why_no_rates() if self.version else "there are no control groups here"

    def why_no_new_rates(self, pid: int) -> str:
        """Return why groups that the process makes can have no rates; empty where they can. Raise `Unavailable` as
        `place_of_new`."""
        self.place_of_new(pid)
        base = self._above_new(pid)
        return "" if base is None else self._files.why_no_rates_below(base)

    def cpu_root(self) -> Path | None:
        """Return the root of the hierarchy with quotas; None without such a hierarchy."""
        return self._files.cpu_root()

    def is_root(self, directory: Path) -> bool:
        """Return True if the directory is the root of its hierarchy, which has no quota."""
        return directory in (self._root, *self._files.roots())

    def pids(self, group: Group) -> tuple[int, ...]:
        return self.pids_in(group.cpu)

    @staticmethod
    def pids_in(directory: Path) -> tuple[int, ...]:
        """Return the processes in this directory of one hierarchy: on v1 a process may be elsewhere in another one."""
        return tuple(int(pid) for pid in (text_of(f"{directory}/cgroup.procs") or "").split())

    def place_of_new(self, pid: int) -> Path:
        """Return the group with quotas in which the process makes its groups; nothing is made. Raise `Unavailable`, with the
        reason, where this process can make none there."""
        base = self._above_new(pid)
        if base is None or not base.cpu.is_dir():
            raise Unavailable("no control group with CPU quotas is in sight")
        if reason := self._files.why_not(base):
            raise Unavailable(reason)
        return base.cpu

    def _above_new(self, pid: int) -> Group | None:
        return self._files.group(self._files.above_new(self._paths_of(pid)))

    # ---------------------------------------------------------------- writing

    def create(self, name: str) -> Group | None:
        """Make a new, empty group `name` ("a/b" nests) that this process may write to; return None when that is not possible
        here."""
        base = self._above_new(os.getpid())
        if base is None:
            return None
        memory = base.memory / name if base.memory is not None else None
        group = Group(base.cpu / name, base.cpuacct / name, memory, None if base.io is None else base.io / name)
        try:
            self._make(base, name, group)
            group = _in_sight(group)
            usable = self.write_quota(group, math.inf) and os.access(group.cpu / "cgroup.procs", os.W_OK)
        except OSError:
            usable = False
        if not usable:
            self.remove(group)
            return None
        return group

    def delegated(self, outer: Group) -> bool:
        """Return True if groups may be made below `outer`, which holds processes."""
        return self._files.delegated(outer)

    def create_below(self, outer: Group, name: str, threads: int) -> Group:
        """Make a group `ADOPTED/name` below a group that holds processes, only for CPU. The new group weighs as much as
        `threads` threads of the outer group that are in no group of their own. Raise `OSError`."""
        group = Group(outer.cpu / ADOPTED / name, outer.cpuacct / ADOPTED / name, None)
        self._files.divide(outer)
        for directory in group.directories():
            directory.mkdir(parents=True, exist_ok=True)
        self._files.weigh(group.cpu, threads)
        self._files.weigh_adopted(outer)
        return group

    def dissolve(self, group: Group, outer: Group) -> bool:
        """Undo `create_below`: move processes back to `outer`; return True if the group is gone."""
        for directory, home in zip(group.directories(), self._files.homes(outer), strict=False):
            move_all(directory, home)
        gone = self.remove(group)
        for directory in group.directories():
            removed(directory.parent)  # others may be there
        self._files.weigh_adopted(outer)
        self._files.unite(outer)
        return gone

    @staticmethod
    def undivided(group: Group) -> Group:
        """Return the group that was there before `create_below` made `group`, if there is one: an earlier agent may have left
        it."""
        ups = 1 if group.cpu.name == REST else 2 if group.cpu.parent.name == ADOPTED else 0
        for _ in range(ups):
            # of a version with hierarchies apart nothing was made for memory
            memory = group.memory.parent if group.memory == group.cpu else group.memory
            group = Group(group.cpu.parent, group.cpuacct.parent, memory)
        return group

    def _make(self, base: Group, name: str, group: Group) -> None:
        for attempt in range(ROUNDS):
            try:
                self._files.hand_down(base.cpu, name)
                for directory in group.directories():
                    with contextlib.suppress(PermissionError) if directory == group.io else contextlib.nullcontext():
                        directory.mkdir(parents=True, exist_ok=True)
                # again: a parent that was taken away before is made without controllers, and stays with the group in it
                self._files.hand_down(base.cpu, name)
                return
            except FileNotFoundError:  # another home's `clear` took the empty `PARENT` from under it
                if attempt == ROUNDS - 1:
                    raise

    def clear(self, names: Iterable[str]) -> dict[str, bool]:
        """Remove the groups `PARENT/name` of these names wherever they are, with their processes, and every `PARENT` that is
        empty then. Return the names that were there, each with True if its groups are gone."""
        wanted, gone = set(names), dict[str, bool]()
        for parent in self._parents():
            for directory in [parent / name for name in wanted if (parent / name).is_dir()]:
                self.kill_all(Group(directory, directory, None))
                # its processes stay in it until they have let go of their memory
                soon = wait_until(partial(removed, directory), EMPTY_S, 0.05)
                gone[directory.name] = soon and gone.get(directory.name, True)
            removed(parent)  # another home may have groups there
        return gone

    def _parents(self) -> Iterator[Path]:
        """Yield every directory `PARENT`, in all hierarchies that we write to."""
        for root in dict.fromkeys(root.resolve() for root in self._files.roots()):
            for place, directories, _ in os.walk(root):
                if PARENT in directories:
                    yield Path(place, PARENT)
                    directories.remove(PARENT)

    def write_quota(self, group: Group, cores: float) -> bool:
        """Set the CPU quota (inf: none); return False when the group is gone."""
        return self._files.write_quota(group, cores)

    def quota_above(self, group: Group) -> float:
        """Return the least quota of the groups above, in cores: v1 refuses a higher one, on v2 a higher one has no effect.
        inf without a quota above."""
        least = math.inf
        for above in group.cpu.parents:
            if above == self._root:
                break
            quota = self.read_quota(Group(above, above, None))  # None: the root of a hierarchy
            if quota is not None and math.isfinite(quota):
                # rounded up it would be more; a thousandth of what is written makes up for what a float lacks
                least = min(least, math.floor(quota * CPU_PERIOD_US + 0.001) / CPU_PERIOD_US)
        return least

    def write_memory_limit(self, group: Group, limit_bytes: int) -> bool:
        """Set the memory limit, on v1 without swap beyond it; return False when the group is gone or has no memory
        controller.

        Raises `OSError` when the kernel refuses: on v1 a limit below what is in use.
        """
        return group.memory is not None and self._files.write_memory_limit(group.memory, limit_bytes)

    def write_io_rates(self, directory: Path, device: str, rates: IoRates) -> bool:
        """Set the group's rates for a device; return False when the group is gone, or the device is not a whole one. Raise
        `OSError` when the kernel refuses them."""
        return self._files.write_io_rates(directory, device, rates)

    def add(self, group: Group, pid: int) -> bool:
        """Move a process (all its threads) into the group; return False when either is gone."""
        return all(write_text(directory / "cgroup.procs", str(pid)) for directory in group.directories())

    def kill_all(self, group: Group) -> bool:
        """Send SIGKILL to every process of the group, also processes forked meanwhile; return True when no process is left to
        signal."""
        if (group.cpu / "cgroup.kill").exists():
            return write_text(group.cpu / "cgroup.kill", "1")
        for _ in range(ROUNDS):
            found = self.pids(group)
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            if not found:
                return True
        return False

    def remove(self, group: Group) -> bool:
        """Remove an empty group; return False when processes are still in it. A missing group counts as removed."""
        results = [removed(directory) for directory in group.directories()]  # each is tried, whatever the others say
        return all(results)


def _in_sight(group: Group) -> Group:
    """Return the group without a directory for block devices that is not there: its CPU is of use without it."""
    return group if group.io is None or group.io.is_dir() else replace(group, io=None)
