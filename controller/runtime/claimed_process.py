"""Search for the process of an executor that another service has started: the executor names it, and only facts that the
kernel confirms count.

The executor's words come from user code, which could name any process. So the process's number, start and owner must be as
the kernel shows them, and its command line must be that of a Spark executor of this very application, number and driver: its
owner has started it for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from controller.machine import proc
from controller.machine.process import Process, find_process
from stage_model.errors import RuntimeRefused

BACKENDS = (
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
)
"""Spark's main classes of executors: standalone and local-cluster, YARN, Kubernetes."""


@dataclass(frozen=True, slots=True)
class ProcessClaim:
    """The process that an executor says it is, numbered in its own namespace, and the user that it says it runs as."""

    process: Process
    uid: int


@dataclass(frozen=True, slots=True)
class Serves:
    """The purpose of an executor: options of its command line."""

    spark_application_id: str
    executor_id: str
    driver_url: str


def find_claimed(claim: ProcessClaim, serves: Serves) -> Process:
    """Return the process as it is numbered here. Raise `RuntimeRefused` for a process that is not here, or not what it
    says."""
    claimed = claim.process
    if not claimed.is_this_boot():
        raise RuntimeRefused("it runs on another machine than this agent")
    pids = [claimed.pid] if claimed.is_numbered_here() else proc.numbered(claimed.pid)
    wrong = f"its process {claimed.pid} is not in this agent's /proc"
    for pid in pids:
        if proc.start_ticks(pid) != claimed.start_ticks or proc.pid_namespace_of(pid) not in ("", claimed.pid_namespace):
            continue
        # two containers that start together have processes of the same number and start: the next one may be it
        if found := _what_is_wrong(pid, claim.uid, serves):
            wrong = found
            continue
        process = find_process(pid)
        if process is not None and process.start_ticks == claimed.start_ticks:  # the checked process is still that process
            return process
    raise RuntimeRefused(wrong)


def _what_is_wrong(pid: int, uid: int, serves: Serves) -> str:
    """Return the first thing that is wrong with a process; empty if it is what it says."""
    owner = proc.owner(pid)
    if owner != uid:
        return f"process {pid} is of uid {owner}, not {uid} as it says"
    words = proc.command_line(pid)
    wanted = {
        "--driver-url": serves.driver_url,
        "--executor-id": serves.executor_id,
        "--app-id": serves.spark_application_id,
    }
    said = {name: value for name, value in pairwise(words) if name in wanted}
    if said == wanted and any(word in BACKENDS for word in words):
        return ""
    return (
        f"process {pid} is no executor {serves.executor_id} of {serves.spark_application_id} by its command line, as "
        "Spark starts one"
    )
