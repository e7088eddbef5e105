"""`sparkpace master` and `sparkpace agent`: the services in the foreground, as `up` or a unit file runs them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import psutil

from controller.asks.options import AgentOptions, MasterOptions
from controller.cli.checks import check_notify_missing, parse_user, parse_worker_id
from controller.cli.common import home_option
from controller.cli.config import config_option, only_check
from controller.cli.growth_options import checked_growth
from controller.cli.service_option import check_runtime, takes, values_of
from controller.cli.service_options import AGENT, GROWTH, MASTER
from controller.home import HASHED, Home
from controller.locks import agent_lock
from controller.machine.addresses import on_this_machine
from controller.runtime.engines import machine_memory_mb
from controller.runtime.table import RUNTIMES, RuntimeRow
from stage_model.errors import BadInput


@click.command(epilog="Example: sparkpace master --host 10.0.0.1 --law forecast")
@home_option
@config_option
@takes((*MASTER, *GROWTH))
def master(home: Home, **given: Any) -> None:
    """Run the master in the foreground; a home has one."""
    check_notify_missing(given)
    options = MasterOptions(home=home.path, growth=checked_growth(given), **values_of(MASTER, given))
    if only_check():
        return
    home.create()
    from controller.master.main import run_master  # here, because the other commands need none of its web server

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
    """Run one worker's agent in the foreground; a worker has one.

    The agent consists of a supervisor and its child.
    """
    options = agent_options(home, given)
    if only_check():
        return
    from controller.agent.supervisor import become  # here, because the other commands need no agent

    if home.admin_token_file.exists():  # the master's own home; elsewhere its admin gives the agent one
        home.make_agent_token(options.worker_id)
    if home.agent_token(options.worker_id).startswith(HASHED):
        raise BadInput(
            f"worker {options.worker_id} has joined from another machine; give another --worker-id, or withdraw its identity "
            f"with `sparkpace token {options.worker_id} --revoke`"
        )
    with agent_lock(home, options.worker_id):
        become(options)


def agent_options(home: Home, given: Mapping[str, Any]) -> AgentOptions:
    """Return the options of an agent. Raise `BadInput` where they cannot be, or do not go together."""
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


@click.command(epilog="Example: sparkpace token w2")
@home_option
@click.argument("worker_id", required=False)
@click.option("--user", metavar="NAME|UID:GID", help="Make a user's own submit token instead of an agent's.")
@click.option("--metrics", is_flag=True, help="Make the token that reads metrics and nothing else.")
@click.option("--revoke", is_flag=True, help="Remove the token: from then on it is refused.")
def token(home: Home, worker_id: str | None, user: str | None, metrics: bool, revoke: bool) -> None:
    """Make a token for another machine and print the name of its file.

    With WORKER_ID, the token is for that worker's agent; a worker that joins by `sparkpace join` makes its own. With --user,
    the token is a user's: drivers that this machine cannot see submit as that user with it. With --metrics, Prometheus reads
    metrics with the token.
    """
    if (worker_id is not None) + (user is not None) + metrics != 1:
        raise BadInput(
            "`sparkpace token` wants one of WORKER_ID, --user and --metrics; give one of them, as in `sparkpace token w2`"
        )
    home.admin_token()
    made: Callable[[], Path] = home.make_metrics_token
    file = home.metrics_token_file
    if worker_id is not None:
        made, file = partial(home.make_agent_token, parse_worker_id(worker_id)), home.agent_tokens / worker_id
    elif user is not None:
        whose = parse_user(user)
        made, file = partial(home.make_user_token, whose), home.user_token_file(whose)
    if not revoke:
        click.echo(str(made()))
        return
    try:
        file.unlink()
    except FileNotFoundError:
        raise BadInput(f"there is no token file {file}, so nothing was revoked; look into {file.parent}") from None
    click.echo(f"{file} is removed: its token is refused from now on.")
