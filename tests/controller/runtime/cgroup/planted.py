"""Trees of control groups, v1 and v2, made of plain files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.cgroup.v2 import DELEGATE

PID = 4711

V1 = {
    "proc/4711/cgroup": "5:memory:/box/a\n4:cpuset:/\n2:cpuacct:/box/a\n1:cpu:/box/a\n0::/box/a\n",
    "fs/cpu/box/a/cpu.cfs_quota_us": "25000",
    "fs/cpu/box/a/cpu.cfs_period_us": "100000",
    "fs/cpu/box/a/cpu.stat": "nr_periods 40\nnr_throttled 8\nthrottled_time 3500000000\nnr_bursts 0\n",
    "fs/cpu/box/a/cgroup.procs": "4711\n4712\n",
    "fs/cpuacct/box/a/cpuacct.usage": "12250000000\n",
    "fs/cpuacct/box/a/cgroup.procs": "4711\n4712\n",
    "fs/memory/box/a/memory.usage_in_bytes": "1000000\n",
    "fs/memory/box/a/memory.stat": "cache 5\ninactive_file 7\ntotal_inactive_file 200000\ntotal_active_file 100000\n",
    "fs/memory/box/a/memory.limit_in_bytes": "9223372036854771712\n",
    "fs/memory/box/a/cgroup.procs": "4711\n4712\n",
    "fs/unified/cgroup.controllers": "",
}
V2 = {
    "proc/4711/cgroup": "0::/box/a\n",
    "fs/cgroup.controllers": "cpu memory\n",
    "fs/box/a/cpu.max": "25000 100000\n",
    "fs/box/a/cpu.stat": "usage_usec 12250000\nuser_usec 1\nnr_throttled 8\nthrottled_usec 3500000\n",
    "fs/box/a/memory.current": "1000000\n",
    "fs/box/a/memory.stat": "anon 1\ninactive_file 200000\nactive_file 100000\n",
    "fs/box/a/memory.max": "max\n",
    "fs/box/a/cgroup.procs": "4711\n4712\n",
}

IO_V1 = {
    **V1,
    "proc/4711/cgroup": V1["proc/4711/cgroup"] + "6:blkio:/box/a\n",
    "fs/blkio/blkio.throttle.read_bps_device": "",
    "fs/blkio/box/a/blkio.throttle.io_service_bytes": "8:0 Read 1000\n8:0 Write 200\n8:16 Read 7\nTotal 1207\n",
    "fs/blkio/box/a/blkio.throttle.read_bps_device": "8:0 5000000\n",
    "fs/blkio/box/a/blkio.throttle.write_bps_device": "",
    "fs/blkio/box/a/cgroup.procs": "4711\n",
}
IO_V2 = {
    **V2,
    "fs/cgroup.controllers": "cpu io memory\n",
    "fs/box/a/io.stat": "8:16 rbytes=7 wbytes=0 rios=1\n8:0 rbytes=1000 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n",
    "fs/box/a/io.max": "8:0 rbps=5000000 wbps=max riops=max wiops=max\n",
}
"""Trees with controllers of block devices."""


def plant(root: Path, files: dict[str, str]) -> CgroupTree:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return CgroupTree(root / "fs", root / "proc")


def delegate(directory: Path) -> None:
    """Mark a group as systemd does for a unit with Delegate=yes."""
    try:
        os.setxattr(directory, DELEGATE[1], b"1")
    except OSError:
        pytest.skip("this file system has no such attributes")
