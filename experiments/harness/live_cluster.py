"""A live cluster of this machine, driven as a user would: the command `sparkpace` with a home of its own, jobs in the
background, and their end. Experiments, measurements and the tests on real Spark all use it.

Not covered: the times of jobs and the keeping of their results (`local_cluster`).
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from controller.agent.executors.launch import python_roots
from controller.home import VARIABLE, Home
from controller.start import ours
from controller.wire.driver import PythonEnvironment

END_S = 20.0
"""Seconds from SIGTERM of a submission until SIGKILL: the submission ends driver and application itself, which takes
seconds."""
FREE_PORTS = range(20_000, 30_000)
"""Ports below those that Linux gives to programs that ask for any port: no such program takes one before it is used."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command's end. `output` is the command's stdout, or all of a log that took stderr, too."""

    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Sparkpace:
    """The command `sparkpace`, with one home and working directory. `variables` are set beyond the user's environment."""

    home: Home
    cwd: Path
    program: tuple[str, ...] = ours("controller.cli.main")
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return the environment without the virtual environment that is active, if one is: jobs run under the Python of
        `program`."""
        plain = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        return {**plain, VARIABLE: str(self.home.path), **self.variables}

    def command(self, words: Sequence[str]) -> list[str]:
        return [*self.program, *words]

    @contextmanager
    def running(self, *options: str) -> Iterator[None]:
        """Keep a cluster up with these options; take it down at the end, also after SIGTERM. A cluster that a crash left
        behind in this home is taken down first."""
        if self.home.cluster_file.exists():
            self.need("down")
        before = signal.signal(signal.SIGTERM, end_by_signal)
        try:
            self.need("up", "--port", "0", *options)
            yield
        finally:
            self.need("down")
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)

    @property
    def master_url(self) -> str:
        """The URL for stock Spark. Raise `Unavailable` without a cluster."""
        return self.home.need_cluster().spark_master

    # ------------------------------------------------------------------ commands

    def run(self, words: Sequence[str], *, errors: Path | None = None, log: Path | None = None) -> Done:
        """Run the command to its end. `errors` takes stderr, `log` takes stderr and stdout; else stderr is the terminal's."""
        file = log or errors
        if file is None:
            done = self.call(words)
        else:
            with file.open("wb") as opened:
                done = self.call(words, stdout=opened.fileno() if log else subprocess.PIPE, stderr=opened.fileno())
        return Done(done.returncode, done.stdout if log is None else log.read_text(errors="replace"))

    def need(self, *words: str) -> str:
        """Return the command's stdout. Raise `SystemExit` when it fails."""
        done = self.run(words)
        if done.code != 0:
            raise SystemExit(f"sparkpace {' '.join(words)} ended with code {done.code}")
        return done.output

    def call(
        self,
        words: Sequence[str],
        *,
        stdout: int = subprocess.PIPE,
        stderr: int | None = None,
        timeout_s: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the command to its end, with its output where `stdout` and `stderr` say, as for `subprocess.Popen`. Raise
        `subprocess.TimeoutExpired`; whatever is raised, the command and what it has started are ended."""
        with subprocess.Popen(
            self.command(words),
            env=self.environment(),
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=timeout_s)
            except BaseException:  # Ctrl-C, too; `subprocess.run` would kill the submission, and its driver would go on
                end_processes([process])
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def start(self, command: Sequence[str], out: Path, err: Path | None = None) -> subprocess.Popen[bytes]:
        """Start any command in the background, in a session of its own and with this environment. Its output goes to files,
        because a full pipe would stop it; stdout and stderr both to `out` unless there is an `err`."""
        with out.open("wb") as stdout, (err or Path(os.devnull)).open("wb") as stderr:
            return subprocess.Popen(
                command,
                env=self.environment(),
                cwd=self.cwd,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr if err else subprocess.STDOUT,
                start_new_session=True,
            )


def end_by_signal(number: int, _frame: object) -> NoReturn:
    """Handle a signal: end this process as Ctrl-C does, after its jobs and its cluster."""
    sys.exit(128 + number)


def end_processes(processes: Sequence[subprocess.Popen[Any]]) -> None:
    """End submissions that still run, each with its application; by process, never by name."""
    living = [process for process in processes if process.poll() is None]
    for process in living:
        process.send_signal(signal.SIGTERM)
    for process in living:
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a port of `FREE_PORTS` at which nothing listens on loopback. Raise `OSError` where none is found."""
    for port in random.SystemRandom().sample(FREE_PORTS, 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError(f"none of 100 ports from {FREE_PORTS[0]} to {FREE_PORTS[-1]} is free; end programs that listen there")


def spark_home(python: Path) -> Path:
    """Return the pyspark package of that Python."""
    find = "import pathlib, importlib.util as u; print(pathlib.Path(u.find_spec('pyspark').origin).parent)"
    return Path(subprocess.run([str(python), "-c", find], capture_output=True, text=True, check=True).stdout.strip())


def own_python_roots() -> list[Path]:
    """Return the folders that executors must see to run the Python of this process; none for the system's."""
    own = PythonEnvironment(executable=sys.executable, version="", prefix=sys.prefix, base_prefix=sys.base_prefix)
    return python_roots(own)
