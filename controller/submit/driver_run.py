"""Driver of one submission: run as a child, with its application watched until both have ended, or started in the background.

The driver's input, output and exit code pass through untouched. Signals are handed on; then the application is ended through
the master too, so that no container outlives a driver that ignores a signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

from controller.client import MasterClient
from controller.home import Home
from controller.machine.log_files import tail
from controller.start import ours
from controller.wire.command import ApplicationView
from controller.wire.states import Outcome
from stage_model.errors import OtherVersion, PaceError, Unavailable

if TYPE_CHECKING:  # `kill` imports this module and does not need submissions
    from controller.submit.submission import Submission

LOOK_S = 1.0
DRIVER_END_S = 10.0
"""Time from a handed-on signal until the driver is killed; Spark's own shutdown takes about a second."""
RECORD_S = 15.0
"""Longest wait for the run's record, and for the containers to go."""
TELL_S = 120.0
"""Longest time for which `submit` reports the driver's end again to a master that does not take it; a signal ends these
tries."""
REGISTER_S = 120.0
"""Longest wait of `--detach` for the application to register; a loaded machine took 47 s to the first task."""
NO_SUCCESS = 1
"""Exit code if the driver ended with 0, though its application was killed, or stopped by the master."""
FORWARDED = (signal.SIGINT, signal.SIGTERM)
PRCTL, PR_SET_PDEATHSIG = ctypes.CDLL(None).prctl, 1

Show = Callable[[ApplicationView | None], None]


class DriverRun:
    """A driver. `view` is the master's last answer about its application; None until it registered. `unknown` is true if the
    master's last answer was that it knows no application of this driver."""

    def __init__(self, client: MasterClient, submission: str) -> None:
        self.view: ApplicationView | None = None
        self.unknown = False
        self._client = client
        self._submission = submission
        self._signalled: int | None = None
        self._kill_at: float | None = None
        self._child: subprocess.Popen[bytes] | None = None

    def run(self, command: Sequence[str], environment: Mapping[str, str], show: Show, passed: Sequence[int] = ()) -> int:
        """Run the driver; return the command's exit code: the driver's own, or 128 + the signal that ended it; `NO_SUCCESS`
        instead of 0. `show` is called each second. The driver gets the descriptors `passed`.

        Raises `Unavailable` when spark-submit cannot be started.
        """
        with self._forwarding():
            try:
                self._child = subprocess.Popen(
                    command,
                    env=dict(environment),
                    pass_fds=passed,
                    # because a user who kills spark-submit ends the driver
                    preexec_fn=partial(end_with_parent, os.getpid()),  # noqa: PLW1509 - this process has no other threads
                )
            except OSError as error:
                raise Unavailable(f"{command[0]} cannot be started ({error.strerror}); install Spark again") from error
            # A signal may have come between the handlers' installation and the child's start.
            if self._signalled is not None:
                self._child.send_signal(self._signalled)
            code = self._watch(self._child, show)
            code = 128 - code if code < 0 else code
            if self._signalled is not None:
                code = 128 + self._signalled
                if not self._reported(code, RECORD_S):
                    self._end_application()
                self._await(lambda view: view.ended and view.executors == 0)
            else:
                taken = self._reported(code, TELL_S)
                self._await(lambda view: view.finished)
                if taken and not code and self.view is not None and self.view.outcome not in (None, Outcome.SUCCEEDED):
                    return NO_SUCCESS
            return code

    @property
    def interrupted(self) -> bool:
        """True if a signal ended the driver."""
        return self._signalled is not None

    def look(self) -> ApplicationView | None:
        """Ask the master once. A master that is away changes nothing: the application goes on without it."""
        with contextlib.suppress(PaceError):
            if self.view is None:
                self.view = find(self._client, self._submission)
                self.unknown = self.view is None
            else:
                self.view = self._client.application(self.view.application_id)
        return self.view

    def _watch(self, child: subprocess.Popen[bytes], show: Show) -> int:
        next_look = 0.0
        while True:
            try:
                return child.wait(timeout=LOOK_S / 4)
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if self._kill_at is not None and now > self._kill_at:
                child.kill()
            if now >= next_look and self._signalled is None:
                show(self.look())
                next_look = now + LOOK_S

    def _reported(self, code: int, most_s: float) -> bool:
        """Report the exit code to the master, again until it is taken. The master judges the driver's applications by it, and
        ends applications that have not ended. Return False if the master refused it, or did not take it within `most_s`.
        Where no master has shown an application of this driver, the code is reported only once."""
        until, signalled = time.monotonic() + most_s, self._signalled
        while True:
            try:
                self._client.driver_ended(self._submission, code)
                return True
            except OtherVersion:
                return False
            except Unavailable:
                self.look()
            except PaceError:
                return False
            if self.view is None or time.monotonic() > until or self._signalled != signalled:
                return False
            time.sleep(LOOK_S)

    def _await(self, done: Callable[[ApplicationView], bool]) -> None:
        until = time.monotonic() + RECORD_S
        while (view := self.look()) is not None and not done(view) and time.monotonic() < until:
            time.sleep(LOOK_S / 4)

    def _end_application(self) -> None:
        view = self.look()
        if view is None:
            return
        with contextlib.suppress(PaceError):
            if not view.ended:
                self._client.kill(view.application_id)

    @contextlib.contextmanager
    def _forwarding(self) -> Iterator[None]:
        def hand_on(number: int, _frame: FrameType | None) -> None:
            self._signalled = self._signalled or number
            self._kill_at = self._kill_at or time.monotonic() + DRIVER_END_S
            if self._child is not None and self._child.poll() is None:
                self._child.send_signal(number)

        before = {number: signal.signal(number, hand_on) for number in FORWARDED}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def end_with_parent(parent: int) -> None:
    """Have this process get a SIGTERM when its parent, process number `parent`, ends, also by SIGKILL. A child calls it
    before it becomes its program (`preexec_fn`)."""
    PRCTL(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))
    if os.getppid() != parent:  # it has ended already; the parent's signal handlers still hold here, so this one just ends
        os._exit(128 + signal.SIGTERM)


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
        code, view = child.poll(), find(client, job.submission)
        if code is not None:
            if view is None:
                say(f"sparkpace: the driver ended with exit code {code}; its log ends:\n{tail(log)}", err=True)
                return code or 1
            return code
        if view is not None:
            say(f"application {view.application_id}")
            return 0
        if job.after and (waiting := [listed for listed in client.applications() if listed.application_id == job.submission]):
            say(f"the driver starts later: {waiting[0].reason}")
            return 0
        time.sleep(0.25)
    say(f"sparkpace: the application has not registered after {REGISTER_S:g} s; the driver goes on", err=True)
    return 0


def find(client: MasterClient, submission: str) -> ApplicationView | None:
    """Return the application of a submission; None before it registered. One driver may make several: the newest counts. A
    submission that waits for others is listed by its own id."""
    found = [view for view in client.applications() if view.submission == submission != view.application_id]
    return found[-1] if found else None
