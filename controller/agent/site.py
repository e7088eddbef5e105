"""A worker's places, rules and facts, from its options and the quotas of its control groups."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from controller.agent.executors.class_archive import archive_root
from controller.asks.options import AgentOptions
from controller.home import ORDERS
from controller.machine.addresses import address_towards
from controller.machine.proc import boot_id
from controller.runtime.base import ExecutorKey
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.table import RUNTIMES
from controller.wire.worker import WorkerInfo
from stage_model.settings import CORE_QUANTUM


@dataclass(frozen=True, slots=True)
class Site:
    """The worker's places and rules. Executors see nothing of `home` except their own directories. `local_root` is shared
    by the workers of one host: executors of one host read each other's shuffle files from disk
    (spark.shuffle.readHostLocalDisk), and so is `archive_root`. Below `orders_root` only the agent writes. `mounts` is true
    if executors see only those files of the host that are mounted for them; otherwise they see all files, and only paths that
    they cannot do without are checked. `own_networks`: each application has one here, which is `closed` for all applications
    or as each wishes."""

    host: str
    home: Path
    local_root: Path
    run_root: Path
    allowed_mounts: tuple[Path, ...]
    orders_root: Path
    archive_root: Path
    mounts: bool = True
    own_networks: bool = False
    closed: bool = False

    @property
    def bridge_root(self) -> Path:
        """The agent's copies of bridge jars."""
        return self.orders_root.parent / "bridges"

    def local_dir(self, key: ExecutorKey) -> Path:
        return self.local_root / key.application_id

    def executor_dir(self, key: ExecutorKey) -> Path:
        return self.local_dir(key) / f"executor-{key.executor_id}"

    def control_dir(self, key: ExecutorKey) -> Path:
        return self.executor_dir(key) / "control"

    def orders_dir(self, key: ExecutorKey) -> Path:
        return self.orders_root / key.application_id / key.executor_id

    def log_dir(self, key: ExecutorKey) -> Path:
        return self.run_root / key.application_id / "executors" / key.executor_id


def make_site(options: AgentOptions) -> Site:
    # resolved: an executor's own directories must lie below the mask of the home, also where a link leads to it
    home, row = options.home.resolve(), RUNTIMES[options.runtime]
    return Site(
        host=executors_address(options),
        home=home,
        local_root=(home / "local").resolve(),
        run_root=(home / "runs").resolve(),
        allowed_mounts=options.allow_mounts,
        orders_root=(home / "agents").resolve() / options.worker_id / ORDERS,
        archive_root=archive_root(),
        mounts=row.mounts,
        own_networks=row.own_networks(options.network),
        closed=options.network == "closed",
    )


def make_worker(options: AgentOptions, tree: CgroupTree | None = None) -> WorkerInfo:
    row = RUNTIMES[options.runtime]
    return WorkerInfo(
        worker_id=options.worker_id,
        host=executors_address(options),
        cores=cores_here(options, tree) * options.nodes,
        memory_mb=options.memory_mb,
        runtime=options.runtime,
        pid=os.getpid(),
        boot_id=boot_id(),
        allowed_mounts=tuple(map(str, options.allow_mounts)),
        resources=options.resources,
        labels=options.labels,
        period_s=options.period_s,
        own_networks=row.own_networks(options.network),
        adopts=not row.starts,
        everywhere=row.everywhere,
        nodes=options.nodes,
        hosts_for=os.geteuid() if options.host_drivers else None,
    )


def cores_here(options: AgentOptions, tree: CgroupTree | None = None) -> float:
    """Return the cores for executors, of each node where there are several: those of the options, but where executors are
    processes next to the agent, no more than the quotas of the control groups that hold it."""
    if not RUNTIMES[options.runtime].inside:
        return options.cores
    allowed = (tree or CgroupTree()).quota_over(os.getpid())
    if allowed >= options.cores:
        return options.cores
    # rounded down, because the group has no more; the small addend makes up for rounding errors of floats
    return max(options.floor, round(math.floor(allowed / CORE_QUANTUM + 1e-6) * CORE_QUANTUM, 2))


def why_fewer_cores(options: AgentOptions, worker: WorkerInfo) -> str:
    """Return a sentence on why the worker has fewer cores than its options say; empty where it has as many."""
    if worker.cores >= options.cores * options.nodes:
        return ""
    return (
        f"executors get {worker.cores:g} cores and not {options.cores:g}: a control group that holds this agent has a CPU "
        "quota; raise it (CPUQuota= of the unit) and start the agent again"
    )


def executors_address(options: AgentOptions) -> str:
    """Return the address of this worker's executors: the given one, else that of the way out towards the master."""
    return address_towards(options.master_url) if options.host is None else options.host
