"""The cluster that `sparkpace up` starts: its workers, its runtime, and the words of its services."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from controller.machine.addresses import check_port, url_of
from controller.runtime.docker import packet_filter
from controller.runtime.engines import find_java
from controller.runtime.table import RUNTIMES, choose_runtime
from stage_model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """One worker of the cluster; `options` are further ones of `sparkpace agent`, as words."""

    worker_id: str
    cores: float
    memory_mb: int
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The cluster to start. `image` is executors', for jobs that name none; `master_options` and `agent_options` are further
    words for the services. `runtime` may be "auto" until it is chosen; `driver_host`, `network` as in `Cluster`."""

    workers: tuple[WorkerPlan, ...]
    runtime: str
    host: str
    port: int
    image: str | None = None
    master_options: tuple[str, ...] = ()
    agent_options: tuple[str, ...] = ()
    driver_host: str = ""
    network: str = "host"

    @property
    def url(self) -> str:
        """URL at which commands and agents of this machine reach the master."""
        return url_of(self.host, self.port)

    def master_words(self) -> tuple[str, ...]:
        """Return the words after `sparkpace`, without --home; so does `agent_words`."""
        return ("master", "--host", self.host, "--port", str(self.port), *self.master_options)

    def agent_words(self, worker: WorkerPlan) -> tuple[str, ...]:
        return (
            *("agent", "--worker-id", worker.worker_id, "--cores", f"{worker.cores:g}", "--memory", str(worker.memory_mb)),
            *("--runtime", self.runtime, "--master", self.url),
            *self.agent_options,
            *worker.options,
        )

    def with_free_port(self) -> Plan:
        """Return the plan with its port, or with a free one if that is 0. Raise `Unavailable` when it is taken."""
        return replace(self, port=check_port(self.host, self.port))


class ReadyPlan(NamedTuple):
    """A plan for which this machine has everything. `why_not_better` says why it does not have a better runtime (`Choice`),
    and `java_home` is the JDK of drivers."""

    plan: Plan
    why_not_better: str
    java_home: Path


def ready_plan(plan: Plan, namespace: str | None) -> ReadyPlan:
    """Return the plan with a runtime that works here, and the address of drivers. Raise `Unavailable` where something that a
    cluster needs is missing."""
    java = find_java(os.environ)
    choice = choose_runtime(plan.runtime, namespace)
    check_port(plan.host, plan.port)
    plan = replace(plan, runtime=choice.name)
    return ReadyPlan(replace(plan, driver_host=plan.driver_host or _driver_host(plan)), choice.why_not_better, java.home)


def _driver_host(plan: Plan) -> str:
    """Return the address where drivers listen for executors in networks of their own; empty for other executors, whose
    drivers choose an address by that of the master (`driver_command.driver_places`). Raise `Unavailable`."""
    row = RUNTIMES[plan.runtime]
    if not row.own_networks(plan.network):
        return ""
    if plan.network == "closed" and (reason := packet_filter.why_not()):
        raise Unavailable(
            f"--network closed cannot be kept here, because {reason}; run as root with iptables, or choose open or host"
        )
    return row.load().driver_address()
