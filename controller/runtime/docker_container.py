"""One container in the engine's terms: create options, labels, reading inspect and stats answers. Stateless.

The environment holds Spark's secret: it goes into the create request and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import docker
from docker.errors import APIError
from docker.types import LogConfig, Mount

from controller.runtime import launching
from controller.runtime.base import CPU_PERIOD_US, Bind, ExecutorKey, Launch, Observed
from controller.runtime.cgroup import quota_us
from stage_model.errors import PaceError, RuntimeFailed, RuntimeRefused

CLUSTER = "sparkpace.cluster"
WORKER = "sparkpace.worker"
APPLICATION = "sparkpace.application"
EXECUTOR = "sparkpace.executor"

PIDS_LIMIT = 4096
"""Threads count: a JVM with many slots and Python workers needs some hundreds; a fork bomb is stopped."""
OUTPUT_LIMIT = 4096

PERMANENT = ("no such file", "not a directory", "permission denied", "executable file not found", "mount")
"""What the engine's 500 on start says when trying again cannot help."""


def labels(cluster_id: str, worker_id: str, key: ExecutorKey) -> dict[str, str]:
    return {CLUSTER: cluster_id, WORKER: worker_id, APPLICATION: key.application_id, EXECUTOR: key.executor_id}


def create(client: docker.APIClient, name: str, launch: Launch, image: str, tags: Mapping[str, str]) -> str:
    """Creates (does not start) an executor's container and returns its id. Raises the client's errors."""
    host = client.create_host_config(
        network_mode="host",
        mounts=mounts([*launch.binds, Bind(launch.log_dir, writable=True)]),
        cpu_period=CPU_PERIOD_US,
        cpu_quota=quota_us(launch.cores),
        mem_limit=launch.memory_bytes,
        memswap_limit=launch.memory_bytes,  # equal: no swap
        pids_limit=PIDS_LIMIT,
        log_config=LogConfig(type="none"),
        **hardening(),
    )
    created = client.create_container(
        image,
        name=name,
        entrypoint=["/bin/sh", "-c", launching.LOG_SCRIPT, str(launch.log_dir)],
        command=list(launch.argv),
        environment=dict(launch.environment),
        user=f"{launch.uid}:{launch.gid}",
        working_dir=str(launch.working_dir),
        labels=dict(tags),
        host_config=host,
    )
    return str(created["Id"])


def hardening() -> dict[str, Any]:
    """Host options that every container of ours has. `init` reaps what executors leave behind."""
    return {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "init": True}


def mounts(binds: Sequence[Bind]) -> list[Mount]:
    """Bind mounts, same path inside. A path given twice is writable if one of the two is; a missing one is an error."""
    writable: dict[str, bool] = {}
    for bind in binds:
        writable[str(bind.path)] = bind.writable or writable.get(str(bind.path), False)
    return [Mount(target=path, source=path, type="bind", read_only=not rw) for path, rw in writable.items()]


def refusal(launch: Launch, error: APIError) -> PaceError:
    """`RuntimeRefused` when this launch can never work here, else `RuntimeFailed`."""
    said = str(error.explanation or error)
    executor = "/".join(launch.key)
    permanent = error.status_code in (400, 404) or any(word in said.lower() for word in PERMANENT)
    if permanent:
        return RuntimeRefused(f"executor {executor} cannot start in a container ({said}); correct that path or option")
    return RuntimeFailed(f"the Docker engine did not start executor {executor} ({said})")


def observed(key: ExecutorKey, inspected: Mapping[str, Any]) -> Observed:
    """An inspect answer. Use of CPU and memory is not in it and stays 0."""
    state, host = inspected["State"], inspected["HostConfig"]
    running = bool(state["Running"])
    never_ran = state["Status"] == "created"
    quota = host["CpuQuota"] / (host["CpuPeriod"] or CPU_PERIOD_US) if host["CpuQuota"] > 0 else math.inf
    reason = "created but never started" if never_ran else str(state.get("Error") or "")
    if state.get("OOMKilled"):
        reason = f"out of memory: the container's limit is {host['Memory']} bytes"
    return Observed(
        key=key,
        running=running,
        quota_cores=quota if running else None,
        cpu_s=0.0,
        memory_bytes=0,
        exit_code=None if running or never_ran else int(state["ExitCode"]),
        reason="" if running else reason,
        pid=int(state["Pid"]) if running else None,
        memory_limit_bytes=int(host["Memory"]) or None if running else None,
    )


def with_stats(found: Observed, stats: Mapping[str, Any]) -> Observed:
    """Adds the engine's stats answer; memory without file cache, as the cgroup reader counts it."""
    memory = stats.get("memory_stats", {})
    detail = memory.get("stats", {})
    droppable = sum(detail.get(f"total_{name}", detail.get(name, 0)) for name in ("inactive_file", "active_file"))
    return replace(
        found,
        cpu_s=stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
        memory_bytes=max(0, memory.get("usage", 0) - droppable),
    )


def python_version(client: docker.APIClient, image: str, executable: str, binds: Sequence[Bind], user: str) -> str:
    """Asks a Python for its version in a throw-away container without network and with read-only mounts.

    Raises `RuntimeRefused` when it does not run there.
    """
    try:
        created = client.create_container(
            image,
            entrypoint=[executable, "-I", "-c", launching.VERSION_PROGRAM],
            command=[],
            user=user,
            host_config=client.create_host_config(
                network_mode="none",
                mounts=mounts([Bind(bind.path) for bind in binds]),
                pids_limit=PIDS_LIMIT,
                **hardening(),
            ),
        )["Id"]
    except APIError as error:
        raise _no_python(executable, image, str(error.explanation or error)) from error
    try:
        client.start(created)
        code = client.wait(created, timeout=launching.VERSION_TIMEOUT_S)["StatusCode"]
        output = client.logs(created, stdout=True, stderr=True)[-OUTPUT_LIMIT:].decode(errors="replace")
    except APIError as error:
        raise _no_python(executable, image, str(error.explanation or error)) from error
    finally:
        client.remove_container(created, force=True, v=True)
    if code != 0:
        raise _no_python(executable, image, f"exit code {code}: {output.strip()[-300:]}")
    return launching.checked_version(executable, output)


def _no_python(executable: str, image: str, reason: str) -> RuntimeRefused:
    return RuntimeRefused(
        f"Python {executable} does not run in image {image} ({reason}); mount its environment with --mount, or "
        "name one that is in the image with spark.pace.python"
    )
