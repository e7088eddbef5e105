"""What outlives the agents of a home: executors in containers or as processes, and control groups. `down` removes it.

Only what carries a worker's own marks is touched: labels with cluster and worker, the records that its agent wrote.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from docker import APIClient
from docker.errors import APIError, DockerException

from controller.home import Home
from controller.locks import agent_lock, last_holder
from controller.master.providers import GROWN
from controller.runtime import docker_container, executor_record, launching
from controller.runtime.base import ExecutorKey
from controller.runtime.cgroup import CgroupTree
from controller.runtime.docker_engine import connect
from controller.runtime.process import ProcessRuntime
from stage_model.errors import PaceError, RuntimeFailed, Unavailable

ENGINE_S = 10
"""Longest wait for one answer of the engine."""
GONE_S = 20.0
"""Longest wait for containers or processes to be gone."""
LOOK_S = 0.1
GONE, UNDER_WAY = 404, 409


@dataclass(slots=True)
class Removed:
    """Counts."""

    executors: int = 0
    workers: int = 0
    groups: int = 0

    def said(self) -> str:
        """In one sentence; empty without any."""
        counts = ((self.executors, "executor(s)"), (self.workers, "started worker(s)"), (self.groups, "control group(s)"))
        parts = ", ".join(f"{number} {what}" for number, what in counts if number)
        return f"Removed what had outlived its agent: {parts}." if parts else ""


def clear_worker(home: Home, worker_id: str, removed: Removed, left: list[str]) -> set[str]:
    """Ends and removes the executors of a worker without an agent; meanwhile it can get none. `left` gets a sentence on what
    cannot be removed; then the next call tries again. Returns the names its control groups may have."""
    try:
        with agent_lock(home, worker_id):
            cluster_file = home.agent(worker_id) / "cluster_id"
            cluster_id = cluster_file.read_text().strip() if cluster_file.exists() else ""
            last = last_holder(home.child_lock(worker_id))
            names = _group_names(home, worker_id, cluster_id)
            if last is not None and last.note == "docker":
                removed.executors += _end_containers(
                    {docker_container.CLUSTER: cluster_id, docker_container.WORKER: worker_id}
                )
            removed.executors += _end_processes(cluster_id, worker_id, home.agent(worker_id) / "processes")
            home.child_lock(worker_id).unlink()
            return names
    except PaceError as error:
        left.append(f"executors of worker {worker_id} may be left: {error}")
        return set()


def clear_grown(cluster_id: str, removed: Removed, left: list[str]) -> None:
    """Removes the agents' containers that a dead master can give back no more."""
    try:
        removed.workers += _end_containers({GROWN: cluster_id})
    except PaceError as error:
        left.append(f"containers of started workers may be left: {error}")


def clear_groups(names: Iterable[str], removed: Removed, left: list[str]) -> None:
    """Removes control groups by name, with their processes, and the groups above them that are empty then."""
    for name, gone in CgroupTree().clear(names).items():
        if gone:
            removed.groups += 1
        else:
            left.append(f"control group {name} was left: its processes do not end")


def _group_names(home: Home, worker_id: str, cluster_id: str) -> set[str]:
    """Of every executor that was started and not forgotten since; one without a group does no harm."""
    launched = [path.stem.rpartition(".") for path in home.agent(worker_id).glob("*.json")]
    keys = {ExecutorKey(application, executor) for application, _, executor in launched}
    records = executor_record.read_all(home.agent(worker_id) / "processes", executor_record.Record, cluster_id, worker_id)
    keys.update(record.key for _, record in records)
    return {launching.unique_name(cluster_id, worker_id, key) for key in keys}


def _end_processes(cluster_id: str, worker_id: str, records: Path) -> int:
    """How many ran. Raises `RuntimeFailed` for those that do not end."""
    runtime = ProcessRuntime(cluster_id, worker_id, records)
    try:
        found = runtime.observe()
        ran = sum(seen.running for seen in found.values())
        for key in found:
            runtime.stop(key)
        until = time.monotonic() + GONE_S
        while found := runtime.observe():
            for key, seen in found.items():
                if not seen.running:
                    _try_remove(runtime, key, last=time.monotonic() > until)
            if any(seen.running for seen in found.values()) and time.monotonic() > until:
                raise RuntimeFailed(f"{len(found)} executors do not end within {GONE_S:g} s; run `sparkpace down` again")
            time.sleep(LOOK_S)
        return ran
    finally:
        runtime.close()


def _try_remove(runtime: ProcessRuntime, key: ExecutorKey, *, last: bool) -> None:
    try:
        runtime.remove(key)
    except RuntimeFailed:
        if last:
            raise


def _end_containers(labels: Mapping[str, str]) -> int:
    """How many there were, ended ones included. Raises `Unavailable` when the engine does not answer or remove them."""
    client = connect(None)
    try:
        client.timeout = ENGINE_S
        return _remove_all(client, [f"{name}={value}" for name, value in labels.items()])
    except (DockerException, OSError) as error:  # requests' errors are OSErrors
        raise Unavailable(
            f"the Docker engine does not remove its containers ({error}); run `sparkpace down` again once it answers"
        ) from error
    finally:
        client.close()


def _remove_all(client: APIClient, labels: list[str]) -> int:
    seen: set[str] = set()
    until = time.monotonic() + GONE_S
    while found := [one["Id"] for one in client.containers(all=True, filters={"label": labels})]:
        if time.monotonic() > until:
            raise DockerException(f"{len(found)} are there after {GONE_S:g} s")
        seen.update(found)
        for container in found:
            try:
                client.remove_container(container, force=True, v=True)
            except APIError as error:
                if error.status_code not in (GONE, UNDER_WAY):
                    raise
        time.sleep(LOOK_S)
    return len(seen)
