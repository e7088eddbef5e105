"""The division of a container's quota among the executors in it by cpu-shares: a group for the executors of each application.

So the kernel shares as between containers that only have a request: in proportion to weight among the executors that have
work to do, and no share is lost. cgroup v1 (admin-guide/cgroup-v1, sched-design-CFS); on v2 a group that holds processes
cannot hand controllers to children.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import psutil

from controller.runtime.cgroup.group import Group
from controller.runtime.cgroup.tree import CgroupTree
from stage_model.errors import Unavailable

SHARES = 1024
"""Shares of weight 1: a new group's."""
LEAST_SHARES = 2
"""The least that the kernel takes."""
FLAG = "--app-id"
"""The option that names a stock executor's application (CoarseGrainedExecutorBackend)."""


def refuse_without_shares(tree: CgroupTree) -> None:
    """Raise `Unavailable` where groups below a container's cannot be made."""
    own = tree.group_of(os.getpid())
    if tree.version != 1 or own is None or not os.access(own.cpu, os.W_OK):
        raise Unavailable("cpu-shares inside a container need cgroup v1 and root; use such a machine, or other schedulers")


def divide(tree: CgroupTree, container: Group, weights: Mapping[str, float]) -> None:
    """Move executors of these applications (id: weight), and what they started, out of the container's own group."""
    for pid in tree.pids(container):
        app = application_of_process(pid)
        if app in weights:
            # a process that ends meanwhile needs no share
            with suppress(FileNotFoundError, ProcessLookupError):
                own = container.cpu / app
                own.mkdir(exist_ok=True)
                (own / "cpu.shares").write_text(str(max(LEAST_SHARES, round(SHARES * weights[app]))))
                (own / "cgroup.procs").write_text(str(pid))


def application_of_process(pid: int) -> str:
    """Return the application of an executor or what it started; empty for any other process, and for one that has ended."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        commands = (one.cmdline() for one in (process, *process.parents()))
        return next(filter(None, map(application_of, commands)), "")
    return ""


def application_of(command: Sequence[str]) -> str:
    """Return the application in an executor's command line; empty for any other."""
    return command[command.index(FLAG) + 1] if FLAG in command[:-1] else ""
