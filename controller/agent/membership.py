"""The cluster of a worker: its agent obeys that cluster's orders, and takes its executors for its own.

The master names it once; then a file of the worker's folder does, so that a restart needs no master. An agent in a pod loses
that file with its pod, but not the records of executors that it has adopted, which stay on the node: they name it while no
master answers. They do so only if no other agent is on the machine: agents of several clusters share that folder. Not here:
orders that are refused (`link`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from controller.asks.options import AgentOptions
from controller.home import Home
from controller.machine.files import write_whole
from controller.runtime.adopt.runtime import records_of
from controller.runtime.executor_record import AdoptedRecord, read_everybodys
from stage_model.errors import Unavailable


def find_cluster(options: AgentOptions, *, alone: bool) -> tuple[str, bool]:
    """Return the cluster's id, and True if it is from the master; `alone`: no other agent adopts executors of this machine.
    Raise `Unavailable` where neither the master nor any file here names the cluster."""
    from controller.client import MasterClient  # most agents never need it

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
