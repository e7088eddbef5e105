"""`sparkpace top`: the running applications and the workers, drawn again every interval; in a dumb terminal, printed
again."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import click
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from controller.cli.checks import duration_within
from controller.cli.common import can_redraw, home_option, output_option, print_json, table_console
from controller.cli.tables import applications_table, silences, workers_table
from controller.client import MasterClient, submit_client
from controller.home import Home

SHORTEST_S = 0.1
"""Shortest time between two looks: the master answers others, too, and no one reads faster."""


@click.command(epilog="Example: sparkpace top --interval 500ms")
@home_option
@output_option
@click.option("--interval", default="1s", show_default=True, help="Time between two updates, 100ms or more.")
def top(home: Home, as_json: bool, interval: str) -> None:
    """Show the running applications and the workers, live.

    Ctrl-C ends it. As json, or where the output is not a terminal, they are shown once. A terminal that cannot move its
    cursor (TERM=dumb) gets each update below the one before.
    """
    interval_s = duration_within(interval, "--interval", SHORTEST_S, math.inf, "100ms or more, as 2s or 1min")
    client = submit_client(home)
    if as_json:
        print_json({"applications": client.applications(), "workers": client.workers()})
        return
    show_top(client, table_console(), interval_s)


def show_top(client: MasterClient, console: Console, interval_s: float, sleep: Callable[[float], None] = time.sleep) -> None:
    """Show the picture until Ctrl-C on a terminal, else once."""
    try:
        if can_redraw(console):
            _redraw(client, console, interval_s, sleep)
        elif console.is_terminal:
            _print_each(client, console, interval_s, sleep)
        else:
            console.print(_picture(client))
    except KeyboardInterrupt:
        return


def _redraw(client: MasterClient, console: Console, interval_s: float, sleep: Callable[[float], None]) -> None:
    # With a screen of its own, a table that shrinks leaves no rows behind, and the shell comes back as it was.
    with Live(_picture(client), console=console, screen=True, auto_refresh=False) as live:
        live.refresh()
        while True:
            sleep(interval_s)
            live.update(_picture(client), refresh=True)


def _print_each(client: MasterClient, console: Console, interval_s: float, sleep: Callable[[float], None]) -> None:
    while True:
        console.print(_picture(client), Text(), soft_wrap=True)
        sleep(interval_s)


def _picture(client: MasterClient) -> Group:
    """Look at the master once; return a line of sums and two tables."""
    views, workers = client.applications(), client.workers()
    running = [view for view in views if not view.ended]
    cores = sum(worker.cores for worker in workers if not worker.silence)
    granted, demanded = sum(v.granted_cores for v in running), sum(v.demand_cores for v in running)
    line = (
        f"{len(running)} running, {len(views) - len(running)} ended · "
        f"{granted:.2f} of {cores:.2f} cores granted, {demanded:.2f} demanded"
    )
    return Group(Text(line), Text(), applications_table(running), Text(), workers_table(workers), *silences(workers))
