"""A local cluster for experiments, driven as a user would: `sparkpace up`, jobs submitted at given times, `down`.

Covers starting and awaiting jobs and what only exists while they run: which executor is on which worker. What is measured
of it and where it is kept are `machine` and `result_folder`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controller.client import MasterClient
from controller.home import VARIABLE, Home
from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import SUMMARY, read_summary
from controller.submit.driver_run import RECORD_S, find
from experiments.harness.machine import PROJECT
from experiments.harness.recorded import JobRecord, Order, Taught
from experiments.harness.wrong_profile import taught_by
from experiments.workloads.inputs import prepare_inputs
from stage_model.history.profile import profile_json

WORKLOADS = PROJECT / "experiments" / "workloads"
LOOK_S = 0.25
END_S = 20.0
"""From SIGTERM of a submission until SIGKILL: it ends driver and application itself, which takes seconds."""


@dataclass(frozen=True, slots=True)
class Done:
    """A command's end. `output` is what it wrote to stdout, or all of a log that took both."""

    code: int
    output: str


@dataclass(frozen=True, slots=True)
class Sparkpace:
    """The command `sparkpace`, with one home and working directory."""

    home: Path
    cwd: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, VARIABLE: str(self.home)}

    def command(self, words: Sequence[str]) -> list[str]:
        return [sys.executable, "-m", "controller.cli.main", *words]

    def run(self, words: Sequence[str], *, errors: Path | None = None, log: Path | None = None) -> Done:
        """Runs it to its end. `errors` takes stderr, `log` takes stderr and stdout; else stderr is the terminal's."""
        file = log or errors
        if file is None:
            return self._run(words, subprocess.PIPE, None)
        with file.open("wb") as opened:
            done = self._run(words, opened.fileno() if log else subprocess.PIPE, opened.fileno())
        return done if log is None else Done(done.code, log.read_text(errors="replace"))

    def need(self, *words: str) -> str:
        """Its stdout. Raises `SystemExit` when it fails."""
        done = self.run(words)
        if done.code != 0:
            raise SystemExit(f"sparkpace {' '.join(words)} ended with code {done.code}")
        return done.output

    def _run(self, words: Sequence[str], stdout: int, stderr: int | None) -> Done:
        done = subprocess.run(
            self.command(words),
            env=self.environment(),
            cwd=self.cwd,
            stdout=stdout,
            stderr=stderr,
            text=True,
            check=False,
        )
        return Done(done.returncode, done.stdout or "")


@dataclass(slots=True)
class SubmittedJob:
    """One that was submitted."""

    order: Order
    submission: str
    process: subprocess.Popen[bytes]
    log: Path


class LocalCluster:
    """A cluster in `folder`: its home, the inputs that jobs read, the jobs' logs. Use `running`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.home = folder, Home(folder / "home")
        self.sparkpace = Sparkpace(self.home.path, folder)
        self.logs = folder / "logs"

    @contextmanager
    def running(self, up: Sequence[str]) -> Iterator[LocalCluster]:
        """Up with these options; down at the end. One that a crash left behind in this folder goes first."""
        self.logs.mkdir(parents=True, exist_ok=True)
        if self.home.cluster_file.exists():
            self.sparkpace.need("down")
        self.sparkpace.need("up", "--port", "0", *self._here(up))
        try:
            yield self
        finally:
            self.sparkpace.need("down")

    def capacity(self) -> dict[str, float]:
        """Cores of each worker."""
        return {worker.worker_id: worker.cores for worker in self._client().workers()}

    def prepare(self, orders: Iterable[Order]) -> None:
        """Makes the inputs that the jobs' words name, so that no job's time has it in."""
        for order in orders:
            prepare_inputs(self.folder, (*order.words, *order.options))

    def perform(
        self, step: str, orders: Sequence[Order], *, limit_s: float, show: Callable[[str], None] = lambda _: None
    ) -> list[JobRecord]:
        """Submits every job at its time and waits for all to end; `show` is told what goes on.

        Raises `SystemExit` when one never became an application or all together take longer than `limit_s`; then, and on
        Ctrl-C, what runs is ended.
        """
        begun_s = time.monotonic()
        to_come = sorted(orders, key=lambda order: order.delay_s)
        jobs: list[SubmittedJob] = []
        workers: dict[tuple[str, str], str] = {}
        try:
            while to_come or any(job.process.poll() is None for job in jobs):
                elapsed_s = time.monotonic() - begun_s
                while to_come and to_come[0].delay_s <= elapsed_s:
                    jobs.append(self.submit(step, to_come.pop(0)))
                workers.update(self.executors())
                if elapsed_s > limit_s:
                    raise SystemExit(f"{step} has not ended within {limit_s:g} s; the logs are in {self.logs}")
                running = [job.order.job for job in jobs if job.process.poll() is None]
                show(f"{step}: {', '.join(running) or 'nothing'} running, {len(to_come)} to come")
                time.sleep(LOOK_S)
        finally:
            end_processes([job.process for job in jobs])
        return [self.record(job, workers) for job in jobs]

    def submit(self, step: str, order: Order) -> SubmittedJob:
        """Starts `sparkpace submit` in the background."""
        submission, log = str(uuid.uuid4()), self.logs / f"{step}-{order.job}.log"
        (script, *arguments), own = self._here(order.words), self._here(order.options)
        deadline = () if order.deadline_s is None else ("--deadline", f"{order.deadline_s:.2f}s")
        profile = () if order.profile is None else ("--profile", str(self._taught(order.profile)))
        # An experiment measures what happens, so nothing is refused for being infeasible.
        options = ("--submission", submission, "--priority", order.priority, *deadline, *profile, "--force", *own)
        with log.open("wb") as out:
            process = subprocess.Popen(
                self.sparkpace.command(("submit", *options, str(WORKLOADS / script), *arguments)),
                env=self.sparkpace.environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        return SubmittedJob(order, submission, process, log)

    def _here(self, words: Sequence[str]) -> list[str]:
        """With the folder's path where they name it."""
        return [word.replace("{out}", str(self.folder)) for word in words]

    def _taught(self, what: Taught) -> Path:
        """The profile's file, kept: the store forgets old runs."""
        file = self.folder / "profiles" / f"{'+'.join(what.runs)}-x{what.factor:g}.json"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(profile_json(taught_by(ProfileStore(self.home.profiles), what.runs, what.factor)))
        return file

    def executors(self) -> dict[tuple[str, str], str]:
        """The worker of each (application, executor) that an agent keeps now; samples do not tell it."""
        found = {}
        for record in self.home.path.glob("agents/*/*.json"):
            application_id, _, executor_id = record.stem.rpartition(".")
            found[application_id, executor_id] = record.parent.name
        return found

    def record(
        self, job: SubmittedJob, workers: Mapping[tuple[str, str], str], arrived_epoch_s: float | None = None
    ) -> JobRecord:
        """What is kept of a job that ended. Raises `SystemExit` when it never became an application."""
        view = find(self._client(), job.submission)
        if view is None:
            raise SystemExit(f"{job.order.job} never became an application; see {job.log}")
        folder = self.home.runs / view.application_id
        until = time.monotonic() + RECORD_S
        while not (folder / SUMMARY).exists() and time.monotonic() < until:
            time.sleep(LOOK_S)
        return JobRecord(
            job=job.order.job,
            app_id=view.application_id,
            exit_code=job.process.returncode,
            summary=read_summary(folder),
            workers={executor: worker for (app, executor), worker in workers.items() if app == view.application_id},
            arrived_epoch_s=arrived_epoch_s,
        )

    def _client(self) -> MasterClient:
        return MasterClient(self.home.need_cluster().url, self.home.submit_token())


def end_processes(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends submissions that still run, each with its application; by process, never by name."""
    living = [process for process in processes if process.poll() is None]
    for process in living:
        process.send_signal(signal.SIGTERM)
    for process in living:
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
