"""`sparkpace up` and `sparkpace down`: a cluster of this machine in the background."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click
from rich.console import Console

from controller.cli.checks import check_host, check_port, mount_roots, parse_period
from controller.cli.common import POLICY_HELP, floor_option, home_option
from controller.engines import MEMORY_SHARE, SERVICE_CORES, choose_runtime, find_java, machine_cores, machine_memory_mb
from controller.home import Home
from controller.local_cluster import Plan, start, stop
from controller.prepare import prepare
from controller.spark_install import find_spark
from master_memory.split import POLICIES
from stage_model.errors import BadInput, Unavailable
from stage_model.settings import CORE_QUANTUM, LAWS
from stage_model.units import parse_memory_mb


@click.command()
@home_option
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True)
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
@click.option("--keep-runs", type=click.IntRange(min=1), default=100, show_default=True, help="Run folders to keep.")
def up(
    home: Home,
    workers: int,
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
    keep_runs: int,
) -> None:
    """Starts a local cluster in the background: one master and its agents."""
    check_host(host, insecure)
    total_cores = machine_cores() - SERVICE_CORES if cores is None else cores
    total_mb = int(machine_memory_mb() * MEMORY_SHARE) if memory is None else parse_memory_mb(memory, option="--memory")
    plan = Plan(
        workers=workers,
        runtime="",
        cores_each=_cores_each(total_cores, workers, floor),
        memory_mb_each=_memory_each(total_mb, workers),
        host=host,
        port=port,
        insecure=insecure,
        period_s=parse_period(period),
        floor=floor,
        allow_mounts=mount_roots(allowed, Path.home()),
        image=image,
        law=law,
        memory_policy=memory_policy,
        keep_runs=keep_runs,
    )
    _refuse_second(home)
    java = find_java(os.environ)
    plan = plan.ready(runtime=choose_runtime(runtime), port=check_port(host, port))
    # without a Spark here, agents prepare executors when they see the first
    with suppress(Unavailable), Console(stderr=True).status("preparing executors: image and class archive, made once"):
        prepare(home, plan, spark_home=find_spark(os.environ).home, java_home=java.home)
    cluster = start(home, plan)
    click.echo(
        f"Sparkpace runs at {cluster.url} with {workers} worker(s) of {plan.cores_each:g} cores and "
        f"{plan.memory_mb_each} MiB, runtime {cluster.runtime}.\n"
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
    if each < 512:
        raise BadInput(f"--memory of {total_mb} MiB for {workers} worker(s) is too little; each needs 512 MiB or more")
    if total_mb > machine_memory_mb():
        raise BadInput(f"--memory of {total_mb} MiB is more than this machine's {machine_memory_mb()} MiB; give less")
    return each
