"""What docker and process runtimes share when they start an executor: the log script, the log directory, names."""

from __future__ import annotations

import hashlib
import os
import re

from controller.runtime.base import OWN_ADDRESS, ExecutorKey, Launch, Program
from stage_model.errors import BadInput, RuntimeFailed, RuntimeRefused

LOG_SCRIPT = 'exec "$@" >>"$0/stdout" 2>>"$0/stderr"'
"""Constant, for `/bin/sh -c`: the log directory is $0 and the program with its arguments "$@", so nothing is quoted."""
ADDRESS_SCRIPT = f"""\
read -r self </etc/hostname
while read -r ip name rest; do [ "$name" != "$self" ] || address=$ip; done </etc/hosts
[ -n "$address" ] || {{ echo "no address of $self is in /etc/hosts" >>"$0/stderr"; exit 78; }}
for word; do shift; [ "$word" != "{OWN_ADDRESS}" ] || word=$address; set -- "$@" "$word"; done
{LOG_SCRIPT}"""
"""The same in a container with a network of its own, where the engine has written its address into /etc/hosts. Only what
every shell has: an image need have no other program."""

MIN_CORES = 0.01
MIN_MEMORY_BYTES = 16 << 20
"""No JVM runs in less; engines refuse limits below some MiB."""

OUTPUT_LIMIT = 4096
"""Characters of a program's output that are kept."""


def ensure_log_dir(launch: Launch) -> None:
    """Makes the log directory if it is missing, owned by the executor's user. Raises `RuntimeRefused` if it cannot."""
    if launch.log_dir.is_dir():
        return
    try:
        launch.log_dir.mkdir(parents=True, mode=0o700, exist_ok=True)
        if os.geteuid() == 0:
            os.chown(launch.log_dir, launch.uid, launch.gid)
    except OSError as error:
        raise RuntimeRefused(
            f"log directory {launch.log_dir} cannot be made ({error.strerror}); it must lie where the agent may write"
        ) from error


def unique_name(cluster_id: str, worker_id: str, key: ExecutorKey) -> str:
    """A readable name of letters, digits, dots, dashes; its hash keeps apart what sanitising or clusters would mix."""
    digest = hashlib.sha256("\0".join((cluster_id, worker_id, *key)).encode()).hexdigest()[:8]
    readable = re.sub(r"[^a-zA-Z0-9.-]+", "-", "-".join((worker_id, *key)))[:100]
    return f"sparkpace-{readable}-{digest}"


def checked_cores(cores: float) -> float:
    """`cores` if a runtime can set it. Raises `BadInput` for less than `MIN_CORES`, nan and infinity."""
    if not MIN_CORES <= cores < float("inf"):
        raise BadInput(f"quota {cores} is not a number of cores; at least {MIN_CORES} is accepted")
    return cores


def checked_memory(memory_bytes: int) -> int:
    """`memory_bytes` if a runtime can set it. Raises `BadInput` for less than `MIN_MEMORY_BYTES`."""
    if memory_bytes < MIN_MEMORY_BYTES:
        raise BadInput(f"memory limit {memory_bytes} is no limit to run in; at least {MIN_MEMORY_BYTES} bytes are accepted")
    return memory_bytes


def in_use(key: ExecutorKey, used_bytes: int, memory_bytes: int) -> RuntimeFailed:
    """The error of a memory limit below what is in use."""
    return RuntimeFailed(
        f"executor {'/'.join(key)} uses {used_bytes} bytes, more than the limit of {memory_bytes} it was to have; try later"
    )


def still_runs(key: ExecutorKey) -> RuntimeFailed:
    """The error of `remove` for an executor that has not ended."""
    return RuntimeFailed(f"executor {'/'.join(key)} still runs and cannot be removed; stop it first")


def does_not_run(program: Program, where: str, reason: str) -> RuntimeRefused:
    """The error of a program that cannot run to a good end."""
    return RuntimeRefused(f"{program.argv[0]} does not run {where} ({reason.strip()[-300:]})")
