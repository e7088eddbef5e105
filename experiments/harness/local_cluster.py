"""A local cluster for experiments: `sparkpace up`, jobs submitted at given times, `down`.

This module starts and awaits jobs, and notes facts that exist only while they run: which executor is on which worker.
`machine` measures, `result_folder` keeps the results.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from controller.client import MasterClient, submit_client
from controller.home import Home
from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import SUMMARY, read_summary
from controller.runtime.base import ExecutorKey
from controller.submit.driver_run import RECORD_S, find
from controller.submit.spark_install import find_spark
from experiments.harness.live_cluster import Sparkpace, end_processes
from experiments.harness.machine import PROJECT
from experiments.harness.recorded import JobRecord, Order, SlotReading, Taught
from experiments.harness.result_folder import OUTPUT
from experiments.harness.wrong_profile import taught_by
from experiments.workloads.inputs import prepare_inputs
from stage_model.history.profile import profile_json

WORKLOADS = PROJECT / "experiments" / "workloads"
EXAMPLES = "{examples}"
"""Placeholder in a job's words: the folder of Spark's own Python examples."""
LOOK_S = 0.25


@dataclass(slots=True)
class SubmittedJob:
    """A job that was submitted. Its stdout goes to `output`, its stderr to `log`; `folder` is the copy that it works in."""

    order: Order
    submission: str
    process: subprocess.Popen[bytes]
    log: Path
    output: Path
    folder: Path | None


class SlotMeter(Protocol):
    """A reader of what executors hold that another cluster manager has started."""

    def look(self) -> None: ...

    def take_readings(self) -> tuple[SlotReading, ...]:
        """Return the readings since the last call."""


class LocalCluster:
    """A cluster in `folder`: its home, the inputs that jobs read, the jobs' logs. Use `running`. Several clusters in one
    folder have names. `options` and `variables`: further ones for each `sparkpace submit`. `meter`: looks at the cluster of
    another manager while jobs run."""

    def __init__(self, folder: Path, name: str = "") -> None:
        self.folder, self.home = folder, Home(folder / (f"home-{name}" if name else "home"))
        self.options: tuple[str, ...] = ()
        self.variables: Mapping[str, str] = {}
        self.meter: SlotMeter | None = None
        self.sparkpace = Sparkpace(self.home, folder)
        self.logs = folder / "logs"

    @contextmanager
    def running(self, up: Sequence[str]) -> Iterator[LocalCluster]:
        """Keep the cluster up with these options; take it down at the end. A cluster that a crash left behind in this folder
        goes first."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with self.sparkpace.running(*self._here(up)):
            yield self

    def capacity(self) -> dict[str, float]:
        """Return the cores of each worker."""
        return {worker.worker_id: worker.cores for worker in self._client().workers()}

    def prepare(self, orders: Iterable[Order]) -> None:
        """Make the inputs that the jobs' words name, so that no job's time includes it."""
        for order in orders:
            works_in = (f"{{out}}/{order.works_in}",) if order.works_in else ()
            prepare_inputs(self.folder, (*order.words, *order.options, *works_in))

    def perform(
        self, step: str, orders: Sequence[Order], *, limit_s: float, show: Callable[[str], None] = lambda _: None
    ) -> list[JobRecord]:
        """Submit every job at its time and wait for all to end; `show` gets a line on what goes on.

        Raise `SystemExit` when a job never became an application or all together take longer than `limit_s`; then, and on
        Ctrl-C, running jobs are ended.
        """
        begun_s = time.monotonic()
        to_come = sorted(orders, key=lambda order: order.delay_s)
        jobs: list[SubmittedJob] = []
        workers: dict[ExecutorKey, str] = {}
        try:
            while to_come or any(job.process.poll() is None for job in jobs):
                elapsed_s = time.monotonic() - begun_s
                while to_come and to_come[0].delay_s <= elapsed_s:
                    jobs.append(self.submit(step, to_come.pop(0)))
                workers.update(self.executors())
                if self.meter is not None:
                    self.meter.look()
                if elapsed_s > limit_s:
                    raise SystemExit(f"{step} has not ended within {limit_s:g} s; the logs are in {self.logs}")
                running = [job.order.job for job in jobs if job.process.poll() is None]
                show(f"{step}: {', '.join(running) or 'nothing'} running, {len(to_come)} to come")
                time.sleep(LOOK_S)
        finally:
            end_processes([job.process for job in jobs])
        return [self.record(job, workers) for job in jobs]

    def submit(self, step: str, order: Order) -> SubmittedJob:
        """Start `sparkpace submit` in the background."""
        submission = str(uuid.uuid4())
        log, output = (self.logs / f"{step}-{order.job}.{what}" for what in ("log", "out"))
        (script, *arguments), own = self._here(order.words), self._here(order.options)
        deadline = () if order.deadline_s is None else ("--deadline", f"{order.deadline_s:.2f}s")
        profile = () if order.profile is None else ("--profile", str(self._taught(order.profile)))
        # An experiment also measures infeasible deadlines, so none is refused.
        folder = self._copy(order.works_in, log.stem) if order.works_in else None
        # Executors can write to a folder only if it is mounted for writing.
        mounted = ("--mount", f"{folder}:rw") if folder else ()
        options = ("--submission", submission, "--priority", order.priority, *deadline, *profile, *mounted, "--force")
        command = self.sparkpace.command(("submit", *options, *self.options, *own, str(WORKLOADS / script), *arguments))
        sparkpace = replace(self.sparkpace, variables=self.variables, cwd=folder or self.sparkpace.cwd)
        return SubmittedJob(order, submission, sparkpace.start(command, output, log), log, output, folder)

    def _here(self, words: Sequence[str]) -> list[str]:
        """Return the words, with the paths of the result folder and of Spark's own examples in place of their
        placeholders."""
        here = [word.replace("{out}", str(self.folder)) for word in words]
        if any(EXAMPLES in word for word in here):
            examples = find_spark(os.environ).home / "examples" / "src" / "main" / "python"
            here = [word.replace(EXAMPLES, str(examples)) for word in here]
        return here

    def _copy(self, name: str, job: str) -> Path:
        """Make a new copy of the input of that name for a job."""
        copy = self.folder / "work" / job
        shutil.rmtree(copy, ignore_errors=True)
        return Path(shutil.copytree(self.folder / name, copy))

    def _taught(self, what: Taught) -> Path:
        """Return the profile's file, kept: the store forgets old runs."""
        file = self.folder / "profiles" / f"{'+'.join(what.runs)}-x{what.factor:g}.json"
        if not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(profile_json(taught_by(ProfileStore(self.home.profiles), what.runs, what.factor)))
        return file

    def take_readings(self) -> tuple[SlotReading, ...]:
        """Return what the meter read since the last call; nothing without one."""
        return self.meter.take_readings() if self.meter is not None else ()

    def executors(self) -> dict[ExecutorKey, str]:
        """Return the worker of each (application, executor) that an agent keeps now; samples do not name the worker."""
        found = {}
        for record in self.home.path.glob("agents/*/*.json"):
            found[ExecutorKey.of_file(record)] = record.parent.name
        return found

    def record(
        self, job: SubmittedJob, workers: Mapping[ExecutorKey, str], arrived_epoch_s: float | None = None
    ) -> JobRecord:
        """Return the record of a job that ended. Its output, without paths of this machine, goes to the folder of its run.
        Raise `SystemExit` when the job never became an application."""
        view = find(self._client(), job.submission)
        if view is None:
            raise SystemExit(f"{job.order.job} never became an application; see {job.log}")
        folder = self.home.runs / view.application_id
        until = time.monotonic() + RECORD_S
        while not (folder / SUMMARY).exists() and time.monotonic() < until:
            time.sleep(LOOK_S)
        printed = job.output.read_text(errors="replace")
        for path, name in ((job.folder or self.folder, "{out}"), (PROJECT, "{project}"), (sys.base_prefix, "{python}")):
            printed = printed.replace(str(path), name)
        (folder / OUTPUT).write_text(printed)
        if job.folder is not None:
            shutil.rmtree(job.folder)
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
