"""`sparkpace master` and `sparkpace agent`: the services in the foreground, as `up` or a unit file runs them.

`plain` are options that the services take as Click read them, by the same names (`controller.options`).
"""

from __future__ import annotations

import shlex
import urllib.parse
from pathlib import Path
from typing import Any

import click
import psutil

from controller.addresses import on_this_machine
from controller.cli.checks import (
    check_address,
    check_adopting,
    check_memory_mb,
    checked_folders,
    parse_notify,
    parse_period,
    parse_tmp_limit,
    parse_user,
    parse_worker_id,
)
from controller.cli.common import (
    MEMORY,
    POLICY_HELP,
    RUNTIME_HELP,
    CountRange,
    NamedPath,
    NumberRange,
    Parsed,
    adopt_options,
    floor_option,
    home_option,
    local_limit_option,
    name_option,
    network_options,
    notify_option,
    period_option,
    tmp_limit_option,
)
from controller.cli.configuration import config_option, only_check
from controller.cli.growth_options import MasterPlacement, master_placement_options
from controller.cli.worker_words import parse_type
from controller.engines import machine_memory_mb
from controller.home import Home
from controller.local.locks import agent_lock
from controller.local_limit import parse_local_limit
from controller.options import AgentOptions, GrowthOptions, MasterOptions
from controller.runtime.table import EVERYWHERE, RUNTIMES
from controller.tls import address_of
from master_memory.split import POLICIES
from placement.labels import parse_labels
from placement.resources import SCALE, parse_advertised
from stage_model.errors import BadInput
from stage_model.laws import LAWS
from stage_model.settings import CORE_QUANTUM
from stage_model.units import parse_memory_mb


@click.command(epilog="Example: sparkpace master --host 10.0.0.1 --law forecast")
@home_option
@config_option
@click.option("--host", type=Parsed(check_address), default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=CountRange(1, 65535), default=7070, show_default=True, help="Port to listen on.")
@click.option("--keep-runs", type=CountRange(1), default=100, show_default=True, help="Number of run folders to keep.")
@click.option(
    "--law", type=click.Choice(list(LAWS)), default="forecast", show_default=True, help="Control law of jobs that name none."
)
@click.option("--memory-policy", type=click.Choice(list(POLICIES)), default="equal", show_default=True, help=POLICY_HELP)
@master_placement_options
@name_option
@notify_option
def master(home: Home, host: str, names: tuple[str, ...], notify: str | None, placing: MasterPlacement, **plain: Any) -> None:
    """Run the master in the foreground; a home has one."""
    if only_check():
        return
    receiver = None if notify is None else parse_notify(notify)
    home.create()
    from controller.master.main import run_master  # here, because the other commands need none of its web server

    run_master(
        MasterOptions(
            home=home.path,
            host=host,
            names=names,
            **plain,
            placement=placing.placement,
            placement_weights=placing.placement_weights,
            topology=placing.topology,
            growth=growth_options(placing),
            notify=receiver,
        )
    )


def growth_options(placing: MasterPlacement) -> GrowthOptions | None:
    """Return the options of growth, None without a provider."""
    if placing.provider == "none":
        return None
    usual = placing.usual_worker
    return GrowthOptions(
        provider=placing.provider,
        program=placing.provider_command,
        image=placing.provider_image,
        folders=placing.provider_folder,
        limits=placing.limits(),
        usual=None if usual is None else parse_type(usual, option="--usual-worker"),
        utilisation=placing.utilisation,
        agent_options=tuple(shlex.split(placing.agent_options)),
    )


@click.command(
    epilog="""\b
Example: sparkpace agent --worker-id w2 --cores 4 --memory 8g \\
           --runtime docker --master https://10.0.0.1:7070"""
)
@home_option
@config_option
@click.option("--worker-id", type=Parsed(parse_worker_id), required=True, help="This worker's name, unique in the cluster.")
@click.option("--cores", type=NumberRange("cores", CORE_QUANTUM), required=True, help="Cores for executors.")
@click.option("--memory", type=MEMORY, required=True, help="Memory for executors, as 8g or 8192 (MiB).")
@click.option("--runtime", type=click.Choice(list(RUNTIMES)), required=True, help=RUNTIME_HELP)
@period_option
@floor_option
@tmp_limit_option
@local_limit_option
@click.option("--master", "master_url", type=Parsed(address_of), required=True, help="The master's URL, https://HOST:PORT.")
@click.option(
    "--allow-mount",
    "allowed",
    type=NamedPath(),
    multiple=True,
    help="Folder below which jobs may --mount paths (repeat) [default: your home].",
)
@click.option("--image", help="Executor image for jobs that name none.")
@click.option(
    "--host",
    type=Parsed(check_address),
    help="Address of this worker's executors [default: loopback if the master is on loopback, else this machine's].",
)
@click.option(
    "--resources", type=Parsed(parse_advertised), default="", help="Other resources in whole pieces, as gpu=1,ssd=2."
)
@network_options
@adopt_options
@click.option("--labels", type=Parsed(parse_labels), default="", help="Labels that jobs may ask for, as zone=a,disk=ssd.")
def agent(
    home: Home,
    worker_id: str,
    memory: str,
    period: str,
    tmp_limit: str,
    local_limit: str,
    master_url: str,
    allowed: tuple[Path, ...],
    host: str | None,
    resources: str,
    labels: str,
    **plain: Any,
) -> None:
    """Run one worker's agent in the foreground; a worker has one.

    The agent consists of a supervisor and its child.
    """
    check_adopting(**{name: plain[name] for name in ("runtime", "nodes", "namespace", "shared", "signals")})
    memory_mb = check_memory_mb(parse_memory_mb(memory, option="--memory"), f"--memory {memory}")
    _check_size(plain["cores"], memory_mb, plain["floor"], runtime=plain["runtime"])
    options = AgentOptions(
        home=home.path,
        worker_id=worker_id,
        memory_mb=memory_mb,
        period_s=parse_period(period),
        tmp_mb=parse_tmp_limit(tmp_limit),
        local_limit=parse_local_limit(local_limit).text,
        master_url=master_url,
        allow_mounts=checked_folders(allowed, option="--allow-mount") or (Path.home(),),
        host=host,
        resources={name: units // SCALE for name, units in parse_advertised(resources).items()},
        labels=parse_labels(labels),
        **plain,
    )
    master_host = urllib.parse.urlsplit(master_url).hostname or ""
    if options.own_networks and not on_this_machine(master_host):
        raise BadInput(
            f"--network {options.network} keeps executors to this machine, but the master {master_host} is on another, where "
            "drivers would not reach them; give --network host"
        )
    if only_check():
        return
    from controller.agent.supervisor import become  # here, because the other commands need no agent

    if home.admin_token_file.exists():  # the master's own home; elsewhere its admin gives the agent one
        home.make_agent_token(options.worker_id)
    home.agent_token(options.worker_id)
    with agent_lock(home, options.worker_id):
        become(options)


def _check_size(cores: float, memory_mb: int, floor: float, *, runtime: str) -> None:
    """Check the size of an agent. Raise `BadInput` for a worker on which no executor fits, or one larger than this machine
    (of pods, each node is a machine of its own)."""
    if cores < floor:
        raise BadInput(f"--cores {cores:g} is less than --floor {floor:g}, which an executor keeps; give that or more")
    most_cores, most_mb = psutil.cpu_count() or 1, machine_memory_mb()
    if runtime not in EVERYWHERE and (cores > most_cores or memory_mb > most_mb):
        raise BadInput(
            f"--cores {cores:g} with --memory {memory_mb}m is more than this machine has; give at most {most_cores} "
            f"cores and {most_mb} MiB"
        )


@click.command(epilog="Example: sparkpace token w2")
@home_option
@click.argument("worker_id", required=False)
@click.option("--user", metavar="NAME|UID:GID", help="Make a user's own submit token instead of an agent's.")
@click.option("--metrics", is_flag=True, help="Make the token that reads metrics and nothing else.")
def token(home: Home, worker_id: str | None, user: str | None, metrics: bool) -> None:
    """Make a token for another machine and print the name of its file.

    With WORKER_ID, it is the token of that worker's agent. With --user, it is a user's own token: drivers that this machine
    cannot see submit as that user with it. With --metrics, it is the token with which Prometheus reads metrics.
    """
    if (worker_id is not None) + (user is not None) + metrics != 1:
        raise BadInput(
            "`sparkpace token` wants one of WORKER_ID, --user and --metrics; give one of them, as in `sparkpace token w2`"
        )
    home.admin_token()
    if metrics:
        made = home.make_metrics_token()
    elif user is not None:
        made = home.make_user_token(parse_user(user))
    else:
        made = home.make_agent_token(parse_worker_id(worker_id or ""))
    click.echo(str(made))
