"""`sparkpace up`: a cluster of this machine in the background."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console

from controller.cli.checks import check_notify_missing, check_port
from controller.cli.common import home_option
from controller.cli.config import config_option, only_check
from controller.cli.growth_options import checked_growth
from controller.cli.service_option import check_runtime, handed_on, takes
from controller.cli.service_options import AGENT, GROWTH, MASTER, UP
from controller.cli.steps import Steps
from controller.cli.worker_words import workers_alike, workers_each
from controller.home import Cluster, Home
from controller.local.cluster import Plan, WorkerPlan, heal, look, start, unfinished
from controller.local.healing import Healing, decide_healing
from controller.local.prepare import prepare
from controller.locks import turn
from controller.machine.addresses import LOOPBACK, is_loopback
from controller.runtime.docker import packet_filter
from controller.runtime.engines import Java, find_java
from controller.runtime.networks import parse_pool, room_for
from controller.runtime.table import RUNTIMES, Choice, RuntimeRow, choose_runtime
from controller.submit.spark_install import find_spark
from stage_model.errors import BadInput, Unavailable


@click.command(epilog="Example: sparkpace up --workers 2")
@home_option
@config_option
@takes((*UP, *(option for option in (*AGENT, *MASTER, *GROWTH) if option.up)))
@click.pass_context
def up(context: click.Context, /, home: Home, **given: Any) -> None:
    """Start a local cluster in the background: a master and its agents.

    If it was started before, the processes that have died are started again with its options; applications go on. Exit code 0
    if nothing was missing.
    """
    runtime, floor = given["runtime"], given["floor"]
    each, workers = _of_one_source(context, given["each"]), given["workers"]
    check_runtime((option for option in AGENT if option.up), given)
    row = RUNTIMES.get(runtime)  # None: auto
    if row is not None and not row.starts:
        workers = _only_one(context, each, workers, row)
    if row is not None and row.everywhere and given["cores"] is None and not each:
        raise BadInput(f"--runtime {runtime} cannot know how large the nodes are; give the cores of each node by --cores")
    sizes = workers_each(each, floor) if each else workers_alike(workers, given["cores"], given["memory"], floor)
    agent_words = handed_on(AGENT, given | {"network_pool": room_for(parse_pool(given["network_pool"]), len(sizes))})
    checked_growth(given)
    check_notify_missing(given)
    started = shlex.join((*agent_words, *shlex.split(given["agent_options"])))
    plan = Plan(
        workers=sizes,
        runtime="",
        host=given["host"],
        port=given["port"],
        image=given["image"],
        master_options=handed_on((*MASTER, *GROWTH), given | {"agent_options": started}),
        agent_options=agent_words,
        driver_host=given["driver_host"] or "",
        network=given["network"],
    )
    if only_check():
        return
    if home.ca_file.exists() and not (home.ca_key_file.exists() or home.admin_token_file.exists()):
        raise BadInput(
            f"home {home.path} has the CA of a master elsewhere, which `up` would replace; `sparkpace agent` starts the "
            f"agent of a worker that has joined; name another --home for a cluster of its own"
        )
    options, typed = _options(context)
    ready = None
    if not home.path.exists():
        ready = _ready(plan, runtime, given["namespace"])  # before the home is made: a refusal leaves nothing behind
        home.create()
    with turn(home):
        recorded = home.cluster()
        healing = decide_healing(recorded, look(home, recorded), typed)
        if recorded is not None and healing is not None:
            _heal(home, recorded, healing)
        else:
            _start(home, *(ready or _ready(plan, runtime, given["namespace"])), options)


def _of_one_source(context: click.Context, each: tuple[str, ...]) -> tuple[str, ...]:
    """Return the workers that are described one by one; none where the command line counts them and only the configuration
    describes some. Raise `BadInput` where one of the two does both."""
    sources = {context.get_parameter_source(name) for name in ("workers", "cores", "memory") if _given(context, name)}
    if each and context.get_parameter_source("each") in sources:
        raise BadInput("--worker says what each worker has; give it without --workers, --cores and --memory")
    return () if ParameterSource.COMMANDLINE in sources else each


def _only_one(context: click.Context, each: tuple[str, ...], workers: int, row: RuntimeRow) -> int:
    """Return 1 as the number of workers. Raise `BadInput` for several agents that would pace the same executors."""
    if len(each) > 1 or (workers != 1 and _given(context, "workers")):
        of = "cluster" if row.everywhere else "machine"
        raise BadInput(f"--runtime {row.name} wants one worker: an agent sees all executors of its {of}; give --workers 1")
    return 1


def _ready(plan: Plan, runtime: str, namespace: str | None) -> tuple[Plan, Choice, Java]:
    """Return the plan with its runtime and port, the choice of that runtime, and the Java that is here. Raise `Unavailable`
    where something that a cluster needs is missing."""
    java = find_java(os.environ)
    choice = choose_runtime(runtime, namespace)
    plan = replace(plan, runtime=choice.name, port=check_port(plan.host, plan.port))
    return replace(plan, driver_host=plan.driver_host or _driver_host(plan)), choice, java


def _driver_host(plan: Plan) -> str:
    """Return the address where drivers listen for executors; empty where that is Spark's to find. Raise `Unavailable`."""
    row = RUNTIMES[plan.runtime]
    if not row.own_networks(plan.network):
        return LOOPBACK if is_loopback(plan.host) else ""
    if plan.network == "closed" and (reason := packet_filter.why_not()):
        raise Unavailable(
            f"--network closed cannot be kept here, because {reason}; run as root with iptables, or choose open or host"
        )
    return row.load().driver_address()


def _start(home: Home, plan: Plan, choice: Choice, java: Java, options: Mapping[str, Any]) -> None:
    """Start a new cluster, and say where it is and why its runtime is not a better one."""
    row = RUNTIMES[plan.runtime]
    # without a Spark here, agents prepare executors when they see the first
    if row.starts:
        with suppress(Unavailable), Steps(Console(stderr=True)) as steps:
            prepare(home, plan, spark=find_spark(os.environ), java_home=java.home, step=steps.step)
    cluster = start(home, plan, options)
    if not row.starts:
        size = f"nodes of {plan.workers[0].cores:g} cores each" if row.everywhere else _described(plan.workers)
        click.echo(
            f"Sparkpace runs at {cluster.url} and paces {row.paces} that other cluster managers start, on {size}.\n"
            f"Submit with `sparkpace submit --master {row.spark_master} --deadline 10min "
            f"app.py`, or stock spark-submit with the settings of `sparkpace conf --attach`."
        )
        return
    click.echo(
        f"Sparkpace runs at {cluster.url} with {_described(plan.workers)}, runtime {cluster.runtime}.\n"
        f"Submit with `sparkpace submit --deadline 10min app.py`, or stock spark-submit with "
        f"--properties-file FILE after `sparkpace conf -o FILE`."
    )
    if choice.why_not_better:
        click.echo(f"The runtime is {choice.name} because {choice.why_not_better}.")


def _heal(home: Home, recorded: Cluster, healing: Healing) -> None:
    """Start again what has died of the cluster, and say what was done."""
    if healing.master:
        _check_old_port(recorded)
    cluster = heal(home, recorded, healing)
    if healing.master:
        click.echo("Started the master, which had died.")
    for name in healing.agents:
        click.echo(f"Started the agent of {name}, which had died.")
    for name in healing.restarting:
        click.echo(f"The agent of {name} had lost its child and has started another.")
    click.echo(
        f"Sparkpace runs at {cluster.url} with {len(cluster.agents)} worker(s); "
        + ("" if healing.needed else "nothing was missing; ")
        + f"{unfinished(home)} application(s) go on."
    )


def _check_old_port(recorded: Cluster) -> None:
    """Raise `Unavailable` when another program has the port meanwhile: agents and drivers know no other."""
    try:
        check_port(recorded.host, recorded.port)
    except Unavailable as error:
        raise Unavailable(
            f"the master has died and another program has port {recorded.port} of {recorded.host}, where agents and drivers "
            f"look for the master; end that program, or the cluster with `sparkpace down`"
        ) from error


def _options(context: click.Context) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all options as JSON has them, by their names, and those of them that were given."""
    named = {parameter.name: parameter.opts[-1].lstrip("-") for parameter in context.command.params}
    values = {name: _plain(value) for name, value in context.params.items() if name != "home"}
    given = {named[name]: value for name, value in values.items() if _given(context, name)}
    return {named[name]: value for name, value in values.items()}, given


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _described(workers: Sequence[WorkerPlan]) -> str:
    sizes = {(worker.cores, worker.memory_mb) for worker in workers}
    if len(sizes) == 1:
        return f"{len(workers)} worker(s) of {workers[0].cores:g} cores and {workers[0].memory_mb} MiB"
    return "workers of " + ", ".join(f"{worker.cores:g} cores and {worker.memory_mb} MiB" for worker in workers)
