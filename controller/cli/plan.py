"""`sparkpace plan`: when does an application end with how many cores, and can a deadline be kept?

The plan is of a profile, on the cluster, or of Spark event logs, without a cluster.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from click.core import ParameterSource

from controller.cli.common import CountRange, NamedPath, home_option, output_option, print_json
from controller.cli.completion import complete_profiles, completes
from controller.cli.curves import draw_curve, picture_option
from controller.cli.plan_answer import print_plan
from controller.client import submit_client
from controller.home import Home
from controller.machine.local_zone import local_zone
from controller.master.core.feasibility import plan_without_cluster
from controller.runs.log_profile import logged_profile
from controller.runs.profile_store import ProfileStore
from controller.submit.profile_choice import read_profile
from controller.wire.command import PlanReply, PlanRequest
from stage_model.errors import BadInput, InfeasibleDeadline, Unavailable
from stage_model.laws import LAWS
from stage_model.nearest import nearest_names
from stage_model.units import is_time, parse_cores, parse_deadline, parse_priority

OF_A_CLUSTER = {"num_executors": "--num-executors", "executor_cores": "--executor-cores", "priority": "--priority"}


@click.command(epilog="Example: sparkpace plan --profile nightly --deadline 10min")
@home_option
@click.argument("logs", metavar="[EVENTLOG]...", nargs=-1, type=NamedPath())
@click.option("--profile", shell_complete=completes(complete_profiles), help="Name of a stored profile, or a profile's file.")
@click.option("--deadline", help="Deadline to plan for: 90s, 10min, 1h30m, 'by 07:00', or an ISO time.")
@click.option(
    "--cores",
    help="Plan for this many cores (at most the cluster's) and show the earliest deadline that they can meet.",
)
@click.option(
    "--curve", is_flag=True, help="Show when the application would end with fewer or more cores, and the spread of its runs."
)
@picture_option
@click.option(
    "--log-cores", help="Cores that the runs in EVENTLOG could use, if a quota left them fewer than their executors had."
)
@click.option("--num-executors", type=CountRange(1), help="Number of executors [default: one per worker].")
@click.option("--executor-cores", type=CountRange(1), help="Slots of each executor [default: all slots of a worker].")
@click.option(
    "--priority",
    default="normal",
    help="Priority of the application: low, normal, high, or 0 to 100; promises of lower priorities do not count.",
)
@click.option(
    "--law",
    type=click.Choice(list(LAWS)),
    help="Law whose cores are shown, and with `paper` its stage deadlines [default: the cluster's].",
)
@output_option
@click.pass_context
def plan(
    context: click.Context, /, home: Home, logs: tuple[Path, ...], profile: str | None, *, as_json: bool, **given: Any
) -> None:
    """Say whether a deadline can be met, and with how many cores.

    With --profile, the cluster answers. With EVENTLOG, no cluster is needed: the plan is for as many cores as the logged
    cluster had, or for --cores. EVENTLOG are logs of one application on any cluster: plain, zstd, gzip, zip or tar, each a
    file or a directory with one log. With --law paper, the deadline of each stage is shown, too.
    """
    _check(context, logs, profile, given)
    now = datetime.now(local_zone(os.environ))
    request = _request(given, now)
    reply = _of_logs(logs, request, given["log_cores"]) if profile is None else _of_profile(profile, request, home)
    if (out := given["out"]) is not None:
        if reply.curve is None:
            raise Unavailable(f"-o {out} cannot be drawn ({reply.reason}); start a worker")
        draw_curve(reply.curve, out, deadline_s=request.deadline_s, cores=reply.cores)
    if as_json:
        print_json(reply)
    else:
        print_plan(reply)
        if request.deadline_s is not None and is_time(given["deadline"]):
            due = datetime.fromtimestamp(now.timestamp() + request.deadline_s, now.tzinfo)
            click.echo(f"the deadline is {due:%A, %Y-%m-%d %H:%M %Z}")
    context.exit(InfeasibleDeadline.exit_code if reply.feasible is False else 0)


def _check(context: click.Context, logs: tuple[Path, ...], profile: str | None, given: Mapping[str, Any]) -> None:
    """Raise `BadInput` for options that do not go together."""
    if bool(logs) == (profile is not None):
        what = "both --profile and event logs" if logs else "neither a profile nor an event log"
        raise BadInput(f"plan was given {what}; give --profile NAME, or EVENTLOG...")
    if given["out"] is not None and not given["curve"]:
        raise BadInput(f"-o {given['out']} is only for a curve; add --curve")
    if given["log_cores"] is not None and not logs:
        raise BadInput(f"--log-cores {given['log_cores']} is only for event logs; name an EVENTLOG")
    for name, option in OF_A_CLUSTER.items():
        if logs and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise BadInput(f"{option} is only for a cluster, and event logs are planned without one; give --profile")


def _request(given: Mapping[str, Any], now: datetime) -> PlanRequest:
    """Return the request of these options. Raise `BadInput`."""
    deadline, cores = given["deadline"], given["cores"]
    return PlanRequest(
        deadline_s=None if deadline is None else parse_deadline(deadline, now, option="--deadline"),
        most_cores=None if cores is None else parse_cores(cores, option="--cores"),
        curve=given["curve"],
        executors=given["num_executors"],
        executor_cores=given["executor_cores"],
        law=given["law"],
        priority=parse_priority(given["priority"]),
    )


def _of_logs(logs: tuple[Path, ...], request: PlanRequest, log_cores: str | None) -> PlanReply:
    known, remarks = logged_profile(logs, None if log_cores is None else parse_cores(log_cores, option="--log-cores"))
    for sentence in remarks:
        click.echo(f"sparkpace: {sentence}", err=True)
    return plan_without_cluster(request, known)


def _of_profile(given: str, request: PlanRequest, home: Home) -> PlanReply:
    chosen = read_profile(given, Path.cwd())
    asked = msgspec.structs.replace(request, profile=chosen.name, profile_json=chosen.text)
    reply = submit_client(home).plan(asked)
    if not reply.known:
        names = nearest_names(given, ProfileStore(home.profiles).list())
        raise BadInput(f"no profile {given!r} is known; {names} (an application that sets its own name has that one's)")
    return reply
