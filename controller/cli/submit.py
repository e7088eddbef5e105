"""`sparkpace submit`: checks, plans, then runs spark-submit against the local cluster."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import click
from rich.console import Console

from controller.asks.submit_args import CLUSTER, SubmitArguments, split_arguments, with_our_scheme
from controller.cli.plan_answer import print_plan
from controller.cli.submit_completion import SubmitCommand, complete_submit
from controller.client import submit_client
from controller.home import Home, find_home
from controller.machine.proc import uptime
from controller.runtime.engines import find_java
from controller.submit.before_start import INTERRUPTED, ask_plan, plan_request, wait_for_predecessors
from controller.submit.cluster_mode import host_request, kill_text, run_hosted, status_text, waits_for_end
from controller.submit.driver_command import deploy_mode, driver_file, executor_settings
from controller.submit.driver_run import detach
from controller.submit.running import run_driver
from controller.submit.spark_install import find_spark
from controller.submit.submission import check_own_master, check_submission
from stage_model.errors import BadInput, InfeasibleDeadline, Unavailable

CALLED_MS, CALLED_UPTIME = int(time.time() * 1000), uptime()
"""Start of the application's clock: the call of this command, before its checks and the driver's start-up. The wall clock
may be set before the driver runs; the machine's uptime shows how long that was all the same."""


@click.command(
    cls=SubmitCommand,
    help="Run a Spark application with a deadline.\n\nIt takes spark-submit's options, and these:",
    options_metavar="[OPTIONS]",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
    epilog="Example: sparkpace submit --deadline 90s --priority high app.py input.csv",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="APP [ARGS]...", shell_complete=complete_submit)
@click.pass_context
def submit(context: click.Context, arguments: tuple[str, ...]) -> None:
    if not arguments or arguments[0] in ("-h", "--help"):
        click.echo(context.get_help())
        context.exit(0 if arguments else 2)
    given = split_arguments(arguments)
    if given.application is None and "--version" in given.spark:
        raise BadInput("--version belongs to spark-submit; run `spark-submit --version` or `sparkpace --version`")
    if given.own.get("home") == "":  # an empty path would be the working directory
        raise BadInput("--home is empty; give a directory or leave it out")
    home = find_home(Path(given.own["home"]) if "home" in given.own else None, os.environ)
    with suppress(Unavailable):  # without a master, no URL is its own
        arguments = tuple(with_our_scheme(arguments, home.need_cluster().spark_master))
        given = split_arguments(arguments)
    if _asked_of_driver(given, home):
        return
    job = check_submission(
        given,
        submission=given.own.get("submission"),
        submitted_ms=_submitted_ms(given.own.get("submitted-ms")),
        submitted_uptime=given.own.get("submitted-uptime", CALLED_UPTIME),
        working_dir=Path.cwd(),
    )
    spark = find_spark(os.environ)
    mode = deploy_mode(job, spark=spark, environment=os.environ)
    settings = driver_file(job, spark=spark, environment=os.environ)
    java = None if "dry-run" in given.flags else find_java(os.environ)
    check_own_master(given, home.need_cluster())
    client = submit_client(home)
    # with a name, a refusal counts as the end of this submission
    submits = None if java is None or job.asked.unjudged else (job.name or job.main)
    request = plan_request(job, home, executor_settings(job, spark=spark, environment=os.environ), submits)
    reply = ask_plan(client, request, job, home)
    if java is None:
        print_plan(reply, as_json=given.own.get("output") == "json")
        context.exit(InfeasibleDeadline.exit_code if reply.feasible is False else 0)
    if reply.feasible is False and job.due_s is not None and not job.asked.unjudged:
        raise InfeasibleDeadline(f"{reply.reason}, or --force")
    console = Console(stderr=True, highlight=False)
    if mode == CLUSTER and job.master is None:
        asked = host_request(job, arguments, home, os.environ, Path.cwd())
        context.exit(run_hosted(asked, home, console, click.echo, waits=waits_for_end(job, settings)))
    if "detach" in given.flags:
        context.exit(detach(job, arguments, home, client, click.echo))
    try:
        job = wait_for_predecessors(job, request, home, console)
    except KeyboardInterrupt:
        context.exit(INTERRUPTED)
    context.exit(run_driver(job, home, spark, settings, java.home, console))


def _asked_of_driver(given: SubmitArguments, home: Home) -> bool:
    """Print what `--status` or `--kill` asks of a hosted driver; return False where neither is given. Raise `BadInput` for an
    unknown driver."""
    asked = [name for name in ("--status", "--kill") if name in given.spark_options]
    if not asked:
        return False
    if len(asked) > 1 or given.application is not None:
        raise BadInput(f"{asked[0]} takes only the id of a driver; leave {given.application or asked[-1]!r} out")
    check_own_master(given, home.need_cluster())
    client, driver_id = submit_client(home), given.spark_options[asked[0]]
    if asked[0] == "--status":
        click.echo(status_text(client.hosted_driver(driver_id)))
    else:
        click.echo(kill_text(client.kill_driver(driver_id)))
    return True


def _submitted_ms(given: str | None) -> int:
    if given is None:
        return CALLED_MS
    if not given.isdigit():
        raise BadInput(f"--submitted-ms {given!r} is not usable; it must be epoch milliseconds")
    return int(given)
