"""The two ways to run a checked submission: here, to the end of its driver, and in the background."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from controller.client import MasterClient, submit_client
from controller.home import Home
from controller.machine.log_files import tail
from controller.start import ours
from controller.submit.authentication import in_memory, path_of
from controller.submit.bridge_jar import bridge_jar
from controller.submit.driver_archive import archive_options
from controller.submit.driver_command import command, driver_variables
from controller.submit.driver_run import DriverRun, find
from controller.submit.progress_line import UNPACED, ProgressLine, ending, note
from controller.submit.services import address_variables, service_files
from controller.submit.spark_install import SparkInstall, go_on_as
from controller.submit.submission import Submission
from controller.wire.command import ApplicationView
from stage_model.errors import PaceError

REGISTER_S = 120.0
"""Longest wait of `--detach` for the application to register; a loaded machine took 47 s to the first task."""


def run_driver(
    job: Submission, home: Home, spark: SparkInstall, settings: Mapping[str, str], java_home: Path, console: Console
) -> int:
    """Run the driver, which reads `settings`; return the command's exit code. With `--exec`, this process becomes the
    driver."""
    cluster = home.need_cluster()  # the one before the wait may be another by now
    variables = {**os.environ, **spark.environment}
    if job.master is None:
        variables |= driver_variables(cluster, os.environ) | archive_options(os.environ, java_home, spark, bridge_jar())
    after = job.asked.placement.after
    variables |= address_variables(after, job.services)
    with in_memory(settings) as file:
        words = command(job, home=home, cluster=cluster, spark=spark, environment=os.environ, file=path_of(file))
        if "exec" in job.arguments.flags:
            go_on_as(words, variables, passed=(file,))
        line = ProgressLine(console)
        client = submit_client(home)
        run = DriverRun(client, job.submission)
        with service_files(after) as services:
            services.write(job.services)

            def show(view: ApplicationView | None) -> None:
                line.show(view)
                if services.variables:
                    with suppress(PaceError):  # while the master is away, services stay where they were
                        services.write(client.services(job.after))

            try:
                code = run.run(words, variables | services.variables, show, passed=(file,))
            finally:
                line.clear()
    if run.view is not None:
        note(console, ending(run.view, interrupted=run.interrupted))
    elif run.unknown and code == 0:
        note(console, UNPACED)
    return code


def detach(job: Submission, arguments: Sequence[str], home: Home, client: MasterClient, say: Callable[..., None]) -> int:
    """Start the same command in the background; return 0 once its application is registered, else its exit code. `say` prints
    a line, with `err=True` on stderr."""
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
    say(f"submission {job.submission}\nlog {log}")
    until = time.monotonic() + REGISTER_S
    while time.monotonic() < until:
        if (code := child.poll()) is not None:
            if find(client, job.submission) is None:
                say(f"sparkpace: the driver ended with exit code {code}; its log ends:\n{tail(log)}", err=True)
                return code or 1
            return code
        view = find(client, job.submission)
        if view is not None:
            say(f"application {view.application_id}")
            return 0
        if job.after and (waiting := [listed for listed in client.applications() if listed.application_id == job.submission]):
            say(f"the driver starts later: {waiting[0].reason}")
            return 0
        time.sleep(0.25)
    say(f"sparkpace: the application has not registered after {REGISTER_S:g} s; the driver goes on", err=True)
    return 0
