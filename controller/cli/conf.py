"""`sparkpace conf`, `jar` and `shim`: what stock spark-submit, notebooks and other programs need to reach the cluster."""

from __future__ import annotations

from pathlib import Path

import click

from controller.asks.properties import format_properties
from controller.cli.common import NamedPath, home_option
from controller.home import Home
from controller.machine.files import write_whole
from controller.submit.authentication import authenticated
from controller.submit.bridge_jar import attach_settings, bridge_jar, driver_settings, pod_settings
from controller.submit.driver_command import CLASS_PATH, driver_places
from controller.submit.shim import NAMES, is_shim, shim_text
from stage_model.errors import BadInput

OURS = "# Written by `sparkpace conf`, which may write it again. It holds a secret: keep it to yourself.\n"


@click.command(epilog="Example: sparkpace conf -o ~/.sparkpace/pace.conf")
@home_option
@click.option("-o", "--out", type=NamedPath(), help="File that the settings are written to, with a new secret (mode 0600).")
@click.option("--attach", is_flag=True, help="Settings for executors that another cluster manager starts.")
@click.option(
    "--kubernetes", is_flag=True, help="With --attach: settings for a driver in a pod, as --deploy-mode cluster starts it."
)
def conf(home: Home, out: Path | None, attach: bool, kubernetes: bool) -> None:
    """Print or write the settings with which a driver joins the cluster.

    `spark-submit --properties-file FILE` reads them. Only the file of --out has the secret of Spark's own authentication. A
    driver without a secret is refused.
    """
    if attach:
        if out is not None:
            raise BadInput("--attach and --out exclude each other: what attaches a job holds no secret; give one of them")
        there = home.need_cluster()
        click.echo(format_properties(pod_settings(there) if kubernetes else attach_settings(home, there)), nl=False)
        return
    if kubernetes:
        raise BadInput(
            "--kubernetes without --attach has no meaning, because there Spark's own cluster manager starts executors; "
            "give --attach --kubernetes"
        )
    settings = driver_settings() | {
        CLASS_PATH: str(bridge_jar()),
        "spark.pace.token.file": str(home.submit_token_file),
        "spark.pace.ca.file": str(home.ca_file),
    }
    cluster = home.cluster()
    if cluster is not None:
        settings |= driver_places(cluster)
        settings["spark.master"] = cluster.spark_master
    if out is None:
        click.echo(format_properties(settings), nl=False)
        return
    try:
        if out.exists() and not out.read_bytes().startswith(OURS.encode()):
            raise BadInput(f"{out} exists and is not from `sparkpace conf`; name another file, or remove it")
        write_whole(out, (OURS + format_properties(authenticated(settings, {}))).encode())
    except OSError as error:
        raise BadInput(f"{out} cannot be written ({error.strerror}); name a file where you may write") from error
    click.echo(f"{out} is readable only by you (0600): spark-submit --properties-file {out}")


@click.command(epilog="Example: sparkpace jar")
def jar() -> None:
    """Print the path of the bridge jar, for the driver's class path."""
    click.echo(str(bridge_jar()))


@click.command(epilog="Example: sparkpace shim ~/pace/bin")
@click.argument("folder", metavar="DIR", type=NamedPath())
def shim(folder: Path) -> None:
    """Write a spark-submit that takes the options of `sparkpace submit`, too.

    The scripts spark-submit and spark3-submit are written to DIR; put DIR first on PATH. Without an option of Sparkpace, a
    setting spark.pace.* or a master sparkpace://, a script runs the real spark-submit unchanged: that of SPARK_HOME, else the
    next spark-submit on PATH.
    """
    folder = folder.expanduser().absolute()
    files = [folder / name for name in NAMES]
    if strange := [file for file in files if file.exists() and not is_shim(file)]:
        raise BadInput(f"{strange[0]} exists and is not from `sparkpace shim`; name another directory")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            write_whole(file, shim_text().encode())
            file.chmod(0o755)
    except OSError as error:
        raise BadInput(f"{folder} cannot be written ({error.strerror}); name one where you may write") from error
    click.echo(f'PATH="{folder}:$PATH" spark-submit --deadline 90s app.py')
