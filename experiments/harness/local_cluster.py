"""A local cluster for experiments: `sparkpace up`, jobs submitted at given times, `down`.

Covers starting and awaiting jobs and what only exists while they run: which executor is on which worker. What is measured
of it and where it is kept are `machine` and `result_folder`.
"""

from __future__ import annotations

import subprocess
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from controller.client import MasterClient, submit_client
from controller.home import Home
from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import SUMMARY, read_summary
from controller.submit.driver_run import RECORD_S, find
from experiments.harness.live_cluster import Sparkpace, end_processes
from experiments.harness.machine import PROJECT
from experiments.harness.recorded import JobRecord, Order, Taught
from experiments.harness.wrong_profile import taught_by
from experiments.workloads.inputs import prepare_inputs
from stage_model.history.profile import profile_json

WORKLOADS = PROJECT / "experiments" / "workloads"
LOOK_S = 0.25


@dataclass(slots=True)
class SubmittedJob:
    """One that was submitted."""

    order: Order
    submission: str
    process: subprocess.Popen[bytes]
    log: Path


class LocalCluster:
    """A cluster in `folder`: its home, the inputs that jobs read, the jobs' logs. Use `running`. Several in one folder have
    names. `options` and `variables`: more of them for each `sparkpace submit`."""

    def __init__(self, folder: Path, name: str = "") -> None:
        self.folder, self.home = folder, Home(folder / (f"home-{name}" if name else "home"))
        self.options: tuple[str, ...] = ()
        self.variables: Mapping[str, str] = {}
        self.sparkpace = Sparkpace(self.home, folder)
        self.logs = folder / "logs"

    @contextmanager
    def running(self, up: Sequence[str]) -> Iterator[LocalCluster]:
        """Up with these options; down at the end. One that a crash left behind in this folder goes first."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with self.sparkpace.running(*self._here(up)):
            yield self

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
        options = ("--submission", submission, "--priority", order.priority, *deadline, *profile, "--force")
        command = self.sparkpace.command(("submit", *options, *self.options, *own, str(WORKLOADS / script), *arguments))
        process = replace(self.sparkpace, variables=self.variables).start(command, log)
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
        return submit_client(self.home)
