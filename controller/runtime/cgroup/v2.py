"""Control groups of version 2: one hierarchy for all controllers. A group with children may hold no processes itself.

Kernel documentation: admin-guide/cgroup-v2.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Mapping
from pathlib import Path

from controller.runtime.base import CPU_PERIOD_US
from controller.runtime.cgroup.group import (
    ADOPTED,
    Group,
    IoRates,
    Text,
    move_all,
    number_of,
    quota_us,
    text_of,
    weights_in,
    write_text,
)

REST = "sparkpace-rest"
"""Name of the group for the processes that were in a group that got children."""
DELEGATE = ("trusted.delegate", "user.delegate")
"""Attributes by which systemd marks a group that its service may divide (Delegate=yes)."""
THREAD_WEIGHT = 100
"""Weight of one thread: as much as a group has by default, however many threads it has."""
MOST_WEIGHT = 10_000
"""Largest weight: the kernel refuses more."""


class V2:
    """The files of groups below `root`, where the hierarchy is mounted."""

    number = 2

    def __init__(self, root: Path) -> None:
        self._root = root

    # ---------------------------------------------------------------- finding

    def mounted(self) -> bool:
        return True

    def roots(self) -> list[Path]:
        return [self._root]

    def cpu_root(self) -> Path | None:
        return self._root

    def group(self, paths: Mapping[str, str]) -> Group | None:
        """Return the group of the path without a controller's name; None without such a path."""
        if "" not in paths:
            return None
        directory = self._root / paths[""].lstrip("/")
        return Group(directory, directory, directory, directory)

    # ---------------------------------------------------------------- reading

    def cpu_s(self, group: Group, text: Text) -> float | None:
        micros = number_of(text(f"{group.cpuacct}/cpu.stat"), "usage_usec")
        return None if micros is None else micros / 1e6

    def throttled_s(self, group: Group, text: Text) -> float | None:
        counted = number_of(text(f"{group.cpu}/cpu.stat"), "throttled_usec")
        return None if counted is None else counted / 1e6

    def quota(self, group: Group, text: Text) -> float | None:
        both = text(f"{group.cpu}/cpu.max")
        if not both:
            return None
        quota, period = both.split()
        return math.inf if quota == "max" else int(quota) / int(period)

    def memory_bytes(self, directory: Path, text: Text) -> int | None:
        used = text(f"{directory}/memory.current")
        if used is None:
            return None
        stat = text(f"{directory}/memory.stat")
        return max(0, int(used) - sum(number_of(stat, name) or 0 for name in ("inactive_file", "active_file")))

    def memory_limit(self, directory: Path, text: Text) -> int | None:
        limit = text(f"{directory}/memory.max")
        return None if limit is None or limit == "max" else int(limit)

    def io_bytes(self, directory: Path, device: str) -> tuple[int, int] | None:
        stat = text_of(f"{directory}/io.stat")
        if stat is None:
            return None
        counts = _by_device(stat).get(device, {})
        return int(counts.get("rbytes", 0)), int(counts.get("wbytes", 0))

    def io_rates(self, directory: Path) -> dict[str, IoRates] | None:
        text = text_of(f"{directory}/io.max")
        if text is None:
            return None
        limits = {device: (words.get("rbps", "max"), words.get("wbps", "max")) for device, words in _by_device(text).items()}
        return {device: (_rate(read), _rate(write)) for device, (read, write) in limits.items()}

    def why_no_rates(self) -> str:
        """Return why no group can have rates; empty where groups can."""
        there = "io" in (text_of(f"{self._root}/cgroup.controllers") or "").split()
        return "" if there else "the control groups have no I/O controller"

    def why_no_rates_below(self, base: Group) -> str:
        """Return why groups that are made below `base` can have no rates; empty where they can. systemd hands cpu and memory
        to sessions of users, but not io."""
        there = "io" in (text_of(f"{base.cpu}/cgroup.controllers") or "").split()
        return "" if there else f"control group {base.cpu} has no I/O controller"

    # ---------------------------------------------------------------- writing

    def count_io(self, directory: Path, device: str) -> None:
        """Do nothing: version 2 counts on each device."""

    def write_io_rates(self, directory: Path, device: str, rates: IoRates) -> bool:
        """Set the rates, which hold for buffered writes, too, where the file system tells the kernel whose they are."""
        read, write = ("max" if math.isinf(rate) else max(1, round(rate)) for rate in rates)
        return write_text(directory / "io.max", f"{device} rbps={read} wbps={write}")

    def write_quota(self, group: Group, cores: float) -> bool:
        return write_text(group.cpu / "cpu.max", f"{'max' if math.isinf(cores) else quota_us(cores)} {CPU_PERIOD_US}")

    def write_memory_limit(self, directory: Path, limit_bytes: int) -> bool:
        """Set the limit. The kernel kills processes if more is in use."""
        return write_text(directory / "memory.max", str(limit_bytes))

    # ---------------------------------------------------------------- making

    def above_new(self, paths: Mapping[str, str]) -> Mapping[str, str]:
        """Return the paths below which a process with these paths makes groups: its own where systemd has handed that to its
        service or scope, whose limits then hold; else the parents of its own, because a group that holds processes cannot
        hand controllers to children. At the root both are the same place."""
        own = self.group(paths)
        if own is not None and self._is_units_own(own.cpu):
            return paths
        return {key: str(Path(path).parent) for key, path in paths.items()}

    def why_not(self, base: Group) -> str:
        """Return why this process cannot make groups below `base`; empty where it can."""
        if not all(os.access(path, os.W_OK) for path in (base.cpu, base.cpu / "cgroup.subtree_control")):
            return f"control group {base.cpu} may not be written by this user"
        if "cpu" not in (text_of(f"{base.cpu}/cgroup.controllers") or "").split():
            return f"control group {base.cpu} has no CPU controller"
        # the kernel's root, which may hold processes, has no type
        inner = (base.cpu / "cgroup.type").exists() and text_of(f"{base.cpu}/cgroup.procs")
        return f"control group {base.cpu} holds processes itself" if inner and not self._is_units_own(base.cpu) else ""

    def hand_down(self, base: Path, name: str) -> None:
        """Hand cpu (must), memory and io (may) from `base` down to the parent of `name`. Processes in a unit's own group
        are set aside for that."""
        if text_of(f"{base}/cgroup.procs") and self._is_units_own(base):
            self._set_aside(base)
        for parent in [base, *(base / part for part in reversed(Path(name).parents) if part != Path())]:
            parent.mkdir(exist_ok=True)
            (parent / "cgroup.subtree_control").write_text("+cpu")
            for controller in ("+memory", "+io"):
                with contextlib.suppress(OSError):
                    (parent / "cgroup.subtree_control").write_text(controller)

    def _is_units_own(self, directory: Path) -> bool:
        """Return True if systemd has handed the group to a service or scope; a container's root may be marked, too, but holds
        processes that others start there."""
        return directory != self._root and self.delegated(Group(directory, directory, directory))

    def delegated(self, outer: Group) -> bool:
        """Return True if groups may be made below `outer`, which holds processes: systemd has handed it to its service."""
        return any(_attribute(outer.cpu, name) == b"1" for name in DELEGATE)

    def divide(self, outer: Group) -> None:
        """Let `outer` have children for CPU: its processes go to `REST`."""
        self._set_aside(outer.cpu)
        (outer.cpu / ADOPTED).mkdir(exist_ok=True)
        for parent in (outer.cpu, outer.cpu / ADOPTED):
            (parent / "cgroup.subtree_control").write_text("+cpu")

    def _set_aside(self, directory: Path) -> None:
        """Move a group's own processes to `REST` below it."""
        rest = directory / REST
        rest.mkdir(exist_ok=True)
        move_all(directory, rest)

    def homes(self, outer: Group) -> tuple[Path, ...]:
        """Return the directory to which processes go back from the children of `outer`."""
        return (outer.cpu / REST,)

    def unite(self, outer: Group) -> None:
        """Undo `divide` once no adopted executor is left."""
        if (outer.cpu / ADOPTED).exists():
            return
        with contextlib.suppress(OSError):
            (outer.cpu / "cgroup.subtree_control").write_text("-cpu")
            move_all(outer.cpu / REST, outer.cpu)
            (outer.cpu / REST).rmdir()

    def weigh(self, directory: Path, threads: int) -> None:
        """Write the group's weight; do nothing where the group is gone."""
        write_text(directory / "cpu.weight", str(min(MOST_WEIGHT, threads * THREAD_WEIGHT)))

    def weigh_adopted(self, outer: Group) -> None:
        """Set the weight of `ADOPTED` to that of its groups together, because weights count only among siblings. The rest,
        whose threads weighed one by one before, weighs as many threads as run at once."""
        self.weigh(outer.cpu / ADOPTED, max(1, weights_in(outer.cpu / ADOPTED, "cpu.weight") // THREAD_WEIGHT))
        self.weigh(outer.cpu / REST, os.cpu_count() or 1)


def _by_device(text: str) -> dict[str, dict[str, str]]:
    """Return the words NAME=VALUE of each line, which begins with a device."""
    lines = [line.split() for line in text.splitlines()]
    return {words[0]: dict(word.split("=", 1) for word in words[1:] if "=" in word) for words in lines if words}


def _rate(word: str) -> float:
    return math.inf if word == "max" else float(word)


def _attribute(directory: Path, name: str) -> bytes:
    """Return the value of an extended attribute, empty without it."""
    try:
        return os.getxattr(directory, name)
    except OSError:
        return b""
