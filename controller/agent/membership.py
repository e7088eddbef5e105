"""Which cluster a worker belongs to: whose orders its agent obeys, and which executors it takes for its own.

The master says it once; then a file of the worker's folder does, so that a restart needs no master. An agent in a pod loses
that file with its pod, but not the records of executors that it has adopted, which stay on the node: they say it while no
master answers. They say it only to an agent that is alone on its machine: agents of several clusters share that folder.
Not here: orders that are refused (`link`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from controller.files import write_whole
from controller.home import Home
from controller.options import AgentOptions
from controller.runtime import process_identity
from controller.runtime.adopt_runtime import records_of
from controller.runtime.executor_record import AdoptedRecord, read_everybodys
from stage_model.errors import Unavailable


def find_cluster(options: AgentOptions, *, alone: bool) -> tuple[str, bool]:
    """Its id, and whether the master has said so; `alone`: no other agent adopts executors of this machine. Raises
    `Unavailable` where neither the master nor anything here tells."""
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
    """What is known without a master, and only then asks whether it is `alone`; empty where there is nothing, so this worker
    paces nobody."""
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
    """By the executors that are paced here and live, unless they are of several clusters."""
    records = read_everybodys(records_of(Home(options.home).agent(options.worker_id)), AdoptedRecord)
    clusters = {
        record.cluster_id
        for _, record in records
        if record.worker_id == options.worker_id and process_identity.is_alive(record.process)
    }
    return clusters.pop() if len(clusters) == 1 else ""
