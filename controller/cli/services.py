"""`sparkpace master` and `sparkpace agent`: the services in the foreground, as `up` or a unit file runs them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

import click
import psutil

from controller.asks.options import AgentOptions
from controller.cli.common import home_option
from controller.cli.config import config_option, only_check
from controller.cli.master_options import MASTER_AND_GROWTH, master_options
from controller.cli.service_option import check_runtime, takes, values_of
from controller.cli.service_options import AGENT
from controller.home import HASHED, Home
from controller.locks import agent_lock
from controller.machine.addresses import on_this_machine
from controller.runtime.engines import machine_memory_mb
from controller.runtime.table import RUNTIMES, RuntimeRow
from stage_model.errors import BadInput


@click.command(epilog="Example: sparkpace master --host 10.0.0.1 --law forecast")
@home_option
@config_option
@takes(MASTER_AND_GROWTH)
def master(home: Home, **given: Any) -> None:
    """Run a home's master in the foreground."""
    options = master_options(home, given)
    if only_check():
        return
    home.create()
    from controller.master.main import run_master  # here, because the other commands do not need its web server

    run_master(options)


@click.command(
    epilog="""\b
Example: sparkpace agent --worker-id w2 --cores 4 --memory 8g \\
           --runtime docker --master https://10.0.0.1:7070"""
)
@home_option
@config_option
@takes(AGENT)
def agent(home: Home, **given: Any) -> None:
    """Run a worker's agent in the foreground.

    The agent consists of a supervisor and its child.
    """
    options = agent_options(home, given)
    if only_check():
        return
    from controller.agent.supervisor import become  # here, because the other commands need no agent

    if home.admin_token_file.exists():  # this is the master's own home; elsewhere its admin gives the agent a token
        home.make_agent_token(options.worker_id)
    if home.agent_token(options.worker_id).startswith(HASHED):
        raise BadInput(
            f"worker {options.worker_id} has joined from another machine; give another --worker-id, or withdraw its identity "
            f"with `sparkpace token {options.worker_id} --revoke`"
        )
    with agent_lock(home, options.worker_id):
        become(options)


def agent_options(home: Home, given: Mapping[str, Any]) -> AgentOptions:
    """Return the options of an agent. Raise `BadInput` for impossible options, and for combinations that are refused."""
    check_runtime(AGENT, given)
    options = AgentOptions(home=home.path, **values_of(AGENT, given))
    row = RUNTIMES[options.runtime]
    _check_size(options.cores, options.memory_mb, options.floor, row)
    master_host = urllib.parse.urlsplit(options.master_url).hostname or ""
    if row.own_networks(options.network) and not on_this_machine(master_host):
        raise BadInput(
            f"--network {options.network} keeps executors to this machine, but the master {master_host} is on another, where "
            "drivers would not reach them; give --network host"
        )
    return options


def _check_size(cores: float, memory_mb: int, floor: float, row: RuntimeRow) -> None:
    """Check the size of an agent. Raise `BadInput` for a worker on which no executor fits, or one larger than this machine
    (of pods, each node is a machine of its own)."""
    if cores < floor:
        raise BadInput(f"--cores {cores:g} is less than --floor {floor:g}, which an executor keeps; give that or more")
    most_cores, most_mb = psutil.cpu_count() or 1, machine_memory_mb()
    if not row.everywhere and (cores > most_cores or memory_mb > most_mb):
        raise BadInput(
            f"--cores {cores:g} with --memory {memory_mb}m is more than this machine has; give at most {most_cores} "
            f"cores and {most_mb} MiB"
        )
