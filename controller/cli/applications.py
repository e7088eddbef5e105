"""`sparkpace ps` and `sparkpace kill`: what the master knows of applications."""

from __future__ import annotations

import time

import click
import msgspec

from controller.cli.common import choose, home_option, submit_client, table_console
from controller.cli.tables import applications_table
from controller.driver_run import RECORD_S
from controller.home import Home
from stage_model.errors import PaceError


@click.command()
@home_option
@click.option("--json", "as_json", is_flag=True)
def ps(home: Home, as_json: bool) -> None:
    """Lists the applications, running and ended. CORES is granted of demanded, DEBT core-seconds still to be given back."""
    views = submit_client(home).applications()
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(views)).decode())
        return
    table_console().print(applications_table(views))


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
