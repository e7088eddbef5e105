"""Control groups of version 1: a hierarchy for each controller.

Kernel documentation: admin-guide/cgroup-v1 (cpuacct, memory, blkio-controller), scheduler/sched-bwc for the quota.
"""

from __future__ import annotations

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
    number_of,
    quota_us,
    text_of,
    weights_in,
    write_text,
)

THREAD_SHARES = 1024
"""Weight of one thread: as much as a group has by default, however many threads it has."""
UNLIMITED_BYTES = 1 << 62
READ_RATES, WRITE_RATES = "blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"


class V1:
    """The files of groups below `root`, where the hierarchies are mounted."""

    number = 1

    def __init__(self, root: Path) -> None:
        self._root = root

    # ---------------------------------------------------------------- finding

    def _mount(self, controller: str) -> Path | None:
        """Return the directory where `controller` is mounted: by itself, or together with its twin."""
        for name in (controller, "cpu,cpuacct") if controller.startswith("cpu") else (controller,):
            if (self._root / name).is_dir():
                return self._root / name
        return None

    def mounted(self) -> bool:
        return self._mount("cpu") is not None and self._mount("cpuacct") is not None

    def roots(self) -> list[Path]:
        """Return the roots of the hierarchies that are used here; that with quotas is the first."""
        found = (self._mount(name) for name in ("cpu", "cpuacct", "memory", "blkio"))
        return [root for root in found if root is not None]

    def cpu_root(self) -> Path | None:
        return self._mount("cpu")

    def group(self, paths: Mapping[str, str]) -> Group | None:
        """Return the group of these paths by controller; None where CPU has no hierarchy."""
        cpu, cpuacct, memory, io = (self._mount(name) for name in ("cpu", "cpuacct", "memory", "blkio"))
        if cpu is None or cpuacct is None or "cpu" not in paths or "cpuacct" not in paths:
            return None
        return Group(
            cpu / paths["cpu"].lstrip("/"),
            cpuacct / paths["cpuacct"].lstrip("/"),
            memory / paths["memory"].lstrip("/") if memory is not None and "memory" in paths else None,
            io / paths["blkio"].lstrip("/") if io is not None and "blkio" in paths else None,
        )

    # ---------------------------------------------------------------- reading

    def cpu_s(self, group: Group, text: Text) -> float | None:
        nanos = text(f"{group.cpuacct}/cpuacct.usage")
        return None if nanos is None else int(nanos) / 1e9

    def throttled_s(self, group: Group, text: Text) -> float | None:
        counted = number_of(text(f"{group.cpu}/cpu.stat"), "throttled_time")
        return None if counted is None else counted / 1e9

    def quota(self, group: Group, text: Text) -> float | None:
        quota, period = text(f"{group.cpu}/cpu.cfs_quota_us"), text(f"{group.cpu}/cpu.cfs_period_us")
        if quota is None or period is None:
            return None
        return math.inf if int(quota) < 0 else int(quota) / int(period)

    def memory_bytes(self, directory: Path, text: Text) -> int | None:
        used = text(f"{directory}/memory.usage_in_bytes")
        if used is None:
            return None
        stat = text(f"{directory}/memory.stat")
        return max(0, int(used) - sum(number_of(stat, name) or 0 for name in ("total_inactive_file", "total_active_file")))

    def memory_limit(self, directory: Path, text: Text) -> int | None:
        limit = text(f"{directory}/memory.limit_in_bytes")
        # the kernel says "no limit" with the largest number of whole pages
        return None if limit is None or int(limit) >= UNLIMITED_BYTES else int(limit)

    def io_bytes(self, directory: Path, device: str) -> tuple[int, int] | None:
        stat = text_of(f"{directory}/blkio.throttle.io_service_bytes")
        return None if stat is None else (number_of(stat, f"{device} Read") or 0, number_of(stat, f"{device} Write") or 0)

    def io_rates(self, directory: Path) -> dict[str, IoRates] | None:
        reads, writes = (text_of(f"{directory}/{name}") for name in (READ_RATES, WRITE_RATES))
        if reads is None or writes is None:
            return None
        devices = [line.split()[0] for line in (*reads.splitlines(), *writes.splitlines())]
        return {device: (number_of(reads, device) or math.inf, number_of(writes, device) or math.inf) for device in devices}

    def why_no_rates(self) -> str:
        """Return why no group can have rates; empty where groups can."""
        root = self._mount("blkio")
        there = root is not None and (root / READ_RATES).exists()
        return "" if there else "there are no control groups for block devices (blkio)"

    def why_no_rates_below(self, base: Group) -> str:
        """Return why groups that are made below `base` can have no rates; empty where they can."""
        if base.io is None:
            return "this process has no control group for block devices (blkio)"
        return "" if os.access(base.io, os.W_OK) else f"control group {base.io} may not be written by this user"

    # ---------------------------------------------------------------- writing

    def count_io(self, directory: Path, device: str) -> None:
        """Let the kernel count what the group reads and writes. From Linux 6.10 on, it counts nothing on a device for which
        no rate was ever written, in whatever group. The rate that is written here holds nothing."""
        stat = text_of(f"{directory}/blkio.throttle.io_service_bytes")
        if stat is not None and number_of(stat, f"{device} Read") is None:  # so the group has no rate for the device, either
            write_text(directory / READ_RATES, f"{device} 0")

    def write_io_rates(self, directory: Path, device: str, rates: IoRates) -> bool:
        """Set the rates. What the kernel writes back later from its cache is not held by them."""
        words = (0 if math.isinf(rate) else max(1, round(rate)) for rate in rates)
        return all(
            write_text(directory / name, f"{device} {word}")
            for name, word in zip((READ_RATES, WRITE_RATES), words, strict=True)
        )

    def write_quota(self, group: Group, cores: float) -> bool:
        writes = [("cpu.cfs_period_us", CPU_PERIOD_US), ("cpu.cfs_quota_us", -1 if math.isinf(cores) else quota_us(cores))]
        before = text_of(f"{group.cpu}/cpu.cfs_period_us") or ""
        if before.isdecimal() and int(before) > CPU_PERIOD_US:  # its quota would be many cores of a shorter period
            writes.reverse()
        return all(write_text(group.cpu / name, str(value)) for name, value in writes)

    def write_memory_limit(self, directory: Path, limit_bytes: int) -> bool:
        """Set the limit, without swap beyond it. Raise `OSError` for a limit below what is in use."""
        files = [directory / "memory.limit_in_bytes"]
        with_swap = directory / "memory.memsw.limit_in_bytes"
        before = text_of(str(with_swap))
        if before is not None:  # at no moment may the limit with swap be the smaller one
            files.insert(0 if limit_bytes > int(before) else 1, with_swap)
        return all(write_text(file, str(limit_bytes)) for file in files)

    # ---------------------------------------------------------------- making

    def above_new(self, paths: Mapping[str, str]) -> Mapping[str, str]:
        """Return the paths below which a process with these paths makes groups: its own, so that no outer limit is
        escaped."""
        return paths

    def why_not(self, base: Group) -> str:
        """Return why this process cannot make groups below `base`; empty where it can."""
        closed = [directory for directory in (base.cpu, base.cpuacct) if not os.access(directory, os.W_OK)]
        return f"control group {closed[0]} may not be written by this user" if closed else ""

    def hand_down(self, base: Path, name: str) -> None:
        """Do nothing: each group has its hierarchy's controller."""

    def delegated(self, outer: Group) -> bool:
        """Return True if this process may make groups below `outer`, which holds processes: write access to `outer` is
        enough."""
        return os.access(outer.cpu, os.W_OK)

    def divide(self, outer: Group) -> None:
        """Do nothing: groups that hold processes may have children."""

    def homes(self, outer: Group) -> tuple[Path, ...]:
        """Return the directories to which processes go back from the children of `outer`."""
        return outer.directories()

    def unite(self, outer: Group) -> None:
        """Do nothing: `divide` does nothing."""

    def weigh(self, directory: Path, threads: int) -> None:
        """Write the group's weight; do nothing where the group is gone. The kernel lowers a weight that is too high."""
        write_text(directory / "cpu.shares", str(threads * THREAD_SHARES))

    def weigh_adopted(self, outer: Group) -> None:
        """Set the weight of `ADOPTED` to that of its groups together, because weights count only among siblings."""
        self.weigh(outer.cpu / ADOPTED, max(1, weights_in(outer.cpu / ADOPTED, "cpu.shares") // THREAD_SHARES))
