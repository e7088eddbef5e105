"""`sparkpace ps`, `top` and `ui`: the applications that the master knows, listed once, or with the workers live, here or in a
browser.

Tables have only columns that fit into 120 characters; `ps --output json` has all fields. Not covered: the progress line of
`submit` (`controller.submit.progress_line`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase

import click
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from controller.cli.checks import duration_within
from controller.cli.common import CountRange, can_redraw, home_option, output_option, print_json, table_console
from controller.cli.tables import MOST_NAME, duration_or_dash, short_ids
from controller.client import LastingClient, MasterClient, submit_client
from controller.home import Home
from controller.machine.printable import printable
from controller.wire.command import ApplicationView, UserShare, WorkerView
from controller.wire.states import ApplicationState
from stage_model.units import format_duration, parse_priority, priority_name

SHORTEST_S = 0.1
"""Shortest time between two looks: the master has other callers, too, and people do not read faster."""


@click.command(epilog="Example: sparkpace ps --state running --state waiting")
@home_option
@output_option
@click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in ApplicationState]),
    multiple=True,
    help="Only applications in this state (repeat).",
)
@click.option(
    "--name",
    metavar="PATTERN",
    help="Only applications that have this name or were submitted with it; * stands for any characters, ? for one character.",
)
@click.option("--priority", help="Only applications with this priority: backfill, low, normal, high, or 0 to 100.")
def ps(home: Home, as_json: bool, states: tuple[str, ...], name: str | None, priority: str | None) -> None:
    """List the applications, running and ended.

    CORES shows granted of demanded cores, DEBT the core-seconds that are not repaid yet. Lines below the table say why
    applications wait or lack executors, what users with limits have of their shares, and which workers do not report.
    """
    number = None if priority is None else parse_priority(priority)
    client = submit_client(home)
    views = selected(client.applications(), states, name, number)
    if as_json:
        print_json(views)
    else:
        table_console().print(_list(views, client.workers()), soft_wrap=True)


def _list(views: list[ApplicationView], workers: Sequence[WorkerView]) -> Group:
    waiting = [view for view in views if view.queue_position is not None and not view.ended]
    lacking = [view for view in views if view.queue_position is None and view.executors and view.reason and not view.ended]
    lines = [Text(f"{view.application_id} waits, place {view.queue_position}: {view.reason}") for view in waiting]
    lines += [Text(f"{view.application_id}: {view.reason}") for view in lacking]
    return Group(applications_table(views), *lines, *share_lines(views), *silences(workers))


def selected(
    views: Iterable[ApplicationView], states: Collection[str] = (), name: str | None = None, priority: int | None = None
) -> list[ApplicationView]:
    """Return the applications in one of the states, with a name of that pattern (a shell's), and with that priority. Empty or
    None: no restriction."""
    return [
        view
        for view in views
        if (not states or view.state in states)
        and (name is None or any(one == name or fnmatchcase(one, name) for one in view.names))
        and (priority is None or view.priority == priority)
    ]


@click.command(epilog="Example: sparkpace top --interval 500ms")
@home_option
@output_option
@click.option("--interval", default="1s", show_default=True, help="Time between two updates, 100ms or more.")
def top(home: Home, as_json: bool, interval: str) -> None:
    """Show the running applications and the workers, live.

    Ctrl-C ends it. With --output json, or if the output is not a terminal, they are shown once. On a terminal that cannot
    move its cursor (TERM=dumb), each update is printed below the last.
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


@click.command("ui", epilog="Example: sparkpace ui --port 7071")
@home_option
@click.option(
    "--port", type=CountRange(0, 65535), default=7071, show_default=True, help="Port on 127.0.0.1; 0: any free port."
)
def live_page(home: Home, port: int) -> None:
    """Serve the live page of the cluster for a browser.

    The page shows the cluster, its applications and ended runs. Ctrl-C ends it; jobs go on. Each printed link lets one
    browser in, once and within five minutes; then the next link is printed. The page is served only on this machine's
    loopback. From another machine, use ssh -L 7071:127.0.0.1:7071 HOST.
    """
    from controller.ui.main import serve_page  # here, because the other commands need no web server

    url = home.need_cluster().url
    click.echo(f"Live page of the cluster at {url}. Ctrl-C ends it.")
    lasting = LastingClient(url, home.ca_file, home.submit_token())
    serve_page(port, lasting, submit_client(home), lambda link: click.echo(f"Open this within 5 minutes: {link}"))


def applications_table(views: Sequence[ApplicationView]) -> Table:
    """Return the table. Durations count from submission; cores are granted of demanded, debt is core-seconds not given back
    yet. Pipelines are shown where there is one."""
    of_pipelines = any(view.pipeline for view in views)
    left = ("APP", "NAME", *(("PIPELINE",) if of_pipelines else ()), "STATE", "PRIO")
    table = _table(left, ("ELAPSED", "DEADLINE", "FORECAST", "DONE", "CORES", "MEMORY", "DEBT"))
    for view, name in zip(views, short_ids([view.application_id for view in views]), strict=True):
        table.add_row(
            name,
            view.name,
            *((view.pipeline or "-",) if of_pipelines else ()),
            _state(view),
            priority_name(view.priority),
            format_duration(view.elapsed_s),
            duration_or_dash(view.deadline_s),
            duration_or_dash(view.forecast_end_s),
            "-" if view.progress is None else f"{view.progress:.0%}",
            f"{view.granted_cores:.2f} of {view.demand_cores:.2f}",
            _memory(view.memory_mb),
            f"{view.debt_core_s:.1f}" if view.debt_core_s else "-",
        )
    return table


def workers_table(workers: Sequence[WorkerView]) -> Table:
    table = _table(("WORKER", "HOST", "RUNTIME"), ("CORES", "MEMORY", "HEARD"))
    for worker in workers:
        table.add_row(
            worker.worker_id,
            worker.host,
            worker.runtime,
            f"{worker.cores:.2f}",
            _memory(worker.memory_mb),
            f"{format_duration(worker.seen_s_ago)} ago",
        )
    return table


def silences(workers: Iterable[WorkerView]) -> list[Text]:
    """Return a line for each worker that does not report."""
    return [Text(worker.silence) for worker in workers if worker.silence]


def share_lines(views: Iterable[ApplicationView]) -> list[Text]:
    """Return a line for the share of each user with limits: what is promised of it."""
    shares = {view.share.user: view.share for view in views if view.share is not None}
    return [Text(_share_line(share)) for share in shares.values()]


def _share_line(share: UserShare) -> str:
    said = [
        f"{used} of {most} {what}"
        for used, most, what in (
            (f"{share.cores:.2f}", share.most_cores and f"{share.most_cores:.2f}", "cores promised"),
            (share.memory_mb, share.most_memory_mb, "MiB promised"),
            (share.applications, share.most_applications, "applications"),
        )
        if most is not None
    ]
    highest = share.highest_priority
    said += [] if highest is None else [f"highest priority {priority_name(highest)}"]
    return f"user {printable(share.user, MOST_NAME)}: {', '.join(said)}"


def _state(view: ApplicationView) -> str:
    """Return the state of an application; while it waits, with its place in the queue; once its outcome is settled, the
    outcome."""
    if view.queue_position is not None:
        return f"{view.state} {view.queue_position}"
    return (view.outcome or view.state).replace("_", " ")


def _table(left: Sequence[str], right: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, heading in enumerate(left):
        table.add_column(heading, no_wrap=number == 0)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _memory(mb: int) -> str:
    """Return a short text: "-" for none, "3840M", from 10 GiB on "12.5G"."""
    if mb == 0:
        return "-"
    return f"{mb}M" if mb < 10240 else f"{mb / 1024:.1f}G"
