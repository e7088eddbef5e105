"""`sparkpace join` and `renew`: a worker of a cluster whose master is on another machine."""

from __future__ import annotations

import re
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from controller.agent.site import cores_here
from controller.asks.join_token import JoinToken, parse_join_token
from controller.cli.common import Parsed, home_option, option_words, warn
from controller.cli.config import find_config, table_text
from controller.cli.service_option import takes
from controller.cli.service_options import AGENT
from controller.cli.services import agent_options
from controller.cli.worker_words import workers_alike
from controller.home import WORKER_ID, Home, read_token
from controller.local.joining import Joining, join_cluster, renew_identity, renew_own
from controller.machine.tls import address_of
from controller.runtime.table import RUNTIMES, choose_runtime
from stage_model.errors import BadInput, Unavailable

_ON_OTHERS: dict[str, dict[str, Any]] = {
    "worker-id": {"required": False, "help": "This worker's name, unique in the cluster [default: this machine's name]."},
    "cores": {"required": False, "help": "Cores for executors [default: the machine's less 0.3]."},
    "memory": {"required": False, "help": "Memory for executors, as 8g [default: 80% of the machine's]."},
    "runtime": {
        "required": False,
        "kind": click.Choice(["auto", *(row.name for row in RUNTIMES.values() if not row.everywhere)]),
        "default": "auto",
    },
    "network": {"default": "host"},
}
JOIN = tuple(replace(option, **_ON_OTHERS.get(option.name, {})) for option in AGENT if option.name != "master")
"""Options of `join`: those of `agent`, with defaults of the machine."""


@click.command(epilog="Example: sparkpace join https://10.0.0.5:7070 @token --cores 4")
@home_option
@takes(JOIN)
@click.option("--no-start", is_flag=True, help="Only join; start the agent later, with `sparkpace agent` or as a service.")
@click.argument("url", metavar="URL", type=Parsed(address_of))
@click.argument("token", metavar="[TOKEN|@FILE|-]", default="-")
def join(home: Home, url: str, token: str, no_start: bool, **given: Any) -> None:
    """Join a cluster as a worker on this machine, and start its agent in the background.

    URL is the master's. TOKEN is the output of `sparkpace join-token` there; - reads it from the standard input. Both
    machines are checked first: after any fault, nothing has changed on either. The options are written to sparkpace.toml in
    the home, where `sparkpace agent` finds them.
    """
    handed = _read(token)
    given = given | {"master_url": url, "worker_id": given["worker_id"] or _own_name()}
    choice = choose_runtime(given["runtime"])
    given["runtime"] = choice.name
    size = workers_alike(1, given["cores"], given["memory_mb"], given["floor"])[0]
    given |= {"cores": size.cores, "memory_mb": str(size.memory_mb)}
    options = agent_options(home, given)
    values = {option.name: option.handed_on(given) for option in AGENT}
    unlike = {option.name: values[option.name] for option in AGENT if values[option.name] != option.default}
    words = ("agent", *option_words(values))
    joining = Joining(home, options, handed, words, table_text("agent", unlike))
    faults = join_cluster(joining, start=not no_start)
    warn(faults)
    if faults:
        raise Unavailable(f"{options.worker_id} has not joined: {len(faults)} fault(s), named above; nothing has changed")
    click.echo(
        f"Worker {options.worker_id} has joined {url} with {cores_here(options):g} cores and {options.memory_mb} MiB, "
        f"runtime {options.runtime}."
    )
    if choice.why_not_better:
        click.echo(f"The runtime is {choice.name} because {choice.why_not_better}.")
    how = "`sparkpace agent` starts its agent" if no_start else "`sparkpace down` ends its agent"
    click.echo(f"{how}; `sparkpace install-service` makes it a service that comes back when this machine does.")


def _own_name() -> str:
    """Return this machine's name as a worker's. Raise `BadInput` where it cannot be one."""
    name = re.sub(r"[^a-z0-9_.-]", "-", socket.gethostname().partition(".")[0].lower())
    if not WORKER_ID.fullmatch(name):
        raise BadInput(f"this machine's name {name!r} cannot be a worker's; give one by --worker-id")
    return name


def _read(given: str) -> JoinToken:
    """Return the token that was given: itself, in a file, or on the standard input. Raise `PaceError`."""
    if given == "-":
        return parse_join_token(click.prompt("Join token", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline())
    return parse_join_token(read_token(Path(given[1:]), "sparkpace join-token > FILE") if given.startswith("@") else given)


@click.command(epilog="Example: sparkpace renew")
@home_option
def renew(home: Home) -> None:
    """Give this home's workers new tokens; jobs and agents go on.

    A worker that has joined from here gets its next token from its master. In the master's home, the workers whose agents
    have run there get new ones; tokens that were made for agents elsewhere stay.
    """
    found = find_config(None, home, {})
    if home.admin_token_file.exists():
        names = renew_own(home)
    elif found is not None and {"worker-id", "master"} <= found[1].get("agent", {}).keys():
        table = found[1]["agent"]
        names = [table["worker-id"]]
        renew_identity(home, table["master"], table["worker-id"])
    else:
        raise Unavailable(f"home {home.path} has no worker and has not joined a cluster; run `sparkpace join` first")
    for name in names:
        click.echo(f"Worker {name} has a new token.")
