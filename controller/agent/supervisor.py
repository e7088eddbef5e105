"""The process that keeps an agent alive: starts a child, restarts it with back-off, opens the quotas when no child ticks.

Fail open: when no child has ticked for 30 s, however many were started meanwhile, every executor gets the worker's capacity,
tried again until it works. A child that hangs for that long is killed. At a stop the child opens the quotas; if it cannot, or
there is no child, they are opened here. If supervisor and child are both killed, quotas stay until the restart. The
supervisor imports as little as possible, because it lives as long as the agent.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from controller.asks.options import AgentOptions
from controller.machine.back_off import BackOff
from controller.machine.log_files import keep_small
from controller.machine.watchdog import Watchdog
from controller.start import ours

SILENCE_S = 30.0
"""Time without a tick after which a child counts as stuck."""
BACK_OFF = BackOff(first_s=0.5, most_s=30.0)
STEADY_S = 60.0
"""Life of a child after which the back-off starts from the beginning."""
CLEAN_STOP_S = 10.0
OPENING_S = 15.0
"""Time after which opening the quotas is given up, and tried again: a hang must not take the supervisor with it."""
LOOK_S = 1.0
STDERR = 2
LEFT_CODE = 79
"""Exit code of a child that the master has ended: no other child follows."""
CHILD = ours("controller.agent.child")
OPENER = ours("controller.agent.open_quotas")


class Supervisor:
    """One worker's supervisor; `run` returns the exit code after SIGTERM or SIGINT. `child` and `opener` are the argvs of the
    programs that it starts, which read the options as JSON; `beat` tells a service manager that the supervisor lives."""

    def __init__(
        self,
        options: AgentOptions,
        *,
        child: Sequence[str] = CHILD,
        opener: Sequence[str] = OPENER,
        silence_s: float = SILENCE_S,
        opening_s: float = OPENING_S,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._options = options.to_json()
        self._logs = options.home / "logs"
        self._argv, self._opener, self._silence_s, self._opening_s = child, opener, silence_s, opening_s
        self._beat = beat
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._opened = False
        self._ticked_s = time.monotonic()
        """Time when a child last ticked; at first, when this supervisor began."""

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        failures = 0
        code: int | None = None
        while not self._stopping.is_set():
            started_s = time.monotonic()
            code = self._run_child()
            keep_small(self._logs)
            if self._stopping.is_set():
                break
            if code == LEFT_CODE:
                _say("the master has ended this worker")
                return 0
            if time.monotonic() - started_s > STEADY_S:
                failures = 0
            failures += 1
            ended = "could not be started" if code is None else f"ended with code {code}"
            _say(f"the agent's child {ended}; restarting in {BACK_OFF.wait_s(failures):g} s")
            self._wait(BACK_OFF.wait_s(failures))
            code = None
        if code != 0:
            _say("stopped without a child that opened the quotas; they are opened now")
            self._open_quotas()
        return 0

    def _run_child(self) -> int | None:
        """Run one child to its end; return its exit code, 0 for an ordered end; None if it could not be started."""
        try:
            self._child = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except OSError as error:
            _say(f"no process for the agent's child: {error}")
            return None
        if self._stopping.is_set():
            # the signal came before there was a child to pass it to
            self._child.terminate()
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(OSError), self._child.stdin as stdin:  # it died at once
            stdin.write(self._options)
        heard_s, pipe = time.monotonic(), self._child.stdout.fileno()
        while True:
            self._beat()
            ready, _, _ = select.select([pipe], [], [], min(LOOK_S, self._silence_s))
            if ready:
                if not os.read(pipe, 4096):
                    break
                heard_s = self._ticked_s = time.monotonic()
                self._opened = False
            elif time.monotonic() - heard_s > self._silence_s:
                _say(f"no tick for {self._silence_s:g} s: the child is killed")
                self._child.kill()
                self._open_if_silent()
                break
            else:
                self._open_if_silent()
        try:
            return self._child.wait(CLEAN_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()
        finally:
            self._child.stdout.close()

    def _wait(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while (left_s := until_s - time.monotonic()) > 0 and not self._stopping.wait(min(LOOK_S, left_s)):
            self._beat()
            self._open_if_silent()

    def _open_if_silent(self) -> None:
        """Open the quotas once per silence, but try again until it works."""
        if not self._opened and time.monotonic() - self._ticked_s > self._silence_s:
            _say(f"no child has ticked for {self._silence_s:g} s: all quotas are opened")
            self._open_quotas()

    def _open_quotas(self) -> None:
        """Open the quotas in a process of its own: the supervisor stays free of the runtimes' libraries."""
        try:
            done = subprocess.run(self._opener, input=self._options, timeout=self._opening_s, check=False)
            self._opened = done.returncode == 0
        except subprocess.TimeoutExpired:
            _say(f"the quotas could not be opened within {self._opening_s:g} s; tried again while no child ticks")
        except OSError as error:
            _say(f"the quotas could not be opened (no process for it: {error}); tried again while no child ticks")

    def _stop(self, *_: object) -> None:
        self._stopping.set()
        if self._child and self._child.poll() is None:
            self._child.terminate()


def _say(text: str) -> None:
    # a log on a full disk ends no process; what stayed in a buffer would change its exit code
    with contextlib.suppress(OSError):
        os.write(STDERR, f"{time.strftime('%Y-%m-%d %H:%M:%S')} supervisor: {text}\n".encode(errors="replace"))


def main() -> None:
    """Run with the options as JSON in SPARKPACE_AGENT: `sparkpace agent` becomes this by exec, so that the command line's
    libraries do not stay in memory."""
    options, beat = AgentOptions.from_json(os.environ.pop("SPARKPACE_AGENT")), Watchdog(os.environ).beat
    sys.exit(Supervisor(options, beat=beat).run())


def become(options: AgentOptions) -> None:
    """Replace this process by a bare supervisor with the same options."""
    os.environ["SPARKPACE_AGENT"] = options.to_json().decode()
    os.execv(sys.executable, ours("controller.agent.supervisor"))  # noqa: S606 - ourselves, no shell


if __name__ == "__main__":
    main()
