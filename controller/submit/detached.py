"""A submission in the background: the same command again, watched until its application is registered."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Sequence

from controller.client import MasterClient
from controller.home import Home
from controller.machine.log_files import tail
from controller.start import ours
from controller.submit.driver_run import find
from controller.submit.submission import Submission

REGISTER_S = 120.0
"""Longest wait of `--detach` for the application to register; a loaded machine took 47 s to the first task."""


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
