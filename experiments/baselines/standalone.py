"""A stock Spark standalone cluster in containers: one Master, and Workers of which each has one container and its quota.

Everything in it is Spark's own; the quota makes a Worker as large as one of ours (`sparkpace up --cores`), with the same one
task slot, or with several that cpu-shares divide (`cpu_shares`). All containers carry the folder as their label, so the
leftovers of a crash go at the next start. Not covered: when each job is submitted (`admission`).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import docker

from controller.runtime.base import CPU_PERIOD_US, Bind, ExecutorKey, Launch
from controller.runtime.cgroup.group import Group, quota_us
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker import container as docker_container
from controller.runtime.docker import image
from controller.runtime.docker.client import connect
from controller.runtime.engines import machine_cores
from controller.submit.spark_install import find_spark
from experiments.baselines.cpu_shares import divide, refuse_without_shares
from experiments.baselines.lost_work import Story, read_story
from experiments.harness.live_cluster import end_processes, free_port, own_python_roots
from experiments.harness.local_cluster import WORKLOADS
from experiments.harness.recorded import JobRecord, Order, SlotReading
from stage_model.errors import BadInput, Unavailable

LABEL = "sparkpace.experiment"
RESIZABLE = Path(__file__).resolve().parent / "resizable.py"
START_S = 120.0
LOOK_S = 0.25
ASK_S = 1.0
"""Seconds between two looks at the Master."""
WORKER_MEMORY_MB = 3072
"""MiB that a Worker may give to executors; its container has as much again for the Worker itself and Python."""
SERVICE_HEAP = "192m"
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Java options of Master and Workers, which do little."""


@dataclass(slots=True)
class _Job:
    order: Order
    process: subprocess.Popen[bytes]
    submitted_epoch_s: float
    events: Path
    pipe: int | None
    """The experiment's end of a resizable job's pipe."""
    weight: float
    """Weight of the job's executors next to those of other jobs on the same Worker."""

    def application(self) -> Path | None:
        """Return the job's event log, which has the application's name; None before there is one."""
        return next(self.events.glob("app-*"), None)


@dataclass(slots=True)
class Standalone:
    """A running cluster. Use `standalone`."""

    folder: Path
    client: docker.APIClient
    port: int
    page: int
    capacity: dict[str, float]
    slots: int = 1
    containers: list[str] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    """Control groups of the Workers."""
    jobs: dict[str, _Job] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)
    _asked_s: float = 0.0
    _readings: list[SlotReading] = field(default_factory=list)
    _read_s: float = 0.0

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    # ------------------------------------------------------------------ jobs

    def submit(
        self,
        step: str,
        order: Order,
        *,
        executors: int,
        executor_slots: int = 1,
        resizable: bool = False,
        weight: float = 1.0,
    ) -> None:
        """Submit a job by stock spark-submit. Deadline and priority mean nothing here."""
        events = self.folder / "eventlogs" / f"{step}-{order.job}-{len(self.jobs)}"
        shutil.rmtree(events, ignore_errors=True)  # leftovers of an interrupted run of this step
        events.mkdir(parents=True)
        script, *arguments = (word.format(out=self.folder) for word in order.words)
        application, pipe = [str(WORKLOADS / script), *arguments], None
        if resizable:
            os.mkfifo(events / "executors")
            # the pipe is opened for reading, too: else this call would block before the application is there, and fail after
            # it has gone
            pipe = os.open(events / "executors", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
            application = [str(RESIZABLE), str(events / "executors"), str(executors), *application]
        settings = {
            "spark.cores.max": executors * executor_slots,
            "spark.executor.cores": executor_slots,
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": events.as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            # a job whose executors are killed again and again should become slow, not fail
            "spark.stage.maxConsecutiveAttempts": 1000,
        }
        spark = find_spark(os.environ)
        words = [str(spark.submit), "--master", self.url]
        words += [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        with (self.folder / "logs" / f"{step}-{order.job}.log").open("wb") as out:
            process = subprocess.Popen(
                [*words, *order.options, *application],
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, **spark.environment},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.jobs[order.job] = _Job(order, process, time.time(), events, pipe, weight)

    def resize(self, job: str, executors: int) -> None:
        """Set the number of executors of a resizable job; a job that has ended meanwhile takes no notice."""
        pipe = self.jobs[job].pipe
        if pipe is None:
            raise ValueError(f"job {job} was not started resizable")
        os.write(pipe, f"{executors}\n".encode())

    def end(self, jobs: Sequence[str]) -> None:
        """End the jobs that still run: the driver's JVM, then the Python that it started."""
        living = [self.jobs[job].process for job in jobs if self.jobs[job].process.poll() is None]
        end_processes(living)
        for process in living:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    # ------------------------------------------------------------------ looks

    def ended(self) -> set[str]:
        return {name for name, job in self.jobs.items() if job.process.poll() is not None}

    def asking(self) -> set[str]:
        """Return the jobs that the Master knows and that have not ended."""
        return set(self._applications())

    def begun(self) -> set[str]:
        """Return the jobs that have an executor now."""
        return {name for name, cores in self._applications().items() if cores}

    def _applications(self) -> dict[str, int]:
        """Return the cores of each job's application, as the Master's page says it."""
        now_s = time.monotonic()
        if now_s - self._asked_s >= ASK_S:
            names = {app: job for job, app in self._names().items()}
            self._asked_s = now_s
            with suppress(OSError):  # a Master that is slow to answer is asked again
                cores = {one["id"]: int(one["cores"]) for one in self.ask()["activeapps"]}
                self._seen = {names[app]: count for app, count in cores.items() if app in names}
        return self._seen

    def _names(self) -> dict[str, str]:
        """Return the application id of each job that has one."""
        logs = {name: log for name, job in self.jobs.items() if (log := job.application())}
        return {name: log.name.partition(".")[0] for name, log in logs.items()}

    def share(self) -> None:
        """Divide the Workers' cores by weight, where they may have several executors."""
        if self.slots > 1:
            weights = {app: self.jobs[job].weight for job, app in self._names().items()}
            for group in self.groups:
                divide(CgroupTree(), group, weights)

    def ask(self) -> dict[str, Any]:
        """Return the Master's page for programs."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=30) as answer:
            return dict(json.load(answer))

    def look(self) -> None:
        """Read what executors hold and have used, once a second at most."""
        now_s = time.monotonic()
        if now_s - self._read_s < ASK_S:
            return
        self._read_s = now_s
        with suppress(OSError):  # a Master that is slow to answer is asked again
            slots = {one["id"]: int(one["cores"]) for one in self.ask()["activeapps"]}
            reading = SlotReading(epoch_s=round(time.time(), 3), used_core_s=round(self.core_s(), 3), slots=slots)
            self._readings.append(reading)

    def take_readings(self) -> tuple[SlotReading, ...]:
        """Return the readings since the last call."""
        taken, self._readings = tuple(self._readings), []
        return taken

    def core_s(self) -> float:
        """Return the CPU that the Workers' containers have used, with all that ran in them."""
        tree = CgroupTree()
        return sum(usage.cpu_s for group in self.groups if (usage := tree.read(group)))

    def record(self, job: str, arrived_epoch_s: float) -> JobRecord:
        """Return the record of a job that ended."""
        one = self.jobs[job]
        story = self.story(job)
        return JobRecord(
            job=job,
            app_id=story.app_id,
            exit_code=one.process.returncode,
            arrived_epoch_s=arrived_epoch_s,
            summary=story.summary(one.submitted_epoch_s, cores_per_slot=max(self.capacity.values())),
        )

    def story(self, job: str) -> Story:
        """Return the story of a job. Raise `SystemExit` for a job that never became an application."""
        found = self.jobs[job].application()
        if found is None:
            raise SystemExit(f"{job} never became an application; see {self.folder}/logs")
        return read_story(found)

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        """End what still runs."""
        self.end(list(self.jobs))
        for job in self.jobs.values():
            if job.pipe is not None:
                os.close(job.pipe)


@contextmanager
def standalone(folder: Path, *, workers: int, cores_each: float, slots: int = 1) -> Iterator[Standalone]:
    """Start a cluster in `folder`, and leave nothing of it after the block. A Worker may have `slots` executors, together
    `cores_each`."""
    if slots > 1:
        refuse_without_shares(CgroupTree())
    client = connect()
    tags = {LABEL: str(folder)}
    docker_container.clear(client, tags)
    names = [f"w{number}" for number in range(1, workers + 1)]
    cluster = Standalone(folder, client, free_port(), free_port(), dict.fromkeys(names, cores_each), slots)
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    try:
        master = ["Master", "--host", "127.0.0.1", "--port", str(cluster.port), "--webui-port", str(cluster.page)]
        _start(cluster, tags, "master", machine_cores(), master)
        _await(cluster, 0)
        for name in names:
            where = ["--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(folder / "standalone" / name)]
            size = ["--cores", str(slots), "--memory", f"{WORKER_MEMORY_MB}m"]
            _start(cluster, tags, name, machine_cores(), ["Worker", *where, *size, cluster.url])
        _await(cluster, workers)
        for worker in cluster.containers[1:]:
            # only now: starting a JVM takes seconds of a whole core
            client.update_container(worker, cpu_period=CPU_PERIOD_US, cpu_quota=quota_us(cores_each))
            cluster.groups.append(_group(client, worker))
        yield cluster
    finally:
        try:
            cluster.close()
        finally:
            docker_container.clear(client, tags)
            client.close()


@dataclass(frozen=True, slots=True)
class StockRun:
    """Jobs that ran on a stock cluster of their own. `core_s`: CPU that the Workers' containers took meanwhile."""

    jobs: list[JobRecord]
    core_s: float
    readings: tuple[SlotReading, ...]


def run_stock(
    folder: Path, step: str, orders: Sequence[Order], *, workers: int, cores_each: float, limit_s: float
) -> StockRun:
    """Run jobs at their times on a cluster of their own, whose Workers have `stock_slots` slots each; an executor has all
    slots of its Worker. Raise `BadInput` for Workers of more cores than slots and for a job that did not run through,
    `SystemExit` when all together take longer than `limit_s` or a job never became an application."""
    slots = orders[0].stock_slots
    if cores_each > slots:
        raise BadInput(f"workers of {cores_each:g} cores cannot use them with {slots} slots each; give {slots} at most")
    with standalone(folder, workers=workers, cores_each=cores_each, slots=slots) as cluster:
        begun_core_s, begun_s = cluster.core_s(), time.monotonic()
        to_come = sorted(orders, key=lambda order: order.delay_s)
        while to_come or len(cluster.ended()) < len(cluster.jobs):
            elapsed_s = time.monotonic() - begun_s
            while to_come and to_come[0].delay_s <= elapsed_s:
                order = to_come.pop(0)
                cluster.submit(step, order, executors=order.stock_executors or workers, executor_slots=slots)
            if elapsed_s > limit_s:
                raise SystemExit(f"{step} has not ended within {limit_s:g} s; the logs are in {folder}/logs")
            cluster.look()
            time.sleep(LOOK_S)
        jobs = [cluster.record(name, job.submitted_epoch_s) for name, job in cluster.jobs.items()]
        return StockRun(jobs, cluster.core_s() - begun_core_s, cluster.take_readings())


def _start(cluster: Standalone, tags: Mapping[str, str], name: str, cores: float, words: Sequence[str]) -> None:
    folder, spark = cluster.folder, find_spark(os.environ).home
    log_dir, local = folder / "standalone" / name, folder / "standalone" / "local"
    for directory in (log_dir, local):
        directory.mkdir(parents=True, exist_ok=True)
    service = f"org.apache.spark.deploy.{words[0].lower()}.{words[0]}"
    launch = Launch(
        key=ExecutorKey("standalone", name),
        argv=["java", "-cp", f"{spark}/jars/*", f"-Xmx{SERVICE_HEAP}", *QUICK, service, *words[1:]],
        environment={
            "SPARK_HOME": str(spark),
            # Spark's own start scripts set this for a Worker, which starts executors with it
            "SPARK_SCALA_VERSION": scala_version(spark / "jars"),
            # one folder for all: executors of one host read each other's shuffle files from disk
            "SPARK_LOCAL_DIRS": str(local),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PATH": "/usr/local/bin:/usr/bin:/bin",
        },
        binds=[Bind(spark), Bind(folder, writable=True), *map(Bind, own_python_roots())],
        working_dir=folder,
        log_dir=log_dir,
        memory_bytes=2 * WORKER_MEMORY_MB << 20,
        cores=cores,
        uid=os.getuid(),
        gid=os.getgid(),
    )
    built = image.ensure_executor_image(cluster.client, None)
    digest = hashlib.sha256(str(folder).encode()).hexdigest()[:8]
    created = docker_container.create(
        cluster.client, f"standalone-{name}-{digest}", launch, docker_container.ContainerSetting(built, tags)
    )
    cluster.containers.append(created)
    cluster.client.start(created)


def _group(client: docker.APIClient, container: str) -> Group:
    pid = int(client.inspect_container(container)["State"]["Pid"])
    group = CgroupTree().group_of(pid, must_contain=container)
    if group is None:
        raise Unavailable(f"the control group of container {container[:12]} cannot be seen from here")
    return group


def scala_version(jars: Path) -> str:
    """Return the version in a name such as spark-core_2.13-4.3.0.jar."""
    return next(jars.glob("spark-core_*.jar")).name.split("_")[1].split("-")[0]


def _await(cluster: Standalone, workers: int) -> None:
    """Wait until the Master answers and `workers` Workers have joined."""
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        try:
            if sum(worker["state"] == "ALIVE" for worker in cluster.ask()["workers"]) >= workers:
                return
        except OSError:
            pass  # not up yet
        time.sleep(LOOK_S)
    raise Unavailable(f"Spark's Master and {workers} Workers are not up after {START_S:g} s; see {cluster.folder}/standalone")
