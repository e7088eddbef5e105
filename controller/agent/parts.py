"""The parts of one agent, made from its options; nothing is decided here."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import cast

from controller.agent.executors.launcher import Launcher
from controller.agent.executors.local_use import LocalUse
from controller.agent.executors.starting import AdoptingStarter, LaunchingStarter
from controller.agent.executors.watching import Watching
from controller.agent.hosting import DriverHost
from controller.agent.link import Link, OrderFilter
from controller.agent.loop import Agent, Looks
from controller.agent.rating import Rating
from controller.agent.relieving import MachineRoom
from controller.agent.site import make_site, make_worker, why_fewer_cores
from controller.asks.local_limit import parse_local_limit
from controller.asks.options import AgentOptions
from controller.home import DRIVERS, Home
from controller.runtime.base import Adopter, Starter
from controller.runtime.engines import machine_busy_s
from controller.runtime.table import RUNTIMES
from stage_model.settings import QuotaSettings


def make_launcher(options: AgentOptions, runtime: Watching) -> Launcher:
    """Make the launcher, which starts executors or waits for those of another cluster manager, as the runtime's row says."""
    site = make_site(options)
    starter: LaunchingStarter | AdoptingStarter
    if RUNTIMES[options.runtime].starts:
        starter = LaunchingStarter(cast(Starter, runtime.inner), site)
    else:
        starter = AdoptingStarter(cast(Adopter, runtime.inner))
    return Launcher(runtime, starter, site, Home(options.home).agent(options.worker_id))


def make_local_use(options: AgentOptions, launcher: Launcher) -> LocalUse:
    return LocalUse(parse_local_limit(options.local_limit), launcher.site.local_root)


def make_agent(options: AgentOptions, launcher: Launcher, local_use: LocalUse) -> Agent:
    agent = Agent(
        make_worker(options),
        launcher,
        QuotaSettings(period_s=options.period_s, floor=options.floor),
        instance=uuid.uuid4().hex[:12],
        looks=Looks(
            over_limit=local_use.take,
            busy_s=machine_busy_s if options.shared else None,
            room=MachineRoom(options, lambda: local_use.disk).look,
        ),
    )
    if reason := why_fewer_cores(options, agent.worker):
        agent.outbox.note(reason)
    return agent


def make_rating(options: AgentOptions, cluster_id: str, launcher: Launcher, agent: Agent) -> Rating:
    return Rating(options, cluster_id, launcher.runtime, agent.outbox.note, launcher.clock)


def make_driver_host(options: AgentOptions) -> DriverHost:
    """Make the host of drivers. It looks after those on record also where the agent hosts no further ones."""
    return DriverHost(driver_records(options), Home(options.home).logs, hosts=options.host_drivers)


def driver_records(options: AgentOptions) -> Path:
    return Home(options.home).agent(options.worker_id) / DRIVERS


def make_link(options: AgentOptions, cluster_id: str, wake: Callable[[], None]) -> Link:
    home, worker_id = Home(options.home), options.worker_id
    orders = OrderFilter(cluster_id)
    return Link(options.master_url, home.ca_file, lambda: home.agent_token(worker_id), worker_id, orders, wake)
