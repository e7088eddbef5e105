"""One container in the engine's terms: create options, labels, reading inspect and stats answers. Stateless.

The environment may hold secrets of the user: it goes into the create request and nowhere else.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError
from docker.types import LogConfig, Mount, Ulimit
from requests.exceptions import ConnectionError as NoAnswer
from requests.exceptions import ReadTimeout

from controller.runtime import launching
from controller.runtime.base import CPU_PERIOD_US, TMP_MB, Bind, ExecutorKey, Launch, Observed, Program
from controller.runtime.cgroup.group import quota_us
from controller.runtime.docker.locale_in_image import host_zone, in_image
from controller.runtime.docker.mounting import USERS, mounts
from stage_model.errors import PaceError, RuntimeFailed, RuntimeRefused

CLUSTER = "sparkpace.cluster"
WORKER = "sparkpace.worker"
APPLICATION = "sparkpace.application"
EXECUTOR = "sparkpace.executor"
PROGRAM = "sparkpace.program"
"""Label of containers that run a program to its end."""

PIDS_LIMIT = 4096
"""Largest number of threads, which count as processes: a JVM with many slots and Python workers needs some hundreds; a fork
bomb is stopped."""
LEAST_FILES, MOST_FILES = 16_384, 65_536
"""Limits for the open files of one process: a shuffle opens one for each of its parts, and some programs walk through all
files that they may have open, for which newer engines allow a thousand million."""
PROGRAM_TMP_MB = 64
PROGRAM_LOG = "1m"
"""Size of a program's output that the engine keeps."""
TMP = "/tmp"  # noqa: S108 - inside a container
LAST_LINES = 100
"""Number of lines of a program's output that are read: an engine sends it whole otherwise."""

PERMANENT = ("no such file", "not a directory", "permission denied", "executable file not found", "mount")
"""Words in the engine's 500 on start that mean that trying again cannot help."""


def most_files() -> int:
    """Return the number of open files for a process in a container: an engine mostly may have as many as an agent."""
    return min(MOST_FILES, max(LEAST_FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


@dataclass(frozen=True, slots=True)
class ContainerSetting:
    """A worker's settings for an executor's container in addition to its `Launch`. `network` is an id, `files` the number of
    open files of a process (None: the engine's own limit, for which another may be too high), `users` the container's
    /etc/passwd (None: the image's). `hold`: the engine finds this process's descriptors (`Holding`)."""

    image: str
    labels: Mapping[str, str]
    network: str = "host"
    tmp_mb: int = TMP_MB
    files: int | None = None
    users: Path | None = None
    hold: bool = False


def create(client: docker.APIClient, name: str, launch: Launch, setting: ContainerSetting) -> str:
    """Create (do not start) an executor's container and return its id. Raise the client's errors."""
    script = launching.LOG_SCRIPT if setting.network == "host" else launching.ADDRESS_SCRIPT
    shown = mounts([*launch.binds, Bind(launch.log_dir, writable=True)], hold=setting.hold)
    if setting.users is not None and all(mount["Target"] != USERS for mount in shown):
        shown.append(Mount(USERS, str(setting.users), type="bind", read_only=True))
    host = client.create_host_config(
        network_mode=setting.network,
        mounts=shown,
        cpu_period=CPU_PERIOD_US,
        cpu_quota=quota_us(launch.cores),
        mem_limit=launch.memory_bytes,
        memswap_limit=launch.memory_bytes,  # equal: no swap
        pids_limit=PIDS_LIMIT,
        log_config=LogConfig(type="none"),
        group_add=[str(group) for group in launch.groups],
        **hardening(shown, setting.tmp_mb, setting.files),
    )
    created = client.create_container(
        setting.image,
        name=name,
        entrypoint=["/bin/sh", "-c", launching.with_umask(script, launch), str(launch.log_dir)],
        command=list(launch.argv),
        environment={"HOME": TMP, **host_zone(), **in_image(launch.environment)},
        user=f"{launch.uid}:{launch.gid}",
        working_dir=str(launch.working_dir),
        labels=dict(setting.labels),
        host_config=host,
    )
    return str(created["Id"])


def hardening(shown: Sequence[Mount], tmp_mb: int, files: int | None = None) -> dict[str, Any]:
    """Return the host options that every container of ours has. `init` reaps what executors leave behind. Nothing of the
    image can be written; /tmp is memory of the container, unless it is one of the mounts `shown`. JVMs unpack libraries there
    and map them, for which an engine's usual tmpfs is not good (noexec)."""
    tmp = {TMP: f"rw,exec,nosuid,nodev,mode=1777,size={tmp_mb}m"}
    return {
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "init": True,
        "read_only": True,
        "tmpfs": {} if any(mount["Target"] == TMP for mount in shown) else tmp,
        "ulimits": [
            Ulimit(name="core", soft=0, hard=0),
            *([] if files is None else [Ulimit(name="nofile", soft=files, hard=files)]),
        ],
    }


def refusal(launch: Launch, error: APIError) -> PaceError:
    """Return `RuntimeRefused` when this launch can never work here, else `RuntimeFailed`."""
    said = str(error.explanation or error)
    executor = launch.key.text
    # another agent may have removed the application's network because it was empty
    again = "network" in said.lower() and error.status_code == 404
    permanent = not again and (error.status_code in (400, 404) or any(word in said.lower() for word in PERMANENT))
    if permanent:
        return RuntimeRefused(f"executor {executor} cannot start in a container ({said}); correct that path or option")
    return RuntimeFailed(f"the Docker engine did not start executor {executor} ({said})")


def observed(key: ExecutorKey, inspected: Mapping[str, Any]) -> Observed:
    """Read an inspect answer. Use of CPU and memory is not in it and stays 0."""
    state, host = inspected["State"], inspected["HostConfig"]
    running = bool(state["Running"])
    never_ran = state["Status"] == "created"
    quota = host["CpuQuota"] / (host["CpuPeriod"] or CPU_PERIOD_US) if host["CpuQuota"] > 0 else None
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
    """Add the engine's stats answer; memory without file cache, as the cgroup reader counts it."""
    memory = stats.get("memory_stats", {})
    detail = memory.get("stats", {})
    droppable = sum(detail.get(f"total_{name}", detail.get(name, 0)) for name in ("inactive_file", "active_file"))
    throttled_ns = stats["cpu_stats"].get("throttling_data", {}).get("throttled_time")
    return replace(
        found,
        cpu_s=stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
        memory_bytes=max(0, memory.get("usage", 0) - droppable),
        throttled_s=None if throttled_ns is None else throttled_ns / 1e9,
    )


def run_program(
    client: docker.APIClient, image: str, program: Program, tags: Mapping[str, str], *, hold: bool = False
) -> str:
    """Run a program in a throw-away container without network. Raise `RuntimeRefused` when it does not run to a good end.

    `tags` are its labels: an earlier agent left containers with the same labels behind, and these go first.
    """
    where = f"in image {image}"
    clear(client, tags)
    limits: dict[str, Any] = {}
    if program.cores is not None:
        limits |= {"cpu_period": CPU_PERIOD_US, "cpu_quota": quota_us(program.cores)}
    if program.memory_bytes is not None:
        limits |= {"mem_limit": program.memory_bytes, "memswap_limit": program.memory_bytes}
    shown = mounts(program.binds, hold=hold)
    created = None
    try:
        created = client.create_container(
            image,
            entrypoint=list(program.argv),
            command=[],
            user=f"{program.uid}:{program.gid}",
            labels=dict(tags),
            host_config=client.create_host_config(
                network_mode="none",
                mounts=shown,
                pids_limit=PIDS_LIMIT,
                log_config=LogConfig(type="json-file", config={"max-size": PROGRAM_LOG}),
                **limits,
                **hardening(shown, PROGRAM_TMP_MB),
            ),
        )["Id"]
        client.start(created)
        code = client.wait(created, timeout=math.ceil(program.timeout_s))["StatusCode"]
        output = client.logs(created, stderr=False, tail=LAST_LINES).decode(errors="replace")
        errors = client.logs(created, stdout=False, tail=LAST_LINES).decode(errors="replace")
    except APIError as error:
        raise launching.does_not_run(program, where, str(error.explanation or error)) from error
    except (ReadTimeout, NoAnswer) as error:  # where the engine went away, the removal fails, too
        raise launching.does_not_run(program, where, f"no end within {program.timeout_s:g} s") from error
    finally:
        if created is not None:
            with unless_over():
                client.remove_container(created, force=True, v=True)
    if code != 0:
        raise launching.does_not_run(program, where, f"exit code {code}: {output}{errors}")
    return output[-launching.OUTPUT_LIMIT :]


def clear(client: docker.APIClient, tags: Mapping[str, str]) -> list[str]:
    """End and remove the containers that have these labels; return their ids."""
    labels = [f"{name}={value}" for name, value in tags.items()]
    found = [str(one["Id"]) for one in client.containers(all=True, filters={"label": labels})]
    for identity in found:
        with unless_over():
            client.remove_container(identity, force=True, v=True)
    return found


@contextmanager
def unless_over() -> Iterator[None]:
    """Suppress the engine's refusal where a container is gone, no longer runs, or is being removed."""
    try:
        yield
    except APIError as error:
        if error.status_code not in (404, 409):
            raise
