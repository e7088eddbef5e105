"""`sparkpace plan`: the end of an application with each number of cores, and the verdict on a deadline.

The plan is made from a profile, on the cluster, or from Spark event logs, without a cluster. Event logs of several
applications make a night; each of its jobs is planned.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from controller.cli.common import CountRange, NamedPath, home_option, is_given, output_option, picture_option, warn
from controller.cli.completion import complete_profiles, completes
from controller.cli.log_plan import LogPlan, plan_of_logs, print_log_plan
from controller.cli.night_plan import show_night
from controller.cli.plan_answer import curve_for, plan_of_profile, print_plan
from controller.home import Home
from controller.machine.local_zone import local_zone
from controller.runs.log_profile import LoggedRun, another_application, logged_run, slowed
from controller.runs.plot import plot_curve
from controller.wire.command import PlanReply, PlanRequest
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.laws import LAWS
from stage_model.units import is_time, parse_cores, parse_deadline, parse_priority

OF_A_CLUSTER = {"num_executors": "--num-executors", "executor_cores": "--executor-cores", "priority": "--priority"}


@click.command(epilog="Example: sparkpace plan orders.zstd stock.zstd --deadline 'by 07:00'")
@home_option
@click.argument("logs", metavar="[EVENTLOG]...", nargs=-1, type=NamedPath())
@click.option("--profile", shell_complete=completes(complete_profiles), help="Name of a stored profile, or a profile's file.")
@click.option("--deadline", help="Deadline to plan for: 90s, 10min, 1h30m, 'by 07:00', or an ISO time.")
@click.option(
    "--cores", help="Plan for this many cores (at most the cluster's) and show the earliest deadline that they can meet."
)
@click.option(
    "--curve", is_flag=True, help="Show when the application would end with fewer or more cores, and the spread of its runs."
)
@picture_option("File for a picture of the curve, or of the night")
@click.option(
    "--log-cores", help="Cores that the runs in EVENTLOG could use, if a quota left them fewer than their executors had."
)
@click.option("--num-executors", type=CountRange(1), help="Number of executors [default: one per worker].")
@click.option("--executor-cores", type=CountRange(1), help="Slots of each executor [default: all slots of a worker].")
@click.option(
    "--priority",
    default="normal",
    help="Priority of the application: backfill, low, normal, high, or 0 to 100; promises of lower priorities do not count.",
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
    cluster had, or for --cores. EVENTLOG are logs of any cluster: plain, zstd, gzip, zip or tar, each a file or a directory
    with one log. With --law paper, the deadline of each stage is shown, too.

    Logs of one application show the end with fewer cores, the fewest cores for the deadline or for the time that the last
    run took, the core-hours that these save, how sure that is, and what bounds the largest stages.

    Logs of several applications show when each of them ran, and the fewest cores with which each would have ended by the
    deadline, which is a time; without --deadline, it is the end of the last application.
    """
    _check(context, logs, profile, given)
    request, zone = _request(given), local_zone(os.environ)
    quota = None if given["log_cores"] is None else parse_cores(given["log_cores"], option="--log-cores")
    runs = [logged_run(log) for log in logs]
    if two := another_application(runs):
        feasible = show_night(runs, two, given, zone, as_json=as_json)
    else:
        now = datetime.now(zone)
        if (deadline := given["deadline"]) is not None:
            request = msgspec.structs.replace(request, deadline_s=parse_deadline(deadline, now, option="--deadline"))
        runs = runs if quota is None else [slowed(run, quota) for run in runs]
        reply = plan_of_logs(runs, request) if profile is None else plan_of_profile(profile, request, home)
        _show(reply, request, given["out"], runs, as_json=as_json)
        if not as_json and request.deadline_s is not None and is_time(deadline):
            due = datetime.fromtimestamp(now.timestamp() + request.deadline_s, zone)
            click.echo(f"the deadline is {due:%A, %Y-%m-%d %H:%M %Z}")
        feasible = reply.feasible is not False
    context.exit(0 if feasible else InfeasibleDeadline.exit_code)


def _check(context: click.Context, logs: tuple[Path, ...], profile: str | None, given: Mapping[str, Any]) -> None:
    """Raise `BadInput` for options that do not go together."""
    if bool(logs) == (profile is not None):
        what = "both --profile and event logs" if logs else "neither a profile nor an event log"
        raise BadInput(f"plan was given {what}; give --profile NAME, or EVENTLOG...")
    if given["out"] is not None and not given["curve"] and not logs:
        raise BadInput(f"-o {given['out']} is only for a curve; add --curve")
    if given["log_cores"] is not None and not logs:
        raise BadInput(f"--log-cores {given['log_cores']} is only for event logs; name an EVENTLOG")
    for name, option in OF_A_CLUSTER.items():
        if logs and is_given(context, name):
            raise BadInput(f"{option} is only for a cluster, and event logs are planned without one; give --profile")


def _request(given: Mapping[str, Any]) -> PlanRequest:
    """Return the request of these options, except for the deadline, which may be a time. Raise `BadInput`."""
    cores = given["cores"]
    return PlanRequest(
        most_cores=None if cores is None else parse_cores(cores, option="--cores"),
        curve=given["curve"],
        executors=given["num_executors"],
        executor_cores=given["executor_cores"],
        law=given["law"],
        priority=parse_priority(given["priority"]),
    )


def _show(reply: PlanReply, request: PlanRequest, out: Path | None, runs: Sequence[LoggedRun], *, as_json: bool) -> None:
    """Print the plan of a profile, or of these runs of event logs. Then draw the curve into `out`, if that is given: without
    matplotlib, the plan is an answer, too."""
    curve = None if out is None else curve_for(out, reply)
    if isinstance(reply, LogPlan) and not as_json:
        print_log_plan(reply, request)
    else:
        warn(sentence for run in runs for sentence in run.notes)
        print_plan(reply, as_json=as_json)
    if out is not None and curve is not None:
        plot_curve(curve, out, deadline_s=request.deadline_s, cores=reply.cores)
