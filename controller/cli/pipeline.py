"""`sparkpace pipeline run`: the jobs of a file in order, with one end together."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import click
import msgspec

from controller.cli.common import NamedPath, home_option, output_option, print_json, table_console
from controller.cli.submit import CALLED_MS, CALLED_UPTIME, plan_submission
from controller.cli.tables import figures_table
from controller.client import MasterClient, submit_client
from controller.home import Home
from controller.local.cluster import tail
from controller.local_zone import local_zone
from controller.master.feasibility import rounded_up
from controller.start import ours
from controller.submit.job_options import PREFIX
from controller.submit.parent_death import end_with_parent
from controller.submit.pipeline_file import PipelineFile, read_pipeline
from controller.submit.pipeline_options import LaterJob, PipelinePlan
from controller.submit.pipeline_run import PipelineRun
from controller.submit.spark_install import SparkInstall, find_spark
from controller.submit.submission import check_submission, driver_file, executor_settings
from controller.submit.submit_args import split_arguments
from controller.wire.command import PlanReply, PlanRequest
from stage_model.errors import BadInput, InfeasibleDeadline, OtherVersion, PaceError
from stage_model.forecast.pipeline import PipelineJob, TimeSplit, split_time
from stage_model.units import format_duration, parse_deadline

LEAST_S = 1.0
"""What a job is told is left when the end has passed: its deadline is then what all cores would keep."""
NOT_IN_A_FILE = frozenset(("detach", "dry-run"))
"""Options of `submit` that would hide a job's end."""
OF_THE_WHOLE = {
    **dict.fromkeys(("by", "deadline", "pipeline.by"), "`by` for the whole"),
    **dict.fromkeys(("pipeline", "pipeline-plan", "pipeline.plan"), "`name` for the whole"),
    "after": "`after` of the job",
    "submission": "further options of submit",
}
"""Options of `submit` and settings that would contradict the file, and what is said instead."""

Planned = dict[str, tuple[PlanReply, str]]
"""By job: what the master says of it, and its profile's name or file."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds: `deadline_s` after the start of the whole, `alone_s` with all cores. `known`: it has a profile."""

    job: str
    after: tuple[str, ...]
    known: bool
    deadline_s: float | None = None
    alone_s: float | None = None


class PipelinePlanned(msgspec.Struct, frozen=True, kw_only=True):
    """Of `pipeline run --dry-run`. The jobs with a profile take `least_s` with all `cluster_cores`; `feasible` None: nobody
    knows whether the end in `by_s` can be met."""

    pipeline: str
    cluster_cores: float
    by_s: float | None
    least_s: float | None = None
    feasible: bool | None = None
    jobs: tuple[JobRow, ...]


@click.group("pipeline")
def pipeline_commands() -> None:
    """Runs jobs that have one end together."""


@pipeline_commands.command("run")
@home_option
@click.argument("file", type=NamedPath())
@click.option("--by", help="The end of the whole instead of the file's: 07:00, 'weekdays 07:00 Europe/Berlin', 90min.")
@click.option("--dry-run", is_flag=True, help="Plan only.")
@click.option("--force", is_flag=True, help="Start although the end cannot be met.")
@output_option
@click.pass_context
def run_file(
    context: click.Context, home: Home, file: Path, by: str | None, dry_run: bool, force: bool, as_json: bool
) -> None:
    """Runs the jobs of FILE, each when those that it comes after have succeeded, in FILE's directory.

    Whether the whole can end in time is answered before the first one starts (exit code 75). A job that fails ends it (1)."""
    begun_s = time.monotonic()
    if as_json and not dry_run:
        raise BadInput("--output json is of --dry-run, which alone shows data; accepted: both, or neither")
    file = file.absolute()
    found = read_pipeline(file)
    said = found.by if by is None else by
    by_s = None if said is None else parse_deadline(said, datetime.now(local_zone(os.environ)), option="--by" if by else "by")
    home = Home(home.path.absolute())
    try:
        os.chdir(file.parent)
    except OSError as error:
        raise BadInput(f"{file.parent} cannot be entered ({error.strerror}); accepted: a directory of yours") from error
    client = submit_client(home)
    planned = _ask(found, home, client, find_spark(os.environ), by_s)
    _check_end(found, planned, by_s, client, force=force, as_json=as_json)
    if dry_run:
        return
    _run(context, found, planned, home, None if by_s is None else begun_s + by_s, force=force)


def _ask(found: PipelineFile, home: Home, client: MasterClient, spark: SparkInstall, by_s: float | None) -> Planned:
    """Raises `BadInput` for a job that could not be submitted."""
    planned: Planned = {}
    end = [] if by_s is None else ["--by", f"{max(LEAST_S, by_s):.3f}s"]  # as it will be: nothing may speak against it then
    for name, job in found.jobs.items():
        try:
            its = split_arguments(job.words(home.path))
            if wrong := sorted(NOT_IN_A_FILE & its.flags):
                raise BadInput(f"--{wrong[0]} hides when a job ends; accepted: further options of submit")
            settings = {key: key.removeprefix(PREFIX) for key in its.conf if key.startswith(PREFIX)}
            for said, option in ({f"--{option}": option for option in its.own} | settings).items():
                if option in OF_THE_WHOLE:
                    raise BadInput(f"{said} is not a job's own here; accepted: {OF_THE_WHOLE[option]}")
            given = split_arguments(job.words(home.path, "--pipeline", found.name, *end))
            submission = check_submission(
                given,
                submission=str(uuid.uuid4()),
                submitted_ms=CALLED_MS,
                submitted_uptime=CALLED_UPTIME,
                working_dir=Path.cwd(),
            )
            driver_file(submission, spark=spark, environment=os.environ)
        except BadInput as error:
            raise BadInput(f"job {name!r}: {error}") from error
        conf = executor_settings(submission, spark=spark, environment=os.environ)
        reply, label = plan_submission(submission, home, client, conf)
        if reply.known and reply.forecast is None and reply.cluster_cores:
            raise OtherVersion("the master knows no pipelines, as it is of an earlier release; accepted: one of this")
        planned[name] = (reply, label or "")
    return planned


def _check_end(
    found: PipelineFile, planned: Planned, by_s: float | None, client: MasterClient, *, force: bool, as_json: bool
) -> None:
    """Shows the plan. Raises `InfeasibleDeadline`."""
    unknown = [name for name, (reply, _) in planned.items() if not reply.known]
    cores = max(client.plan(PlanRequest(attached=attached)).cluster_cores for attached in (False, True))
    jobs = [PipelineJob(name, planned[name][0].forecast, job.after) for name, job in found.jobs.items()]
    split = split_time(jobs, by_s, cores) if cores and by_s is not None else None
    rows = tuple(_rows(found, planned, split, cores))
    plan = PipelinePlanned(pipeline=found.name, cluster_cores=cores, by_s=by_s, jobs=rows)
    if split is not None and len(unknown) < len(jobs):
        plan = msgspec.structs.replace(plan, least_s=split.least_s, feasible=split.feasible)
    if as_json:
        print_json(plan)
    else:
        _show(rows)
        for sentence in _sentences(plan, force=force):
            click.echo(sentence)
    if split is not None and plan.feasible is False and not force:
        raise InfeasibleDeadline(
            f"the end of pipeline {found.name} {_verdict(plan)}; accepted: {rounded_up(split.least_s)} or more, or --force"
        )


def _rows(found: PipelineFile, planned: Planned, split: TimeSplit | None, cores: float) -> Iterator[JobRow]:
    due_s = {} if split is None else split.due_s
    for name, job in found.jobs.items():
        reply = planned[name][0]
        alone_s = reply.forecast.time_s(cores) if reply.forecast is not None and cores else None
        yield JobRow(job=name, after=job.after, known=reply.known, deadline_s=due_s.get(name), alone_s=alone_s)


def _show(rows: Sequence[JobRow]) -> None:
    table = figures_table("JOB", "DEADLINE", "ALONE", "AFTER")
    for row in rows:
        shown = ("-" if seconds is None else format_duration(seconds) for seconds in (row.deadline_s, row.alone_s))
        table.add_row(row.job, *shown, ", ".join(row.after) or "-")
    table_console().print(table)


def _sentences(plan: PipelinePlanned, *, force: bool) -> Iterator[str]:
    """What is said below the table."""
    if unknown := [row.job for row in plan.jobs if not row.known]:
        yield f"no profile is known of {', '.join(unknown)}: they take what is free, and the plan is of the others alone"
    if plan.by_s is None:
        return
    if plan.feasible is None:
        why = "no job has run before" if plan.cluster_cores else "no worker is there yet"
        yield f"{why}, so nobody knows whether the end can be met"
    elif plan.feasible:
        yield f"the end {_verdict(plan)}"
    elif force:
        yield f"the end {_verdict(plan)}; the pipeline goes on by --force"


def _verdict(plan: PipelinePlanned) -> str:
    assert plan.by_s is not None
    assert plan.least_s is not None
    known = "it takes" if all(row.known for row in plan.jobs) else "the jobs with a profile take"
    can = "can" if plan.feasible else "cannot"
    return (
        f"in {format_duration(plan.by_s)} {can} be met: with all {plan.cluster_cores:.2f} cores {known} "
        f"{format_duration(plan.least_s)}"
    )


def _run(
    context: click.Context, found: PipelineFile, planned: Planned, home: Home, end_s: float | None, *, force: bool
) -> None:
    run_id, places = str(uuid.uuid4()), {name: place for place, name in enumerate(found.jobs, 1)}
    logs: dict[str, Path] = {}

    def say(text: str) -> None:
        click.echo(f"sparkpace: pipeline {found.name}: {text}", err=True)

    def start(name: str, waiting: Sequence[str]) -> subprocess.Popen[bytes]:
        later = tuple(LaterJob(name=one, after=found.jobs[one].after, profile=planned[one][1]) for one in waiting)
        plan = PipelinePlan(run=run_id, job=name, place=places[name], of=len(places), later=later)
        submission = str(uuid.uuid4())
        more = ["--pipeline", found.name, "--pipeline-plan", msgspec.json.encode(plan).decode(), "--submission", submission]
        if end_s is not None:
            more += ["--by", f"{max(LEAST_S, end_s - time.monotonic()):.3f}s"]
        if force or found.jobs[name].after:  # what has begun goes on, late or not
            more.append("--force")
        logs[name] = log = home.logs / f"driver-{submission}.log"
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "ab") as out:
            child = subprocess.Popen(
                ours("controller.cli.main", "submit", *found.jobs[name].words(home.path, *more)),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509 - this process has no other threads
            )
        say(f"{name} starts ({places[name]}/{len(places)}), log {log}")
        return child

    run = PipelineRun(found.jobs, start, say)
    if run.run():
        late_s = 0.0 if end_s is None else time.monotonic() - end_s
        side = "" if end_s is None else f", {format_duration(abs(late_s))} {'late' if late_s > 0 else 'early'}"
        say(f"all {len(places)} jobs have ended{side}")
        return
    rest = "".join(
        f"; {what}: {', '.join(names)}" for what, names in (("ended", run.stopped), ("not started", run.waiting)) if names
    )
    if run.failed is None:
        say(f"it was interrupted{rest}")
        context.exit(128 + (run.signalled or 0))
    name, code = run.failed
    last = tail(logs[name]).strip().splitlines()[-1:]
    raise PaceError(
        f"pipeline {found.name} has ended, as its job {name} ended with exit code {code}"
        f"{f' ({last[0][:300]})' if last else ''}{rest}; its log is {logs[name]}"
    )
