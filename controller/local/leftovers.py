"""Leftovers of the agents of a home: executors in containers or as processes, and control groups. `down` removes them.

Only objects with a worker's own marks are touched: labels with cluster and worker, the records that its agent wrote.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass

from controller.agent.hosting import end_starts
from controller.home import DRIVERS, ORDERS, Home
from controller.locks import agent_lock
from controller.master.providers import GROWN
from controller.runtime import executor_record, launching
from controller.runtime.base import ExecutorKey
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker.runtime import end_containers
from controller.runtime.process.runtime import process_records
from controller.runtime.table import RUNTIMES, Owner
from stage_model.errors import PaceError


@dataclass(slots=True)
class Removed:
    """Counts of removed leftovers."""

    executors: int = 0
    drivers: int = 0
    workers: int = 0
    groups: int = 0

    def said(self) -> str:
        """Return the counts in one sentence; empty without any."""
        counts = (
            (self.executors, "executor(s)"),
            (self.drivers, "driver(s)"),
            (self.workers, "started worker(s)"),
            (self.groups, "control group(s)"),
        )
        parts = ", ".join(f"{number} {what}" for number, what in counts if number)
        return f"Removed what had outlived its agent: {parts}." if parts else ""


def clear_worker(home: Home, worker_id: str, runtime: str, removed: Removed, left: list[str]) -> set[str]:
    """End and remove the executors of a worker without an agent, whose last agent had that runtime; the worker gets no agent
    meanwhile. `left` gets a sentence on each executor that cannot be removed; the next call tries again. Return the names its
    control groups may have."""
    try:
        with agent_lock(home, worker_id):
            cluster_file = home.agent(worker_id) / "cluster_id"
            cluster_id = cluster_file.read_text().strip() if cluster_file.exists() else ""
            names = _group_names(home, worker_id, cluster_id)
            owner = Owner(cluster_id, worker_id, home.agent(worker_id))
            # executors may be of an earlier life of the worker, with another runtime
            for row in RUNTIMES.values():
                if row.recorded or row.name == runtime:
                    removed.executors += row.load().end_all(owner)
            removed.drivers += end_starts(home.agent(worker_id) / DRIVERS)
            # the secrets by which its executors proved themselves, where no agent saw them end
            shutil.rmtree(home.agent(worker_id) / ORDERS, ignore_errors=True)
            home.child_lock(worker_id).unlink()
            return names
    except PaceError as error:
        left.append(f"executors of worker {worker_id} may be left: {error}")
        return set()


def clear_grown(cluster_id: str, removed: Removed, left: list[str]) -> None:
    """Remove the agents' containers that a dead master can no longer give back."""
    try:
        removed.workers += end_containers({GROWN: cluster_id})
    except PaceError as error:
        left.append(f"containers of started workers may be left: {error}")


def clear_groups(names: Iterable[str], removed: Removed, left: list[str]) -> None:
    """Remove control groups by name, with their processes, and the groups above them that are empty then."""
    for name, gone in CgroupTree().clear(names).items():
        if gone:
            removed.groups += 1
        else:
            left.append(f"control group {name} was left: its processes do not end")


def _group_names(home: Home, worker_id: str, cluster_id: str) -> set[str]:
    """Return the group names of all executors that were started and not forgotten since; a name without a group does no
    harm."""
    keys = {ExecutorKey.of_file(path) for path in home.agent(worker_id).glob("*.json")}
    records = executor_record.read_all(process_records(home.agent(worker_id)), executor_record.Record, cluster_id, worker_id)
    keys.update(record.key for _, record in records)
    return {launching.unique_name(cluster_id, worker_id, key) for key in keys}
