"""`sparkpace up` and `sparkpace down`: a cluster of this machine in the background."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource
from rich.console import Console

from controller.cli.checks import LEAST_MB, check_host, check_port, checked_folders, parse_period
from controller.cli.common import POLICY_HELP, floor_option, home_option
from controller.cli.master_placement import MasterPlacement, placement_options
from controller.cli.worker_words import WORKER_HELP, parse_worker
from controller.engines import MEMORY_SHARE, SERVICE_CORES, choose_runtime, find_java, machine_cores, machine_memory_mb
from controller.home import Home
from controller.local_cluster import Plan, WorkerPlan, start, stop
from controller.prepare import prepare
from controller.spark_install import find_spark
from master_memory.split import POLICIES
from stage_model.errors import BadInput, Unavailable
from stage_model.settings import CORE_QUANTUM, LAWS
from stage_model.units import parse_memory_mb


@click.command()
@home_option
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True)
@click.option("--worker", "each", multiple=True, help=WORKER_HELP)
@click.option("--runtime", type=click.Choice(["auto", "docker", "process"]), default="auto", show_default=True)
@click.option("--cores", type=float, help="For executors, all workers together [default: the machine's less 0.3].")
@click.option("--memory", help="Memory for executors, all workers together, as 8g [default: 80% of the machine's].")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address the master listens on.")
@click.option("--insecure", is_flag=True, help="Allow a --host beyond loopback without TLS.")
@click.option("--port", type=click.IntRange(0, 65535), default=7070, show_default=True, help="0: any free one.")
@click.option("--period", default="1s", show_default=True, help="Control period, 200ms to 60s.")
@floor_option
@click.option(
    "--allow-mount",
    "allowed",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Root that --mount may name (repeat) [default: your home].",
)
@click.option("--image", help="Executor image for jobs that name none.")
@click.option("--law", type=click.Choice(LAWS), default="forecast", show_default=True, help="For jobs that name none.")
@click.option("--memory-policy", type=click.Choice(list(POLICIES)), default="equal", show_default=True, help=POLICY_HELP)
@placement_options
@click.option("--keep-runs", type=click.IntRange(min=1), default=100, show_default=True, help="Run folders to keep.")
@click.pass_context
def up(
    context: click.Context,
    home: Home,
    workers: int,
    each: tuple[str, ...],
    runtime: str,
    cores: float | None,
    memory: str | None,
    host: str,
    insecure: bool,
    port: int,
    period: str,
    floor: float,
    allowed: tuple[Path, ...],
    image: str | None,
    law: str,
    memory_policy: str,
    placing: MasterPlacement,
    keep_runs: int,
) -> None:
    """Starts a local cluster in the background: one master and its agents."""
    check_host(host, insecure)
    if each and any(_given(context, name) for name in ("workers", "cores", "memory")):
        raise BadInput("--worker says what each worker has; give it without --workers, --cores and --memory")
    plan = Plan(
        workers=_each(each, floor) if each else _alike(workers, cores, memory, floor),
        runtime="",
        host=host,
        port=port,
        insecure=insecure,
        period_s=parse_period(period),
        floor=floor,
        allow_mounts=checked_folders(allowed, option="--allow-mount") or (Path.home(),),
        image=image,
        law=law,
        memory_policy=memory_policy,
        keep_runs=keep_runs,
    )
    agents = shlex.join((*plan.agent_options(), *shlex.split(placing.agent_options)))
    plan = replace(plan, master_options=replace(placing, agent_options=agents).words())
    _refuse_second(home)
    java = find_java(os.environ)
    plan = plan.ready(runtime=choose_runtime(runtime), port=check_port(host, port))
    # without a Spark here, agents prepare executors when they see the first
    with suppress(Unavailable), Console(stderr=True).status("preparing executors: image and class archive, made once"):
        prepare(home, plan, spark_home=find_spark(os.environ).home, java_home=java.home)
    cluster = start(home, plan)
    click.echo(
        f"Sparkpace runs at {cluster.url} with {_described(plan.workers)}, runtime {cluster.runtime}.\n"
        f"Submit with `sparkpace submit --deadline 10min app.py`, or stock spark-submit with --master "
        f"sparkpace://{cluster.host}:{cluster.port} and --properties-file from `sparkpace conf`."
    )


@click.command()
@home_option
def down(home: Home) -> None:
    """Ends the applications, their containers and the local cluster."""
    cluster = home.cluster()
    if cluster is None:
        click.echo(f"No local cluster in {home.path}.")
        return
    left = stop(home, cluster)
    for view in left:
        click.echo(f"sparkpace: application {view} had not ended when its agents were stopped", err=True)
    click.echo("Sparkpace is down.")


def _refuse_second(home: Home) -> None:
    cluster = home.cluster()
    if cluster is not None and cluster.living():
        raise BadInput(
            f"a cluster of {home.path} already runs at {cluster.url}; end it with `sparkpace down`, "
            f"or give another --home and --port"
        )


def _given(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def _described(workers: Sequence[WorkerPlan]) -> str:
    sizes = {(worker.cores, worker.memory_mb) for worker in workers}
    if len(sizes) == 1:
        return f"{len(workers)} worker(s) of {workers[0].cores:g} cores and {workers[0].memory_mb} MiB"
    return "workers of " + ", ".join(f"{worker.cores:g} cores and {worker.memory_mb} MiB" for worker in workers)


def _alike(workers: int, cores: float | None, memory: str | None, floor: float) -> tuple[WorkerPlan, ...]:
    total_cores = machine_cores() - SERVICE_CORES if cores is None else cores
    total_mb = int(machine_memory_mb() * MEMORY_SHARE) if memory is None else parse_memory_mb(memory, option="--memory")
    cores_each, memory_each = _cores_each(total_cores, workers, floor), _memory_each(total_mb, workers)
    return tuple(WorkerPlan(f"w{number}", cores_each, memory_each) for number in range(1, workers + 1))


def _each(each: Sequence[str], floor: float) -> tuple[WorkerPlan, ...]:
    """Workers as the user describes them. Raises `BadInput` for what cannot be, or is more than the machine has."""
    workers = tuple(parse_worker(text, f"w{number}") for number, text in enumerate(each, 1))
    if len({worker.worker_id for worker in workers}) < len(workers):
        raise BadInput("--worker names one worker twice; accepted: each id once")
    for worker in workers:
        _check_size(worker.cores, worker.memory_mb, floor, f"--worker {worker.worker_id}")
    cores, memory_mb = sum(worker.cores for worker in workers), sum(worker.memory_mb for worker in workers)
    _check_size(cores, memory_mb, floor, "all --worker together")
    return workers


def _check_size(cores: float, memory_mb: int, floor: float, what: str) -> None:
    most_cores, most_mb = machine_cores(), machine_memory_mb()
    if not floor <= cores <= most_cores or not LEAST_MB <= memory_mb <= most_mb:
        raise BadInput(
            f"{what}: {cores:g} cores and {memory_mb} MiB; accepted: {floor:g} to {most_cores:g} cores and {LEAST_MB} to "
            f"{most_mb} MiB on this machine"
        )


def _cores_each(total: float, workers: int, floor: float) -> float:
    """Rounded down to steps of 0.05 core, the quota's step."""
    # Not "total < ...": nan must be refused, too.
    if not total / workers >= floor:
        raise BadInput(
            f"--cores {total:g} for {workers} worker(s) is too little; each needs the floor, {floor:g} core, or more"
        )
    if total > machine_cores():
        raise BadInput(f"--cores {total:g} is more than this machine's {machine_cores():g}; give that or less")
    # The small addend keeps 1.7 / 2 = 0.85 from becoming 0.80 through binary fractions.
    return int(total / workers / CORE_QUANTUM + 1e-6) * 5 / 100


def _memory_each(total_mb: int, workers: int) -> int:
    each = total_mb // workers
    if each < LEAST_MB:
        raise BadInput(f"--memory of {total_mb} MiB for {workers} worker(s) is too little; each needs {LEAST_MB} MiB or more")
    if total_mb > machine_memory_mb():
        raise BadInput(f"--memory of {total_mb} MiB is more than this machine's {machine_memory_mb()} MiB; give less")
    return each
