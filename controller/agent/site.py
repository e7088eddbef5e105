"""The parts of one worker: its places, its facts, its runtime. All are built from options; nothing is decided here."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

from controller.agent.executors.launch import Site
from controller.agent.executors.launcher import Launcher
from controller.agent.executors.local_use import LocalUse
from controller.agent.executors.starting import AdoptingStarter, LaunchingStarter
from controller.agent.executors.watching import Watching
from controller.asks.local_limit import parse_local_limit
from controller.asks.options import AgentOptions
from controller.home import ORDERS, Home
from controller.machine.addresses import address_towards
from controller.machine.files import cache_root
from controller.machine.proc import boot_id
from controller.runtime.base import Adopter, Starter
from controller.runtime.networks import parse_pool
from controller.runtime.table import RUNTIMES, Owner
from controller.wire.worker import WorkerInfo


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


def archive_root() -> Path:
    """Return the folder of class archives: a cache for all clusters of this user, since an archive's name says what it
    fits."""
    return cache_root() / "class-archives"


def make_worker(options: AgentOptions) -> WorkerInfo:
    row = RUNTIMES[options.runtime]
    return WorkerInfo(
        worker_id=options.worker_id,
        host=executors_address(options),
        cores=options.cores * options.nodes,
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
    )


def make_runtime(options: AgentOptions, cluster_id: str) -> Starter | Adopter:
    """Make the runtime that `options` name, guarded for watched executors. Raise `Unavailable` when it cannot work here and
    never has."""
    row = RUNTIMES[options.runtime]
    pool = parse_pool(options.network_pool) if row.own_networks(options.network) else None
    owner = Owner(
        cluster_id,
        options.worker_id,
        _folder(options),
        options.image,
        pool,
        options.tmp_mb,
        options.signals,
        options.namespace,
    )
    return Watching(row.load().make(owner), _folder(options))


def make_launcher(options: AgentOptions, runtime: Starter | Adopter) -> Launcher:
    """Make the launcher, which starts executors or waits for those of another cluster manager, as the runtime's row says."""
    site = make_site(options)
    starts = RUNTIMES[options.runtime].starts
    starter = LaunchingStarter(cast(Starter, runtime), site) if starts else AdoptingStarter(cast(Adopter, runtime))
    return Launcher(runtime, starter, site, _folder(options))


def make_local_use(options: AgentOptions, site: Site, cpu_clock: Callable[[], float]) -> LocalUse:
    return LocalUse(parse_local_limit(options.local_limit), site.local_root, cpu_clock)


def _folder(options: AgentOptions) -> Path:
    """Return the folder of this worker's records."""
    return Home(options.home).agent(options.worker_id)


def executors_address(options: AgentOptions) -> str:
    """Return the address of this worker's executors: the given one, else that of the way out towards the master."""
    return address_towards(options.master_url) if options.host is None else options.host
