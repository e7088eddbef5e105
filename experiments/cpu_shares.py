"""Divides a container's quota among the executors in it by cpu-shares: those of each application in a group of their own.

So the kernel shares as between containers that only have a request: in proportion to weight among those that have work to
do, and nobody's share is lost. cgroup v1 (admin-guide/cgroup-v1, sched-design-CFS); on v2 a group that holds processes
cannot hand controllers to children.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from controller.runtime.cgroup import CgroupTree, Group
from stage_model.errors import Unavailable

SHARES = 1024
"""Of weight 1: a new group's."""
FLAG = "--app-id"
"""Tells a stock executor its application (CoarseGrainedExecutorBackend)."""


def divide(tree: CgroupTree, container: Group, weights: Mapping[str, int]) -> None:
    """Moves executors of these applications (id: weight) that are still in the container's own group. Their Python workers
    are started later and follow. Raises `Unavailable` without cgroup v1."""
    if tree.version != 1:
        raise Unavailable("cpu-shares inside a container need cgroup v1; accepted: a machine with it, or other schedulers")
    for pid in tree.pids(container):
        app = application_of(_words(pid))
        if app in weights:
            own = container.cpu / app
            own.mkdir(exist_ok=True)
            (own / "cpu.shares").write_text(str(SHARES * weights[app]))
            (own / "cgroup.procs").write_text(str(pid))


def application_of(words: list[str]) -> str:
    """Of an executor's command line; empty for any other."""
    return words[words.index(FLAG) + 1] if FLAG in words[:-1] else ""


def _words(pid: int) -> list[str]:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")
    except OSError:  # it has ended
        return []
