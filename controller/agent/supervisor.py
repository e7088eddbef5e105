"""Keeps an agent alive: starts its child, restarts it with back-off, and opens the quotas when it stops ticking.

Fail open (architecture.md): a child that has not ticked for 30 s is killed and its executors get the worker's capacity; a
clean stop does the same in the child. If supervisor and child are both killed, quotas stay until the restart. Imports as
little as possible, for it lives as long as the agent.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from controller.options import AgentOptions

SILENCE_S = 30.0
"""Without a tick for so long a child counts as stuck."""
FIRST_BACKOFF_S, LAST_BACKOFF_S = 0.5, 30.0
STEADY_S = 60.0
"""A child that lived this long starts the back-off anew."""
CLEAN_STOP_S = 10.0
OPENING_S = 60.0
"""Opening the quotas is given up after so long: an engine that hangs must not take the supervisor with it."""
CHILD = (sys.executable, "-m", "controller.agent.child")
OPENER = (sys.executable, "-m", "controller.agent.open_quotas")


class Supervisor:
    """One worker's supervisor; `run` returns the exit code after SIGTERM or SIGINT. `child` and `opener` are the argvs of
    what it starts; they read the options as JSON."""

    def __init__(
        self,
        options: AgentOptions,
        *,
        child: Sequence[str] = CHILD,
        opener: Sequence[str] = OPENER,
        silence_s: float = SILENCE_S,
        opening_s: float = OPENING_S,
    ) -> None:
        self._options = options.to_json()
        self._argv, self._opener, self._silence_s, self._opening_s = child, opener, silence_s, opening_s
        self._stopping = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._opened = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        backoff_s = FIRST_BACKOFF_S
        while not self._stopping.is_set():
            started_s = time.monotonic()
            code = self._run_child()
            if self._stopping.is_set():
                break
            if time.monotonic() - started_s > STEADY_S:
                backoff_s = FIRST_BACKOFF_S
            _say(f"the agent's child ended with code {code}; restarting in {backoff_s:g} s")
            self._wait(backoff_s)
            backoff_s = min(LAST_BACKOFF_S, 2 * backoff_s)
        return 0

    def _run_child(self) -> int:
        self._child = subprocess.Popen(self._argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._stopping.is_set():
            # the signal came before there was a child to pass it to
            self._child.terminate()
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(self._options)
        self._child.stdin.close()
        last_tick_s, pipe = time.monotonic(), self._child.stdout.fileno()
        while True:
            ready, _, _ = select.select([pipe], [], [], min(5.0, self._silence_s))
            if ready:
                if not os.read(pipe, 4096):
                    break
                last_tick_s, self._opened = time.monotonic(), False
            elif time.monotonic() - last_tick_s > self._silence_s:
                _say(f"no tick for {self._silence_s:g} s: the child is killed and all quotas are opened")
                self._child.kill()
                self._open_quotas()
                break
        try:
            return self._child.wait(CLEAN_STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            return self._child.wait()
        finally:
            self._child.stdout.close()

    def _open_quotas(self) -> None:
        """In a process of its own: the supervisor stays free of the runtimes' libraries. Once per silence is enough."""
        if self._opened:
            return
        try:
            done = subprocess.run(self._opener, input=self._options, timeout=self._opening_s, check=False)
        except subprocess.TimeoutExpired:
            _say(f"the quotas could not be opened within {self._opening_s:g} s; tried again if the next child is silent too")
            return
        self._opened = done.returncode == 0

    def _stop(self, *_: object) -> None:
        self._stopping.set()
        if self._child and self._child.poll() is None:
            self._child.terminate()

    def _wait(self, seconds: float) -> None:
        self._stopping.wait(seconds)


def _say(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} supervisor: {text}\n")
    sys.stderr.flush()


def run(options: AgentOptions) -> None:
    """Runs one worker's agent until SIGTERM."""
    sys.exit(Supervisor(options).run())


def main() -> None:
    """`python -m controller.agent.supervisor` with the options as JSON in SPARKPACE_AGENT: what `sparkpace agent` becomes
    by exec, so that the command line's libraries do not stay in memory."""
    run(AgentOptions.from_json(os.environ.pop("SPARKPACE_AGENT")))


def become(options: AgentOptions) -> None:
    """Replaces this process by a bare supervisor with the same options."""
    os.environ["SPARKPACE_AGENT"] = options.to_json().decode()
    os.execv(sys.executable, [sys.executable, "-m", "controller.agent.supervisor"])  # noqa: S606 - ourselves, no shell


if __name__ == "__main__":
    main()
