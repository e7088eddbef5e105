"""`sparkpace ps` and `sparkpace kill`: what the master knows of applications."""

from __future__ import annotations

import time

import click
import msgspec
from rich.table import Table

from controller.cli.common import choose, home_option, submit_client, table_console
from controller.driver_run import RECORD_S
from controller.home import Home
from controller.messages import ApplicationView
from stage_model.errors import PaceError
from stage_model.units import format_duration


@click.command()
@home_option
@click.option("--json", "as_json", is_flag=True)
def ps(home: Home, as_json: bool) -> None:
    """Lists the applications, running and ended."""
    views = submit_client(home).applications()
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(views)).decode())
        return
    table_console().print(_table(views))


@click.command()
@home_option
@click.argument("application", metavar="APP")
def kill(home: Home, application: str) -> None:
    """Ends an application and its containers."""
    client = submit_client(home)
    view = choose(client.applications(), application)
    if view.state == "ended":
        click.echo(f"Application {view.application_id} has already ended.")
        return
    client.kill(view.application_id)
    until = time.monotonic() + RECORD_S
    while view.state != "ended" or view.executors > 0:
        if time.monotonic() > until:
            raise PaceError(f"application {view.application_id} has not ended within {RECORD_S:g} s; look at `ps`")
        time.sleep(0.25)
        view = client.application(view.application_id)
    click.echo(f"Application {view.application_id} was ended.")


def _table(views: tuple[ApplicationView, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("APP", "NAME", "STATE", "LAW"):
        table.add_column(heading, no_wrap=heading == "APP")
    for heading in ("PRIORITY", "ELAPSED", "DEADLINE", "FORECAST", "PROGRESS", "CORES", "USED", "EXECUTORS"):
        table.add_column(heading, justify="right")
    for view in views:
        table.add_row(
            view.application_id,
            view.name,
            view.state,
            view.law,
            str(view.priority),
            format_duration(view.elapsed_s),
            _duration(view.deadline_s),
            _duration(view.forecast_end_s),
            "-" if view.progress is None else f"{view.progress:.0%}",
            f"{view.granted_cores:.2f}",
            f"{view.used_cores:.2f}",
            str(view.executors),
        )
    return table


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)
