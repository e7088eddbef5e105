"""`sparkpace submit --deploy-mode cluster`: the driver is handed to the master, a worker hosts it, and this process only
looks on, so that its end ends nothing. `--status` and `--kill` ask about such a driver later."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from controller.asks.submit_args import CLIENT, read_options
from controller.client import MasterClient, submit_client
from controller.home import MASTER_VARIABLE, Home
from controller.machine.files import local_path
from controller.machine.process import find_process
from controller.submit.before_start import INTERRUPTED
from controller.submit.driver_run import LOOK_S, NO_SUCCESS, find
from controller.submit.progress_line import ProgressLine, ending, note
from controller.submit.submission import NO_FILE, Submission
from controller.wire.command import ApplicationView
from controller.wire.hosting import FINAL, DriverState, HostedView, HostRequest
from stage_model.errors import BadInput, PaceError, Unavailable

OF_SUBMITTER = frozenset(
    {"--deploy-mode", "--detach", "--exec", "--home", "--submission", "--submitted-ms", "--submitted-uptime", "--supervise"}
)
"""Options that the driver's own `sparkpace submit` does not get as they were given."""
ENVIRONMENT = frozenset(
    {
        "HADOOP_CONF_DIR", "HOME", "JAVA_HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "PYSPARK_DRIVER_PYTHON",
        "PYSPARK_PYTHON", "PYTHONHASHSEED", "PYTHONPATH", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_LOCAL_IP",
        "SPARK_PUBLIC_DNS", "TZ", "USER", "VIRTUAL_ENV", "XDG_CACHE_HOME", "YARN_CONF_DIR", MASTER_VARIABLE,
    }
)  # fmt: skip
"""Variables that a hosted driver gets from its submitter, with those that begin with LC_. Others may be secrets."""
WAITS = "spark.standalone.submit.waitAppCompletion"
"""Spark's setting of whether `submit` waits for a driver of its standalone manager."""
ACCEPT_S = 60.0
"""Longest wait for the worker to say that it has started the driver."""


def host_request(
    job: Submission, arguments: Sequence[str], home: Home, environment: Mapping[str, str], folder: Path
) -> HostRequest:
    """Return what the master is asked for: the same call of `sparkpace submit`, in client mode, on the worker that hosts the
    driver."""
    options, rest = read_options(arguments)
    kept = [word for option in options if option.name not in OF_SUBMITTER for word in option.words]
    process = find_process(os.getpid())
    assert process is not None
    return HostRequest(
        name=job.name or job.main,
        words=("--home", str(home.path), "--deploy-mode", CLIENT, *kept, *rest),
        environment={key: value for key, value in environment.items() if key in ENVIRONMENT or key.startswith("LC_")},
        working_dir=str(folder),
        needs=tuple(_needs(job, folder)),
        uid=os.getuid(),
        gid=os.getgid(),
        process=process,
        supervise="--supervise" in job.arguments.spark,
    )


def waits_for_end(job: Submission, file: Mapping[str, str]) -> bool:
    """Return True if `submit` stays until the driver has ended: unless --detach, or Spark's setting on the command line or in
    the `file` of settings, says otherwise."""
    said = {**file, **job.arguments.conf}.get(WAITS, "true")
    return "detach" not in job.arguments.flags and said.strip().lower() != "false"


def _needs(job: Submission, folder: Path) -> list[str]:
    """Return the files of the submission that must be at the same paths on the worker."""
    program = folder / local_path(job.application)
    named = job.arguments.spark_options.get("--properties-file")
    own = [] if job.application == NO_FILE or not program.is_file() else [str(program)]
    return own if named is None else [*own, str(folder / named)]


def run_hosted(asked: HostRequest, home: Home, console: Console, say: Callable[[str], None], *, waits: bool) -> int:
    """Hand a driver to the master and print its id; return the exit code: once the worker has started it, or if this process
    `waits`, once it has ended. Raise `BadInput` for a driver that cannot be hosted, or not started by its worker."""
    client = submit_client(home)
    driver_id = client.host_driver(asked).driver_id
    say(f"submission {driver_id}")
    try:
        view = _accepted(client, driver_id)
        if view.refused:
            raise BadInput(f"worker {view.worker_id} refused the driver: {view.reason}")
        if not waits:
            return 0
        return _follow(client, view, console)
    except KeyboardInterrupt:
        note(
            console,
            f"the driver goes on; `sparkpace submit --status {driver_id}` shows its state, `sparkpace submit --kill "
            f"{driver_id}` ends it",
        )
        return INTERRUPTED


def _accepted(client: MasterClient, driver_id: str) -> HostedView:
    """Return the driver once its worker has started it, or refused it, or has taken too long for one of these."""
    until = time.monotonic() + ACCEPT_S
    while (view := client.hosted_driver(driver_id)).state is DriverState.SUBMITTED and time.monotonic() < until:
        time.sleep(LOOK_S / 4)
    return view


def _follow(client: MasterClient, view: HostedView, console: Console) -> int:
    """Show the progress of a driver until it has ended; return the exit code. A master that is away changes nothing."""
    line, application, shown = ProgressLine(console), None, ""
    try:
        while view.state not in FINAL:
            application = _application_of(client, view)
            line.show(application)
            if view.reason and view.reason != shown:
                note(console, f"{view.driver_id}: {view.state}: {view.reason}")
            shown = view.reason
            time.sleep(LOOK_S)
            with suppress(Unavailable):
                view = client.hosted_driver(view.driver_id)
        application = _application_of(client, view) or application
    finally:
        line.clear()
    if application is not None:
        note(console, ending(application))
    note(console, f"{view.driver_id}: {view.state}" + (f": {view.reason}" if view.reason else ""))
    return exit_code_of(view)


def _application_of(client: MasterClient, view: HostedView) -> ApplicationView | None:
    with suppress(PaceError):
        return find(client, view.submission)
    return None


def exit_code_of(view: HostedView) -> int:
    """Return the exit code of a `submit` that waited for a driver, which has ended: 0 only if it finished."""
    if view.state is DriverState.FINISHED:
        return 0
    return view.exit_code or NO_SUCCESS if view.state is DriverState.FAILED else NO_SUCCESS


def status_text(view: HostedView) -> str:
    """Return the state of a driver as spark-submit prints it (SubmissionStatusResponse), which pollers read line by line."""
    said = {
        "action": "SubmissionStatusResponse",
        "driverState": str(view.state),
        "submissionId": view.driver_id,
        "success": True,
        "workerId": view.worker_id,
        "workerHost": view.host,
        "attempt": view.attempt,
        "exitCode": view.exit_code,
        "message": view.reason,
    }
    return _as_spark(said)


def kill_text(view: HostedView) -> str:
    """Return the answer to a kill as spark-submit prints it (KillSubmissionResponse)."""
    over = view.state in FINAL and view.state is not DriverState.KILLED
    message = f"{view.driver_id} has already ended: {view.state}" if over else f"{view.driver_id} is to end"
    return _as_spark(
        {"action": "KillSubmissionResponse", "message": message, "submissionId": view.driver_id, "success": not over}
    )


def _as_spark(said: Mapping[str, object]) -> str:
    there = {key: value for key, value in said.items() if value not in ("", None)}
    return json.dumps(there, indent=2, separators=(",", " : "))
