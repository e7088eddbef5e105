"""`sparkpace kill` and `sparkpace set`: another end, deadline, priority or place for an application."""

from __future__ import annotations

import os
from datetime import datetime

import click

from controller.cli.common import choose, home_option
from controller.cli.completion import complete_running, completes
from controller.client import submit_client
from controller.home import Home
from controller.machine.local_zone import local_zone
from controller.machine.waiting import wait_until
from controller.submit.driver_run import RECORD_S
from controller.wire.command import Change
from placement.labels import parse_requirements
from stage_model.errors import BadInput, PaceError
from stage_model.units import format_duration, parse_new_deadline, parse_priority


@click.command("kill", epilog="Example: sparkpace kill nightly")
@home_option
@click.argument("application", metavar="APP", shell_complete=completes(complete_running))
def kill_application(home: Home, application: str) -> None:
    """End an application and its containers."""
    client = submit_client(home)
    view = choose(client.applications(), application)
    if view.ended:
        click.echo(f"Application {view.application_id} has already ended.")
        return
    client.kill(view.application_id)

    def ended() -> bool:
        now = client.application(view.application_id)
        return now.ended and not now.executors

    if not wait_until(ended, RECORD_S, 0.25):
        raise PaceError(f"application {view.application_id} has not ended within {RECORD_S:g} s; look at `ps`")
    click.echo(f"Application {view.application_id} was ended.")


@click.command("set", epilog="Example: sparkpace set nightly --deadline 3min --priority high")
@home_option
@click.argument("application", metavar="APP", shell_complete=completes(complete_running))
@click.option("--deadline", help="New deadline: 90s, 10min, 1h30m after submission, 'by 07:00', an ISO time, or `none`.")
@click.option("--priority", help="New priority: backfill, low, normal, high, or 0 to 100; larger wins.")
@click.option(
    "--labels",
    help="Labels that workers of further executors must have, as zone=a,disk!=hdd,gpu,!spot; '' removes the requirement.",
)
@click.option("--force", is_flag=True, help="Set the deadline even if it cannot be met.")
def set_(home: Home, application: str, deadline: str | None, priority: str | None, labels: str | None, force: bool) -> None:
    """Change the deadline, priority or workers of a running application."""
    if deadline is None and priority is None and labels is None:
        raise BadInput("nothing to set; give --deadline, --priority, --labels, or several of them")
    if priority is not None:
        parse_priority(priority)
    new = None if deadline is None else parse_new_deadline(deadline, datetime.now(local_zone(os.environ)))
    parse_requirements(labels or "", option="--labels")
    client = submit_client(home)
    view = choose(client.applications(), application)
    asked = Change(
        deadline_s=None if new is None else new.since_submission(view.elapsed_s),
        no_deadline=deadline is not None and new is None,
        priority=priority,
        labels=labels,
        force=force,
    )
    client.change(view.application_id, asked)
    view = client.application(view.application_id)
    said = "no deadline" if view.deadline_s is None else f"deadline {format_duration(view.deadline_s)}"
    click.echo(f"Application {view.application_id}: {said}, priority {view.priority}.")
