"""`sparkpace plan`: can a deadline be kept, with how many cores, and what is the least possible one?"""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import click

from controller.cli.common import home_option, output_option, print_json, table_console
from controller.cli.completing import complete_profiles, completes
from controller.cli.tables import figures_table
from controller.client import submit_client
from controller.home import Home
from controller.local_zone import local_zone
from controller.runs.profile_store import ProfileStore
from controller.submit.profile_choice import read_profile
from controller.wire.command import PlanReply, PlanRequest
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.laws import LAWS
from stage_model.nearest import nearest_names
from stage_model.units import format_duration, parse_deadline, parse_priority


@click.command()
@home_option
@click.option(
    "--profile",
    required=True,
    shell_complete=completes(complete_profiles),
    help="Name of a stored profile, or a profile's file.",
)
@click.option("--deadline", help="90s, 10min, 1h30m, 'by 07:00', or an ISO time.")
@click.option("--num-executors", type=click.IntRange(min=1), help="[default: one per worker]")
@click.option("--executor-cores", type=click.IntRange(min=1), help="[default: all slots of a worker]")
@click.option("--priority", default="normal", help="low, normal, high, or 0 to 100: beside whose promises it must fit.")
@click.option(
    "--law",
    type=click.Choice(list(LAWS)),
    help="Whose cores and stage deadlines to show; only `paper` has the latter. [default: the cluster's]",
)
@output_option
@click.pass_context
def plan(
    context: click.Context,
    home: Home,
    profile: str,
    deadline: str | None,
    num_executors: int | None,
    executor_cores: int | None,
    priority: str,
    law: str | None,
    as_json: bool,
) -> None:
    """Says whether a deadline is feasible, and with how many cores; with --law paper also each stage's deadline."""
    now = datetime.now(local_zone(os.environ))
    deadline_s = None if deadline is None else parse_deadline(deadline, now, option="--deadline")
    chosen = read_profile(profile, Path.cwd())
    request = PlanRequest(
        profile=chosen.name,
        profile_json=chosen.text,
        deadline_s=deadline_s,
        executors=num_executors,
        executor_cores=executor_cores,
        law=law,
        priority=parse_priority(priority),
    )
    reply = submit_client(home).plan(request)
    if not reply.known:
        names = nearest_names(profile, ProfileStore(home.profiles).list())
        raise BadInput(f"no profile {profile!r} is known; {names} (an application that sets its own name has that one's)")
    if as_json:
        print_json(reply)
    else:
        print_plan(reply, profile)
    context.exit(InfeasibleDeadline.exit_code if reply.feasible is False else 0)


def print_plan(reply: PlanReply, profile: str | None) -> None:
    """For people, on stdout."""
    console = table_console()
    if not reply.known:
        named = f"profile {profile} is not known" if profile else "no profile is known"
        console.print(f"{named}: a first run takes what is free, and teaches", soft_wrap=True)
        return
    if reply.stages:
        timed = any(stage.deadline_s is not None for stage in reply.stages)
        table = figures_table("stage", "tasks", "work (core-s)", *(("deadline", "initial cores") if timed else ()))
        for stage in reply.stages:
            row = [stage.name, str(stage.tasks), f"{stage.work_core_s:.1f}"]
            if stage.deadline_s is not None and stage.initial_cores is not None:
                row += [format_duration(stage.deadline_s), f"{stage.initial_cores:.2f}"]
            table.add_row(*row)
        console.print(table)
    if reply.least_deadline_s is not None:
        console.print(f"least deadline: {format_duration(reply.least_deadline_s)}, with {reply.cluster_cores:g} cores")
    if reply.cores is not None:
        console.print(f"cores needed: {reply.cores:.2f}")
    if reply.reason:
        console.print(reply.reason, soft_wrap=True)
