"""Control groups, v1 and v2: the only module that knows their files.

Kernel documentation: admin-guide/cgroup-v1 (cpuacct, memory; scheduler/sched-bwc for the quota), admin-guide/cgroup-v2.
A hybrid machine (v1 controllers plus an empty v2 tree) counts as v1. A missing file means that the group is gone, which
is ordinary: readers return None, writers False. `math.inf` is "no limit". Not here: which process is whose executor,
and how a file is read (`cgroup_files`).
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from controller.machine.waiting import wait_until
from controller.runtime.base import CPU_PERIOD_US
from controller.runtime.cgroup.files import Text, attribute, number_of, removed, text_of, write_text

PARENT = "sparkpace"
"""Name of the group in which executors' groups lie; it goes with the last of them."""
ADOPTED = "sparkpace-adopted"
"""Name of the group in which the groups of adopted executors lie; these are emptied, never killed."""
REST = "sparkpace-rest"
"""v2: group for the processes that were in a group that got children, because a group with children may hold no processes
itself."""
DELEGATE = ("trusted.delegate", "user.delegate")
"""Attributes by which systemd marks a group that its service may divide (Delegate=yes)."""
THREAD_SHARES, THREAD_WEIGHT = 1024, 100
"""Weight of one thread on v1 and on v2: as much as a group has by default, however many threads it has."""
MOST_WEIGHT = 10_000
"""Largest weight on v2: the kernel refuses more."""
MIN_QUOTA_US = 1_000
"""Smallest quota: the kernel refuses less."""
UNLIMITED_BYTES = 1 << 62
MAKE_ROUNDS = 20
KILL_ROUNDS = 20
"""Largest number of rounds of SIGKILL: a group that forks while it is killed is empty after a few; a process in
uninterruptible sleep may not be."""

EMPTY_S = 10.0
"""Longest wait for a group to be empty after SIGKILL."""


@dataclass(frozen=True, slots=True)
class Group:
    """The directories of one control group: on v2 the same one three times. `memory` None: no memory controller."""

    cpu: Path
    cpuacct: Path
    memory: Path | None

    def directories(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(path for path in (self.cpu, self.cpuacct, self.memory) if path is not None))


@dataclass(frozen=True, slots=True)
class Usage:
    """A reading of a group. `cpu_s` and `throttled_s` count since the group was made; `quota_cores` is inf if unlimited;
    `memory_bytes` leaves out file cache, which the kernel can drop (None: no memory controller); `memory_limit_bytes` None:
    no limit. `throttled_s`: seconds that threads which could have run stood still because the quota of a period was used up,
    summed over the CPUs they would have run on; None where the kernel counts none."""

    cpu_s: float
    quota_cores: float
    memory_bytes: int | None
    memory_limit_bytes: int | None = None
    throttled_s: float | None = None


def quota_us(cores: float) -> int:
    """Return the microseconds of CPU per period of `CPU_PERIOD_US` for `cores` (> 0), not below what the kernel accepts."""
    return max(MIN_QUOTA_US, round(cores * CPU_PERIOD_US))


class CgroupTree:
    """One mounted cgroup file system at `root`; `proc` is where /proc is."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> None:
        self._root = root
        self._proc = proc
        self.version: int | None = None
        if (root / "cgroup.controllers").exists():
            self.version = 2
        elif self._mount("cpu") is not None and self._mount("cpuacct") is not None:
            self.version = 1

    # ---------------------------------------------------------------- finding

    def group_of(self, pid: int, must_contain: str = "") -> Group | None:
        """Return the group of a live process; None if the process or its group is not visible from here.

        `must_contain` guards against a pid of another pid namespace: the group's path must hold it (a container id).
        """
        paths = self._paths_of(pid)
        group = self._group(paths) if paths else None
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

    def _group(self, paths: dict[str, str]) -> Group | None:
        if self.version == 2 and "" in paths:
            directory = self._root / paths[""].lstrip("/")
            return Group(directory, directory, directory)
        if self.version != 1 or "cpu" not in paths or "cpuacct" not in paths:
            return None
        cpu, cpuacct, memory = (self._mount(name) for name in ("cpu", "cpuacct", "memory"))
        if cpu is None or cpuacct is None:
            return None
        return Group(
            cpu / paths["cpu"].lstrip("/"),
            cpuacct / paths["cpuacct"].lstrip("/"),
            memory / paths["memory"].lstrip("/") if memory is not None and "memory" in paths else None,
        )

    def _mount(self, controller: str) -> Path | None:
        """Return the directory where v1 mounts `controller`: by itself, or together with its twin."""
        for name in (controller, "cpu,cpuacct") if controller.startswith("cpu") else (controller,):
            if (self._root / name).is_dir():
                return self._root / name
        return None

    # ---------------------------------------------------------------- reading

    def read(self, group: Group, text: Text = text_of) -> Usage | None:
        """Return CPU, quota and memory now; None when the group is gone. `text` reads files: for a group that is read
        repeatedly, `OpenFiles.text`."""
        cpu_s, quota = self._cpu_s(group, text), self.read_quota(group, text)
        if cpu_s is None or quota is None:
            return None
        memory, limit = self._memory_bytes(group, text), self.read_memory_limit(group, text)
        return Usage(cpu_s, quota, memory, limit, self._throttled_s(group, text))

    def _cpu_s(self, group: Group, text: Text) -> float | None:
        if self.version == 2:
            micros = number_of(text(f"{group.cpuacct}/cpu.stat"), "usage_usec")
            return None if micros is None else micros / 1e6
        nanos = text(f"{group.cpuacct}/cpuacct.usage")
        return None if nanos is None else int(nanos) / 1e9

    def _throttled_s(self, group: Group, text: Text) -> float | None:
        name, a_second = ("throttled_usec", 1e6) if self.version == 2 else ("throttled_time", 1e9)
        counted = number_of(text(f"{group.cpu}/cpu.stat"), name)
        return None if counted is None else counted / a_second

    def read_quota(self, group: Group, text: Text = text_of) -> float | None:
        """Return the cores that the quota allows, inf without one, None when the group is gone."""
        if self.version == 2:
            both = text(f"{group.cpu}/cpu.max")
            quota, period = both.split() if both else (None, None)
        else:
            quota, period = text(f"{group.cpu}/cpu.cfs_quota_us"), text(f"{group.cpu}/cpu.cfs_period_us")
        if quota is None or period is None:
            return None
        if quota == "max" or int(quota) < 0:
            return math.inf
        return int(quota) / int(period)

    def own_quota(self) -> float:
        """Return the cores that the group at the root allows, in a container the container's own; inf without a quota."""
        root = self._group(dict.fromkeys(("", "cpu", "cpuacct"), "/"))
        try:
            quota = self.read_quota(root) if root is not None else None
        except ValueError:  # an emulated file system
            quota = None
        return math.inf if quota is None else quota

    def _memory_bytes(self, group: Group, text: Text) -> int | None:
        if group.memory is None:
            return None
        v2 = self.version == 2
        used = text(f"{group.memory}/{'memory.current' if v2 else 'memory.usage_in_bytes'}")
        if used is None:
            return None
        names = ("inactive_file", "active_file") if v2 else ("total_inactive_file", "total_active_file")
        stat = text(f"{group.memory}/memory.stat")
        return max(0, int(used) - sum(number_of(stat, name) or 0 for name in names))

    def read_memory_limit(self, group: Group, text: Text = text_of) -> int | None:
        """Return the group's own memory limit in bytes; None without one, without a memory controller, or when the group is
        gone."""
        if group.memory is None:
            return None
        limit = text(f"{group.memory}/{'memory.max' if self.version == 2 else 'memory.limit_in_bytes'}")
        # v1 says "no limit" with the largest number of whole pages
        return None if limit is None or limit == "max" or int(limit) >= UNLIMITED_BYTES else int(limit)

    def cpu_root(self) -> Path | None:
        """Return the root of the hierarchy with quotas; None without such a hierarchy."""
        return self._root if self.version == 2 else self._mount("cpu")

    def is_root(self, directory: Path) -> bool:
        """Return True if the directory is the root of its hierarchy, which has no quota."""
        return directory in (self._root, *(self._mount(name) for name in ("cpu", "cpuacct", "memory")))

    def pids(self, group: Group) -> tuple[int, ...]:
        return self.pids_in(group.cpu)

    @staticmethod
    def pids_in(directory: Path) -> tuple[int, ...]:
        """Return the processes in this directory of one hierarchy: on v1 a process may be elsewhere in another one."""
        return tuple(int(pid) for pid in (text_of(f"{directory}/cgroup.procs") or "").split())

    # ---------------------------------------------------------------- writing

    def create(self, name: str) -> Group | None:
        """Make a new, empty group `name` ("a/b" nests) that this process may write to; return None when that is not possible
        here.

        v1: below this process's own group, so that no outer limit is escaped. v2: next to that group, because a group that
        holds processes cannot hand controllers to children; at the root both are the same place.
        """
        paths = self._paths_of(os.getpid())
        if self.version == 2:
            paths = {key: str(Path(path).parent) for key, path in paths.items()}
        base = self._group(paths)
        if base is None:
            return None
        memory = base.memory / name if base.memory is not None else None
        group = Group(base.cpu / name, base.cpuacct / name, memory)
        try:
            self._make(base, name, group)
            usable = self.write_quota(group, math.inf) and os.access(group.cpu / "cgroup.procs", os.W_OK)
        except OSError:
            usable = False
        if not usable:
            self.remove(group)
            return None
        return group

    def delegated(self, outer: Group) -> bool:
        """Return True if groups may be made below `outer`, which holds processes: v1 lets anybody who may write there, v2
        only where systemd has handed it to its service."""
        if self.version == 1:
            return os.access(outer.cpu, os.W_OK)
        return any(attribute(outer.cpu, name) == b"1" for name in DELEGATE)

    def create_below(self, outer: Group, name: str, threads: int) -> Group:
        """Make a group `ADOPTED/name` below a group that holds processes, only for CPU. The new group weighs as much as
        `threads` threads of the outer group that are in no group of their own. Raise `OSError`."""
        group = Group(outer.cpu / ADOPTED / name, outer.cpuacct / ADOPTED / name, None)
        if self.version == 2:
            rest = outer.cpu / REST
            rest.mkdir(exist_ok=True)
            self._move_all(outer.cpu, rest)
            (outer.cpu / ADOPTED).mkdir(exist_ok=True)
            for parent in (outer.cpu, outer.cpu / ADOPTED):
                (parent / "cgroup.subtree_control").write_text("+cpu")
        for directory in group.directories():
            directory.mkdir(parents=True, exist_ok=True)
        self._weigh(group.cpu, threads)
        self._weigh_adopted(outer)
        return group

    def _weigh(self, directory: Path, threads: int) -> None:
        """Write the group's weight; do nothing where the group is gone. v1 lowers a weight that is too high by itself."""
        if self.version == 2:
            write_text(directory / "cpu.weight", str(min(MOST_WEIGHT, threads * THREAD_WEIGHT)))
        else:
            write_text(directory / "cpu.shares", str(threads * THREAD_SHARES))

    def _weigh_adopted(self, outer: Group) -> None:
        """Set the weight of `ADOPTED` to that of its groups together, because weights count only among siblings. On v2 the
        rest, whose threads weighed one by one before, weighs as many threads as run at once."""
        name, one = ("cpu.weight", THREAD_WEIGHT) if self.version == 2 else ("cpu.shares", THREAD_SHARES)
        weights = [text_of(str(file)) for file in (outer.cpu / ADOPTED).glob(f"*/{name}")]
        self._weigh(outer.cpu / ADOPTED, max(1, sum(int(weight) for weight in weights if weight) // one))
        if self.version == 2:
            self._weigh(outer.cpu / REST, os.cpu_count() or 1)

    def dissolve(self, group: Group, outer: Group) -> bool:
        """Undo `create_below`: move processes back to `outer`; return True if the group is gone."""
        back = outer.cpu / REST if self.version == 2 else None
        for directory, home in zip(group.directories(), outer.directories(), strict=False):
            self._move_all(directory, back or home)
        gone = self.remove(group)
        for directory in group.directories():
            removed(directory.parent)  # others may be there
        self._weigh_adopted(outer)
        if back is not None and not (outer.cpu / ADOPTED).exists():
            with contextlib.suppress(OSError):
                (outer.cpu / "cgroup.subtree_control").write_text("-cpu")
                self._move_all(back, outer.cpu)
                removed(back)
        return gone

    @staticmethod
    def _move_all(source: Path, target: Path) -> None:
        """Move all processes, also those that are forked meanwhile."""
        for _ in range(KILL_ROUNDS):
            pids = (text_of(f"{source}/cgroup.procs") or "").split()
            for pid in pids:
                with contextlib.suppress(OSError):  # a process that has just ended
                    write_text(target / "cgroup.procs", pid)
            if not pids:
                return

    @staticmethod
    def undivided(group: Group) -> Group:
        """Return the group that was there before `create_below` made `group`, if it did: an earlier agent may have left
        one."""
        ups = 1 if group.cpu.name == REST else 2 if group.cpu.parent.name == ADOPTED else 0
        for _ in range(ups):
            # of a version with hierarchies apart nothing was made for memory
            memory = group.memory.parent if group.memory == group.cpu else group.memory
            group = Group(group.cpu.parent, group.cpuacct.parent, memory)
        return group

    def _make(self, base: Group, name: str, group: Group) -> None:
        for attempt in range(MAKE_ROUNDS):
            try:
                if self.version == 2:
                    self._delegate(base.cpu, name)
                for directory in group.directories():
                    directory.mkdir(parents=True, exist_ok=True)
                return
            except FileNotFoundError:  # another home's `clear` took the empty `PARENT` from under it
                if attempt == MAKE_ROUNDS - 1:
                    raise

    def clear(self, names: Iterable[str]) -> dict[str, bool]:
        """Remove the groups `PARENT/name` of these names wherever they are, with their processes, and every `PARENT` that is
        empty then. Return the names that were there, each with True if its groups are gone."""
        wanted, gone = set(names), dict[str, bool]()
        for parent in self._parents():
            for directory in [parent / name for name in wanted if (parent / name).is_dir()]:
                self.kill_all(Group(directory, directory, None))
                gone[directory.name] = _removed_soon(directory) and gone.get(directory.name, True)
            removed(parent)  # another home may have groups there
        return gone

    def _parents(self) -> Iterator[Path]:
        """Yield every directory `PARENT`, in all hierarchies that we write to."""
        roots = [self._root] if self.version == 2 else [self._mount(name) for name in ("cpu", "cpuacct", "memory")]
        for root in dict.fromkeys(root.resolve() for root in roots if root is not None):
            for place, directories, _ in os.walk(root):
                if PARENT in directories:
                    yield Path(place, PARENT)
                    directories.remove(PARENT)

    def _delegate(self, base: Path, name: str) -> None:
        """Hand cpu (must) and memory (may) from `base` down to the parent of `name` (v2)."""
        for parent in [base, *(base / part for part in reversed(Path(name).parents) if part != Path())]:
            parent.mkdir(exist_ok=True)
            (parent / "cgroup.subtree_control").write_text("+cpu")
            with contextlib.suppress(OSError):
                (parent / "cgroup.subtree_control").write_text("+memory")

    def write_quota(self, group: Group, cores: float) -> bool:
        """Set the CPU quota (inf: none); return False when the group is gone."""
        unlimited = math.isinf(cores)
        if self.version == 2:
            return write_text(group.cpu / "cpu.max", f"{'max' if unlimited else quota_us(cores)} {CPU_PERIOD_US}")
        writes = [("cpu.cfs_period_us", CPU_PERIOD_US), ("cpu.cfs_quota_us", -1 if unlimited else quota_us(cores))]
        before = text_of(f"{group.cpu}/cpu.cfs_period_us") or ""
        if before.isdecimal() and int(before) > CPU_PERIOD_US:  # its quota would be many cores of a shorter period
            writes.reverse()
        return all(write_text(group.cpu / name, str(value)) for name, value in writes)

    def quota_above(self, group: Group) -> float:
        """Return the least quota of the groups above, in cores: v1 refuses more, on v2 more has no effect. inf without
        one."""
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
        if group.memory is None:
            return False
        if self.version == 2:
            return write_text(group.memory / "memory.max", str(limit_bytes))
        files = [group.memory / "memory.limit_in_bytes"]
        with_swap = group.memory / "memory.memsw.limit_in_bytes"
        before = text_of(str(with_swap))
        if before is not None:  # at no moment may the limit with swap be the smaller one
            files.insert(0 if limit_bytes > int(before) else 1, with_swap)
        return all(write_text(file, str(limit_bytes)) for file in files)

    def add(self, group: Group, pid: int) -> bool:
        """Move a process (all its threads) into the group; return False when either is gone."""
        return all(write_text(directory / "cgroup.procs", str(pid)) for directory in group.directories())

    def kill_all(self, group: Group) -> bool:
        """Send SIGKILL to every process of the group, also those forked meanwhile; return True when none is left to
        signal."""
        if (group.cpu / "cgroup.kill").exists():
            return write_text(group.cpu / "cgroup.kill", "1")
        for _ in range(KILL_ROUNDS):
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


def _removed_soon(directory: Path) -> bool:
    """Remove a killed group: its processes stay in it until they have let go of their memory. Return True if it is gone."""
    return wait_until(lambda: removed(directory), EMPTY_S, 0.05)
