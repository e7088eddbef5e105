"""Shows as JSON what a group's disk rates hold: a program in it reads or writes without end, freely, with a rate and freely
again. The rates are written, read back and lifted as an agent does.

rates.py read|write|buffered BYTES_PER_S SECONDS
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from controller.machine.waiting import wait_until
from controller.runtime.base import ExecutorKey, TrafficPlace
from controller.runtime.cgroup.tree import PARENT, CgroupTree
from controller.runtime.rates import DiskRates, lift_disk_rates
from controller.runtime.table import RUNTIMES

KEY = ExecutorKey("lab", "1")
FILE = Path("/var/tmp/lab-rates")
# The kernel counts a buffered write for the group that has made the file, so each round makes one.
DD = {
    "read": f"if={FILE} of=/dev/null iflag=direct",
    "write": f"if=/dev/zero of={FILE} oflag=direct conv=notrunc",
    "buffered": f"if=/dev/zero of={FILE}.new conv=fsync; rm {FILE}.new",
}
FILE_BLOCKS = 64


def main(what: str, rate: float, seconds: float) -> None:
    tree = CgroupTree()
    disk = DiskRates(FILE.parent, RUNTIMES["process"], tree, os.getpid())
    name = f"lab-{os.getpid()}"
    group = tree.create(f"{PARENT}/{name}")
    assert group is not None
    assert group.io is not None
    side = 0 if what == "read" else 1
    rates = (rate, math.inf) if what == "read" else (math.inf, rate)
    FILE.write_bytes(os.urandom(FILE_BLOCKS << 16))
    loop = f"read _; while :; do dd bs=64K count={FILE_BLOCKS} {DD[what]}; done"
    words = ["sh", "-c", f"exec >/dev/null 2>&1; {loop}"]
    process = subprocess.Popen(words, stdin=subprocess.PIPE, start_new_session=True)
    place = TrafficPlace(process.pid, group.io)

    def used() -> int:
        counts = disk.counts(KEY, place)
        assert counts is not None
        return counts[side]

    def during() -> dict[str, float]:
        """Return the bytes that the kernel counts while some time passes, and no less time than they took."""
        began_s, before = time.monotonic(), used()
        time.sleep(seconds)
        return {"bytes": used() - before, "seconds": time.monotonic() - began_s}

    try:
        tree.add(group, process.pid)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        found: dict[str, object] = {"device": disk.device, "free": during()}
        disk.set(KEY, place, rates)
        found["text"] = (group.io / "io.max").read_text().strip()
        found["read_back"] = tree.io_rates(group.io) == {disk.device: rates}
        found["held"] = during()
        lift_disk_rates(tree, KEY, place)
        found["left"] = (group.io / "io.max").read_text().strip()
        found["free_again"] = during()
    finally:
        lift_disk_rates(tree, KEY, place)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        wait_until(lambda: tree.clear([name])[name], 30.0, 0.1)
        for file in (FILE, Path(f"{FILE}.new")):
            file.unlink(missing_ok=True)
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
