"""Shows as JSON where executors' control groups are made for a program that runs where this one does.

groups.py        makes a group as the runtime `process` does, removes it, and prints where it was
groups.py hold   keeps it, with a process in it and a quota of a quarter of a core, until this program ends
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

from controller.machine.waiting import wait_until
from controller.runtime.cgroup.tree import PARENT, CgroupTree

HELD_CORES = 0.25
ENDS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}


def main(*, hold: bool) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)  # the process that is held is ended by SIGKILL
    tree = CgroupTree()
    name = f"lab-{os.getpid()}"
    group = tree.create(f"{PARENT}/{name}")
    over = tree.quota_over(os.getpid())
    found: dict[str, object] = {
        "version": tree.version,
        "own": Path("/proc/self/cgroup").read_text().strip(),
        "made": None if group is None else str(group.cpu),
        "quota_over": None if math.isinf(over) else over,
    }
    process = None
    if hold and group is not None:
        process = subprocess.Popen(["sleep", "infinity"], start_new_session=True)
        tree.add(group, process.pid)
        tree.write_quota(group, HELD_CORES)
        found["pid"] = process.pid
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    if process is not None:
        signal.sigwait(ENDS)
        process.kill()
        process.wait()
    if group is not None:
        wait_until(lambda: tree.clear([name])[name], 10.0, 0.1)


if __name__ == "__main__":
    main(hold=sys.argv[1:] == ["hold"])
