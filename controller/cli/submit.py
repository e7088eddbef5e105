"""`sparkpace submit`: checks, plans, then runs spark-submit against the local cluster."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import click
import msgspec
from rich.console import Console

from controller.asks.properties import format_properties
from controller.asks.submit_args import split_arguments
from controller.cli.common import print_json
from controller.cli.plan_answer import print_plan
from controller.cli.submit_completion import SubmitCommand, complete_submit
from controller.client import MasterClient, submit_client
from controller.home import Home, find_home
from controller.local.cluster import tail
from controller.machine.proc import uptime
from controller.runs.profile_store import ProfileStore
from controller.runtime.engines import find_java
from controller.start import ours
from controller.submit.authentication import in_memory, path_of
from controller.submit.bridge_jar import bridge_jar
from controller.submit.driver_archive import archive_options
from controller.submit.driver_run import DriverRun, find
from controller.submit.in_place import go_on_as
from controller.submit.profile_choice import stored_profile
from controller.submit.progress_line import UNPACED, ProgressLine, ending
from controller.submit.spark_install import find_spark
from controller.submit.start_wait import begin_after, wait_for_start
from controller.submit.submission import (
    Submission,
    check_own_master,
    check_submission,
    command,
    driver_file,
    driver_variables,
    executor_settings,
)
from controller.wire.command import PlanReply, PlanRequest
from stage_model.errors import BadInput, InfeasibleDeadline, PaceError
from stage_model.history.like_named import like_named
from stage_model.history.profile import profile_key

CALLED_MS, CALLED_UPTIME = int(time.time() * 1000), uptime()
"""Start of the application's clock: the call of this command, so before its checks and the driver's start-up. The wall clock
may be set before the driver runs; the machine's uptime shows how long that was all the same."""
REGISTER_S = 120.0
"""Longest wait of `--detach` for the application to register; a loaded machine took 47 s to the first task."""

INTERRUPTED = 130
"""Exit code that a shell gives after Ctrl-C."""


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
    if given.own.get("home") == "":  # it would be the working directory
        raise BadInput("--home is empty; give a directory or leave it out")
    home = find_home(Path(given.own["home"]) if "home" in given.own else None, os.environ)
    job = check_submission(
        given,
        submission=given.own.get("submission", str(uuid.uuid4())),
        submitted_ms=_submitted_ms(given.own.get("submitted-ms")),
        submitted_uptime=given.own.get("submitted-uptime", CALLED_UPTIME),
        working_dir=Path.cwd(),
    )
    spark = find_spark(os.environ)
    settings = driver_file(job, spark=spark, environment=os.environ)
    java = None if "dry-run" in given.flags else find_java(os.environ)
    cluster = home.need_cluster()
    check_own_master(given, cluster)
    client = submit_client(home)
    # then a refusal is the end of this submission
    submits = None if java is None or job.asked.force else (job.name or job.main)
    conf = executor_settings(job, spark=spark, environment=os.environ)
    asked = plan_request(job, home, conf, submits)
    reply = _plan(asked, job, home, client)
    if java is None:
        if given.own.get("output") == "json":
            print_json(reply)
        else:
            print_plan(reply)
        context.exit(InfeasibleDeadline.exit_code if reply.feasible is False else 0)
    if reply.feasible is False and job.due_s is not None and not job.asked.force:
        raise InfeasibleDeadline(f"{reply.reason}, or --force")
    if "detach" in given.flags:
        context.exit(_detach(job, arguments, home, client))
    console = Console(stderr=True, highlight=False)
    job = _waited(job, asked, home, console)
    cluster = home.need_cluster()  # the one before may be another by now
    variables = {**os.environ, **spark.environment}
    if job.master is None:
        variables |= driver_variables(cluster, os.environ) | archive_options(os.environ, java.home, spark, bridge_jar())
    with in_memory(format_properties(settings)) as file:
        words = command(job, home=home, cluster=cluster, spark=spark, environment=os.environ, file=path_of(file))
        if "exec" in given.flags:
            go_on_as(words, variables, passed=(file,))
        line = ProgressLine(console)
        run = DriverRun(submit_client(home), job.submission)
        try:
            code = run.run(words, variables, line.show, passed=(file,))
        finally:
            line.clear()
    if run.view is not None:
        _note(console, ending(run.view, interrupted=run.interrupted))
    elif run.unknown and code == 0:
        _note(console, UNPACED)
    context.exit(code)


def _waited(job: Submission, asked: PlanRequest, home: Home, console: Console) -> Submission:
    """Return the submission once all that it comes after has ended. Raise `PaceError` if its driver never starts."""
    if not job.after:
        return job
    try:
        connect, say = partial(submit_client, home), partial(_note, console)
        waited_s = wait_for_start(connect, job.submission, job.name or job.main, asked, say)
    except KeyboardInterrupt:
        with suppress(PaceError):
            submit_client(home).driver_ended(job.submission, INTERRUPTED)
        raise click.exceptions.Exit(INTERRUPTED) from None
    return begin_after(job, waited_s, int(time.time() * 1000), uptime())


def _note(console: Console, text: str) -> None:
    console.print(f"sparkpace: {text}", soft_wrap=True, markup=False)


def plan_request(job: Submission, home: Home, conf: dict[str, str], submits: str | None) -> PlanRequest:
    """Return the request to the master before the driver starts; `submits` as in `PlanRequest`."""
    chosen, pipeline = job.profile, job.asked.pipeline
    if not chosen.given:
        chosen = stored_profile(ProfileStore(home.profiles), main=job.main, name=job.name)
    return PlanRequest(
        profile=chosen.name,
        profile_json=chosen.text,
        deadline_s=job.due_s,
        executors=job.executors,
        executor_cores=job.executor_cores,
        settings=job.asked.settings,
        law=job.given.get("law"),
        priority=job.asked.priority,
        conf=conf,
        python=job.application.endswith(".py"),
        attached=job.master is not None,
        pipeline=pipeline.name if pipeline and pipeline.by_s is not None else None,
        after=job.after,
        submits=submits,
        arguments=job.recorded_arguments,
        working_dir=str(Path.cwd()),
    )


def _plan(request: PlanRequest, job: Submission, home: Home, client: MasterClient) -> PlanReply:
    """Return the answer of the master, which is contacted for the first time."""
    reply = client.plan(request)
    if reply.known or request.profile or request.profile_json:
        return reply
    # its program names it, so the master was asked for none
    alike = like_named(profile_key(None, "", job.main), ProfileStore(home.profiles).list())
    return msgspec.structs.replace(reply, reason=reply.reason + alike)


def _detach(job: Submission, arguments: Sequence[str], home: Home, client: MasterClient) -> int:
    """Start the same command in the background; return 0 once its application is registered, else its exit code."""
    log = home.logs / f"driver-{job.submission}.log"
    words = list(arguments)
    at = words.index("--detach")
    submitted = ["--submitted-ms", str(job.submitted_ms), "--submitted-uptime", job.submitted_uptime]
    words[at : at + 1] = ["--submission", job.submission, *submitted]
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "ab") as out:
        child = subprocess.Popen(
            ours("controller.cli.main", "submit", *words),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    click.echo(f"submission {job.submission}\nlog {log}")
    until = time.monotonic() + REGISTER_S
    while time.monotonic() < until:
        if (code := child.poll()) is not None:
            if find(client, job.submission) is None:
                click.echo(f"sparkpace: the driver ended with exit code {code}; its log ends:\n{tail(log)}", err=True)
                return code or 1
            return code
        view = find(client, job.submission)
        if view is not None:
            click.echo(f"application {view.application_id}")
            return 0
        if job.after and (waiting := [one for one in client.applications() if one.application_id == job.submission]):
            click.echo(f"the driver starts later: {waiting[0].reason}")
            return 0
        time.sleep(0.25)
    click.echo(f"sparkpace: the application has not registered after {REGISTER_S:g} s; the driver goes on", err=True)
    return 0


def _submitted_ms(given: str | None) -> int:
    if given is None:
        return CALLED_MS
    if not given.isdigit():
        raise BadInput(f"--submitted-ms {given!r} is not usable; it must be epoch milliseconds")
    return int(given)
