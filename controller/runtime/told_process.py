"""Search for the process of an executor that another service has started: the executor names it, and only what the kernel
confirms is believed.

The executor's words come from user code, which could name any process. So the process's number, start and owner must be the
kernel's, and its command line must be that of a Spark executor of this very application, number and driver: its owner has
started it for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from controller.machine import process_identity
from controller.machine.process_identity import PROC, ProcessIdentity
from stage_model.errors import RuntimeRefused

BACKENDS = (
    "org.apache.spark.executor.CoarseGrainedExecutorBackend",
    "org.apache.spark.executor.YarnCoarseGrainedExecutorBackend",
    "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend",
)
"""Spark's main classes of executors: standalone and local-cluster, YARN, Kubernetes."""


@dataclass(frozen=True, slots=True)
class ToldProcess:
    """A process as it sees itself. `pid` counts within `pid_namespace` ("pid:[NUMBER]"), `start_ticks` since boot."""

    pid: int
    start_ticks: int
    boot_id: str
    pid_namespace: str
    uid: int


@dataclass(frozen=True, slots=True)
class Serves:
    """The purpose of an executor: options of its command line."""

    spark_application_id: str
    executor_id: str
    driver_url: str


def find_told(told: ToldProcess, serves: Serves) -> ProcessIdentity:
    """Return the process as it is numbered here. Raise `RuntimeRefused` for a process that is not here, or not what it
    says."""
    if told.boot_id != process_identity.boot_id():
        raise RuntimeRefused("it runs on another machine than this agent")
    pids = [told.pid] if process_identity.seen_here(told.pid_namespace) else process_identity.numbered(told.pid)
    wrong = f"its process {told.pid} is not in this agent's /proc"
    for pid in pids:
        if process_identity.start_ticks(pid) != told.start_ticks or _namespace(pid) not in ("", told.pid_namespace):
            continue
        # two containers that start together have processes of the same number and start: the next one may be it
        if found := _what_is_wrong(pid, told.uid, serves):
            wrong = found
            continue
        identity = process_identity.of(pid)
        if identity is not None and identity.start_ticks == told.start_ticks:  # what was checked is still that process
            return identity
    raise RuntimeRefused(wrong)


def _namespace(pid: int) -> str:
    """Return the process's namespace, empty where this process may not see it."""
    try:
        return str((PROC / str(pid) / "ns/pid").readlink())
    except OSError:
        return ""


def _what_is_wrong(pid: int, uid: int, serves: Serves) -> str:
    """Return the first thing that is wrong with a process; empty if it is what it says."""
    owner = process_identity.owner(pid)
    if owner != uid:
        return f"process {pid} is of uid {owner}, not {uid} as it says"
    words = process_identity.command_line(pid)
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
