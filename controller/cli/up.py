"""`sparkpace up`: a cluster of this machine in the background."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from controller.cli.common import home_option
from controller.cli.config import config_option, only_check, said_options
from controller.cli.master_options import MASTER_AND_GROWTH, master_options, master_words
from controller.cli.service_option import check_runtime, handed_on, takes
from controller.cli.service_options import AGENT, UP
from controller.cli.steps import shown_steps
from controller.cli.worker_words import described_workers
from controller.home import Cluster, Home
from controller.local.cluster import heal, look, start, unfinished
from controller.local.healing import Healing, decide_healing
from controller.local.plan import Plan, ReadyPlan, WorkerPlan, ready_plan
from controller.local.prepare import prepare
from controller.locks import turn
from controller.runtime.networks import parse_pool, room_for
from controller.runtime.table import RUNTIMES
from stage_model.errors import BadInput


@click.command(epilog="Example: sparkpace up --workers 2")
@home_option
@config_option
@takes((*UP, *(option for option in (*AGENT, *MASTER_AND_GROWTH) if option.up)))
@click.pass_context
def up(context: click.Context, /, home: Home, **given: Any) -> None:
    """Start a local cluster in the background: a master and its agents.

    If the cluster was started before, its processes that have died are started again with their options; applications go on.
    Exit code 0 if nothing was missing.
    """
    check_runtime((option for option in AGENT if option.up), given)
    workers = described_workers(context, given)
    agent_words = handed_on(AGENT, given | {"network_pool": room_for(parse_pool(given["network_pool"]), len(workers))})
    master_options(home, given)  # for its refusals
    plan = Plan(
        workers=workers,
        runtime=given["runtime"],
        host=given["host"],
        port=given["port"],
        image=given["image"],
        master_options=master_words(given, agent_words),
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
    options, typed = said_options(context)
    ready = None
    if not home.path.exists():
        ready = ready_plan(plan, given["namespace"])  # this comes before the home is made: a refusal leaves nothing behind
        home.create()
    with turn(home):
        recorded = home.cluster()
        healing = decide_healing(recorded, look(home, recorded), typed)
        if recorded is not None and healing is not None:
            _heal(home, recorded, healing)
        else:
            _start(home, ready or ready_plan(plan, given["namespace"]), options)


def _start(home: Home, ready: ReadyPlan, options: Mapping[str, Any]) -> None:
    """Start a new cluster, and say where it is and why it does not have a better runtime."""
    plan, why_not_better, java_home = ready
    row = RUNTIMES[plan.runtime]
    if row.starts:
        with shown_steps() as step:
            prepare(home, plan, java_home, step)
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
    if why_not_better:
        click.echo(f"The runtime is {plan.runtime} because {why_not_better}.")


def _heal(home: Home, recorded: Cluster, healing: Healing) -> None:
    """Start again the parts of the cluster that have died, and name them."""
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


def _described(workers: Sequence[WorkerPlan]) -> str:
    sizes = {(worker.cores, worker.memory_mb) for worker in workers}
    if len(sizes) == 1:
        return f"{len(workers)} worker(s) of {workers[0].cores:g} cores and {workers[0].memory_mb} MiB"
    return "workers of " + ", ".join(f"{worker.cores:g} cores and {worker.memory_mb} MiB" for worker in workers)
