"""`sparkpace down`: the end of a cluster of this machine."""

from __future__ import annotations

from contextlib import nullcontext

import click

from controller.cli.common import home_option, warn
from controller.home import Home
from controller.locks import turn
from stage_model.errors import PaceError


@click.command(epilog="Example: sparkpace down")
@home_option
@click.option("--all", "everywhere", is_flag=True, help="End agents on other machines, too.")
def down(home: Home, everywhere: bool) -> None:
    """End the applications and the local cluster, however it was started.

    Executors, containers and control groups that outlived them are removed. Agents on other machines are named and left,
    unless --all is given. Exit code 1 if something is left.
    """
    from controller.local.ending import stop  # here, because the other commands need no engine's library

    with turn(home) if home.path.exists() else nullcontext():
        stopped = stop(home, home.cluster(), everywhere=everywhere)
    if stopped is None:
        click.echo(f"No local cluster in {home.path}.")
        return
    warn((*stopped.notes, *stopped.elsewhere, *stopped.left))
    if said := stopped.removed.said():
        click.echo(said)
    if stopped.left:
        raise PaceError(f"{len(stopped.left)} part(s) of the cluster were left; run `sparkpace down` again to try once more")
    if stopped.elsewhere:
        raise PaceError("the cluster is down, but for the agents named above; end them on their machines")
    click.echo("Sparkpace is down.")
