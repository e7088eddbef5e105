"""A checked submission that runs here, to the end of its driver."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from controller.client import submit_client
from controller.home import Home
from controller.submit.authentication import in_memory, path_of
from controller.submit.bridge_jar import bridge_jar
from controller.submit.driver_archive import archive_options
from controller.submit.driver_command import command, driver_variables
from controller.submit.driver_run import DriverRun
from controller.submit.progress_line import UNPACED, ProgressLine, ending, note
from controller.submit.services import address_variables, service_files
from controller.submit.spark_install import SparkInstall, go_on_as
from controller.submit.submission import Submission
from controller.wire.command import ApplicationView
from stage_model.errors import PaceError


def run_driver(
    job: Submission, home: Home, spark: SparkInstall, settings: Mapping[str, str], java_home: Path, console: Console
) -> int:
    """Run the driver, which reads `settings`; return the command's exit code. With `--exec`, this process becomes the
    driver."""
    cluster = home.need_cluster()  # this may be another cluster than before the wait
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
