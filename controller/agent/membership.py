"""The cluster of a worker: its agent obeys that cluster's orders, and takes its executors for its own.

The master names it once; then a file of the worker's folder does, so that a restart needs no master. An agent in a pod loses
that file with its pod, but not the records of executors that it has adopted, which stay on the node: they name it while no
master answers. They do so only if no other agent adopts executors of the machine: agents of several clusters share that
folder. Not here: orders that are refused (`link`).

An agent claims the machine by flock(2) on the root of the CPU control groups, which all agents see, of any cluster, home or
container. The kernel drops the claim with its holder. Another agent is only reported: the first agent paces an executor that
both want, and `adopt` reports quotas that another program writes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from controller.asks.options import AgentOptions
from controller.home import Home
from controller.machine.files import write_whole
from controller.runtime.adopt.runtime import records_of
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.executor_record import AdoptedRecord, read_everybodys
from controller.runtime.table import RUNTIMES
from stage_model.errors import Unavailable

NOT_ALONE = (
    "another agent with `--runtime adopt` runs on this machine; if both are of one cluster, the first to join paces all "
    "executors here, else each agent paces those of its own cluster; run one agent on a machine"
)


def is_alone(options: AgentOptions) -> bool:
    """Return True if no other agent adopts executors of this machine; the agent claims it until its process ends."""
    row = RUNTIMES[options.runtime]
    return row.starts or row.everywhere or claim_machine()


def claim_machine(tree: CgroupTree | None = None) -> bool:
    """Claim this machine until this process ends; return False when another agent has claimed it, and True where there are no
    control groups, because claims cannot be seen there."""
    root = (tree or CgroupTree()).cpu_root()
    if root is None:
        return True
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    return True


def find_cluster(options: AgentOptions, *, alone: bool) -> tuple[str, bool]:
    """Return the cluster's id, and True if it is from the master; `alone`: as `is_alone` returned. Raise `Unavailable` where
    neither the master nor any file here names the cluster."""
    from controller.client import MasterClient  # most agents never need the client

    home = Home(options.home)
    if known := _noted(options):
        return known, True
    try:
        said = MasterClient(options.master_url, home.ca_file).health().cluster_id
    except Unavailable:
        if alone and (recorded := _recorded(options)):
            return recorded, False
        raise
    path = _file(options)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(path, f"{said}\n".encode())
    return said, True


def recall_cluster(options: AgentOptions, alone: Callable[[], bool]) -> str:
    """Return the cluster's id as known without a master; records count only if the agent is `alone`, asked only then. Empty
    where there is no id, so this worker paces no executors."""
    if known := _noted(options):
        return known
    recorded = _recorded(options)
    return recorded if recorded and alone() else ""


def _file(options: AgentOptions) -> Path:
    return Home(options.home).agent(options.worker_id) / "cluster_id"


def _noted(options: AgentOptions) -> str:
    try:
        return _file(options).read_text().strip()
    except FileNotFoundError:
        return ""


def _recorded(options: AgentOptions) -> str:
    """Return the cluster of the live executors that are paced here; empty if they are of several clusters."""
    records = read_everybodys(records_of(Home(options.home).agent(options.worker_id)), AdoptedRecord)
    clusters = {
        record.cluster_id for _, record in records if record.worker_id == options.worker_id and record.process.is_alive()
    }
    return clusters.pop() if len(clusters) == 1 else ""
