"""Further parts of a live cluster (`experiments.harness.live_cluster`) for tests: jobs whose end is asserted, looks, deaths
of its parts.

Every process that is started here can be ended here, by its own number; what is left of a cluster is asked of the engine
and of /proc. Not covered: what is asserted about jobs (the tests).
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from controller.client import LastingClient, MasterClient, admin_client
from controller.home import AgentProcess, Cluster, Home
from controller.machine.process import find_process
from controller.runs.run_folder import read_samples
from controller.runs.run_folders import find_ended_run
from controller.runtime.cgroup.group import ADOPTED
from controller.runtime.engines import machine_cores
from controller.start import ours
from controller.wire.command import ApplicationView
from experiments.harness.live_cluster import Sparkpace, free_port, spark_home
from stage_model.errors import PaceError

APPS = Path(__file__).parent / "apps"
PATIENCE_S = 300.0
"""Time until an expected event counts as missing. No verdict: all of it takes seconds, but a machine may be loaded."""
JOB_S = 2 * PATIENCE_S
PROGRAM = ours("controller.cli.main")
SUBMIT, LAUNCHER = "org.apache.spark.deploy.SparkSubmit", "org.apache.spark.launcher.Main"
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Halves what starting a JVM costs; tests start dozens."""
DEFAULTS = """\
spark.ui.enabled false
spark.driver.memory 512m
spark.executor.memory 512m
"""
T = TypeVar("T")


def conf_words(conf: Mapping[str, object]) -> list[str]:
    """Return these settings as options of spark-submit."""
    return [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]


def adopted_groups(cluster: LocalCluster) -> list[Path]:
    """Return the control groups that the cluster's agent has made to pace executors of others; they are named after their
    applications."""
    applications = [folder.name for folder in cluster.home.runs.iterdir()]
    below = (
        Path(place, name) for place, names, _ in os.walk("/sys/fs/cgroup") for name in names if Path(place).name == ADOPTED
    )
    return [group for group in below if any(application in group.name for application in applications)]


def eventually(look: Callable[[], T | None], what: str, timeout_s: float = PATIENCE_S) -> T:
    """Return the first true value of `look`; fail after `timeout_s`. A look that takes long, such as one by `kubectl`, takes
    cores from what is waited for, so after each there is a rest of twice its time, from 0.1 to 2 s."""
    until = time.monotonic() + timeout_s
    while True:
        began_s = time.monotonic()
        found = look()
        if found:
            return found
        now_s = time.monotonic()
        if now_s > until:
            raise AssertionError(f"{what} did not come about within {timeout_s:g} s")
        time.sleep(min(2.0, max(0.1, 2 * (now_s - began_s))))


@dataclass(frozen=True, slots=True)
class Finished:
    """A job's end. `err` holds our lines and Spark's log."""

    code: int
    out: str
    err: str

    def ok(self) -> Finished:
        assert self.code == 0, f"exit code {self.code}\nstdout: {self.out[-3000:]}\nstderr: {self.err[-6000:]}"
        return self

    @property
    def answer(self) -> Any:
        """Return the JSON that the application printed."""
        return json.loads(next(line for line in self.out.splitlines() if line.startswith("{")))


@dataclass(slots=True)
class Job:
    """A submission in a session of its own; its output goes to files, for a full pipe would stop the driver."""

    process: subprocess.Popen[bytes]
    out: Path
    err: Path
    killed: bool = False

    def finish(self, timeout_s: float = JOB_S) -> Finished:
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the job did not end within {timeout_s:g} s:\n{self._read(self.err)[-6000:]}") from None
        return Finished(self.process.returncode, self._read(self.out), self._read(self.err))

    def driver(self) -> psutil.Process:
        """Return the driver's JVM. A stock spark-submit becomes it, after a JVM that only writes its command line."""

        def look() -> psutil.Process | None:
            assert self.process.poll() is None, f"the job has ended:\n{self._read(self.err)[-6000:]}"
            with contextlib.suppress(psutil.NoSuchProcess):
                submission = psutil.Process(self.process.pid)
                for process in (submission, *submission.children(recursive=True)):
                    words = process.cmdline()
                    if SUBMIT in words and LAUNCHER not in words and Path(words[0]).name == "java":
                        return process
            return None

        return eventually(look, "a driver")

    def interrupt(self) -> None:
        """Interrupt the whole group, as a terminal does on Ctrl-C."""
        os.killpg(self.process.pid, signal.SIGINT)

    def kill(self) -> None:
        """Kill whatever is left of the group, but once only: a group that is gone leaves its number to others."""
        with contextlib.suppress(ProcessLookupError):
            if not self.killed:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.killed = True
        self.process.wait()

    @staticmethod
    def _read(path: Path) -> str:
        return path.read_text(errors="replace")


@dataclass(frozen=True, slots=True)
class Isolated(Sparkpace):
    """A command with as little of the user's environment as matters to Spark left to chance. Settings of all jobs come in a
    file: a folder of settings in its class path would keep a driver from the class archive that `up` has made."""

    @property
    def defaults(self) -> Path:
        """Settings of all jobs; no such file where the cluster was started in another way."""
        return self.home.path.parent / "conf" / "spark-defaults.conf"

    def command(self, words: Sequence[str]) -> list[str]:
        given = ("--properties-file", str(self.defaults)) if words[0] == "submit" and self.defaults.exists() else ()
        return [*self.program, words[0], *given, *words[1:]]

    @property
    def temporary(self) -> Path:
        """Folder for the files that a killed JVM leaves behind."""
        return self.home.path.parent / "tmp"

    def environment(self) -> dict[str, str]:
        left_out = ("SPARK_", "PYSPARK_", "SPARKPACE_HOME", "VIRTUAL_ENV")
        plain = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
        self.temporary.mkdir(exist_ok=True)
        return {
            **plain,
            "SPARKPACE_HOME": str(self.home.path),
            "JDK_JAVA_OPTIONS": f"{QUICK_JVM} -Djava.io.tmpdir={self.temporary}",
            **self.variables,
        }


@dataclass(slots=True)
class LocalCluster:
    """A cluster. `command` runs `sparkpace`; `submit`, `stock` and `python` start a job in the background."""

    home: Home
    runtime: str
    jobs: list[Job] = field(default_factory=list)
    by_hand: list[subprocess.Popen[bytes]] = field(default_factory=list)
    program: tuple[str, ...] = PROGRAM
    _client: LastingClient | None = field(default=None, init=False, repr=False)

    # ------------------------------------------------------------------ life

    def up(self, *options: str) -> None:
        """Start the cluster with one core per slot and worker, however many the machine has, unless workers are described."""
        size = () if "--worker" in options else ("--cores", f"{min(2.0, machine_cores()):g}")
        defaults = self.sparkpace().defaults
        defaults.parent.mkdir()
        defaults.write_text(self._defaults())
        self.command(
            *("up", "--runtime", self.runtime, "--port", str(free_port()), *size),
            *("--lost-after", "1h"),  # an agent that a test has killed may be away for long on a busy machine
            *("--allow-mount", str(self.home.path.parent / "shown"), *options),
            timeout_s=600.0,  # the first one on a machine may pull an image
        )

    def down(self) -> None:
        """End the cluster and whatever a failed test left running."""
        for job in self.jobs:
            job.kill()
        if self._client is not None:
            self._client.close()
        self.command("down", check=None)
        for process in self.by_hand:
            if process.poll() is None:
                process.kill()
            process.wait()

    def sparkpace(self, variables: Mapping[str, str] | None = None, cwd: Path = APPS) -> Isolated:
        """Return the commands of this cluster, with these variables besides."""
        return Isolated(self.home, cwd, self.program, variables or {})

    def environment(self) -> dict[str, str]:
        return self.sparkpace().environment()

    def _defaults(self) -> str:
        # a container has a /tmp of its own
        where = "" if self.runtime == "docker" else f" -Djava.io.tmpdir={self.sparkpace().temporary}"
        return f"{DEFAULTS}spark.executor.extraJavaOptions {QUICK_JVM}{where}\n"

    def command(
        self, *words: str, check: int | None = 0, timeout_s: float = PATIENCE_S, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = self.sparkpace(environment).call(words, stderr=subprocess.PIPE, timeout_s=timeout_s)
        assert check is None or done.returncode == check, (
            f"{words} ended with {done.returncode}:\n{done.stderr}\n{done.stdout}"
        )
        return done

    # ------------------------------------------------------------------ jobs

    def start(self, words: Sequence[str], environment: Mapping[str, str] | None = None, cwd: Path = APPS) -> Job:
        """Start any command in the background, with this cluster's environment. Programs of others find the settings of jobs
        in the folder of SPARK_CONF_DIR."""
        number = len(self.jobs)
        out, err = (self.home.path.parent / f"job-{number}.{name}" for name in ("out", "err"))
        foreign = tuple(words[: len(self.program)]) != self.program
        folder = {"SPARK_CONF_DIR": str(self.sparkpace().defaults.parent)} if foreign else {}
        job = Job(self.sparkpace({**folder, **(environment or {})}, cwd).start(words, out, err), out, err)
        self.jobs.append(job)
        return job

    def submit(self, *words: str) -> Job:
        """Start `sparkpace submit`."""
        return self.start(self.sparkpace().command(("submit", *words)))

    def run(self, *words: str) -> Finished:
        """Run `sparkpace submit` from submission to end."""
        return self.submit(*words).finish()

    def stock(self, python: Path, *words: str) -> Job:
        """Run stock spark-submit of the pyspark of `python`, which knows this cluster only by its master URL."""
        return self.start(
            [str(python.parent / "spark-submit"), "--master", self.master_url, *words],
            {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home(python))},
        )

    def properties(self) -> Path:
        """Write a file of `sparkpace conf`, in a directory that can be SPARK_CONF_DIR."""
        file = self.home.path.parent / "stock" / "spark-defaults.conf"
        file.parent.mkdir(exist_ok=True)
        self.command("conf", "-o", str(file))
        with file.open("a") as settings:
            settings.write(self._defaults())
        return file

    # ------------------------------------------------------------------ looks

    @property
    def master_url(self) -> str:
        return self.sparkpace().master_url

    def client(self) -> MasterClient:
        """Return a client that keeps its connection: tests ask ten times a second, and TLS costs more than the answers."""
        url = self.home.need_cluster().url
        if self._client is None or self._client.url != url:
            if self._client is not None:
                self._client.close()
            self._client = LastingClient(url, self.home.ca_file, self.home.admin_token(), PATIENCE_S)
        return self._client

    def cluster(self) -> Cluster:
        return self.home.need_cluster()

    def views(self, name: str) -> list[ApplicationView]:
        return [view for view in self.client().applications() if view.name == name]

    def running(self, name: str, executors: int = 2) -> ApplicationView:
        """Return the view of the live application of that name once `executors` of its executors run tasks."""

        def look() -> ApplicationView | None:
            for view in self.views(name):
                logs = (self.home.runs / view.application_id / "executors").glob("*/stderr")
                joined = sum("Starting executor ID" in log.read_text(errors="replace") for log in logs)
                if view.state == "running" and view.executors >= executors and joined >= executors:
                    return view
            return None

        return eventually(look, f"application {name} with {executors} executors")

    def summary(self, name: str) -> dict[str, Any]:
        """Return the newest record of that name, as `sparkpace report` does. The master may still be writing it when a stock
        driver has ended."""
        eventually(lambda: all(view.finished for view in self.views(name)), f"the record of {name}")
        return dict(find_ended_run(self.home.runs, name).summary)

    def samples(self, application_id: str) -> list[Any]:
        return read_samples(self.home.runs / application_id)

    def log(self, service: str) -> str:
        """Return the log of "master" or "agent-w1"."""
        return (self.home.logs / f"{service}.log").read_text(errors="replace")

    def left(self) -> list[str]:
        """Return the command lines of living processes that were started for this home."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                line = " ".join(process.cmdline())
                if str(self.home.path) in line and process.pid != os.getpid() and process.status() != "zombie":
                    found.append(f"{process.pid}: {line}")
        return found

    # ------------------------------------------------------------------ deaths and restarts

    def agent_child(self, worker: str) -> psutil.Process:
        """Return the agent proper, a child of its supervisor."""
        supervisor = psutil.Process(self._agent(worker).process.pid)
        return eventually(lambda: next(iter(supervisor.children()), None), f"a child of the agent of {worker}")

    def kill_agent(self, worker: str) -> None:
        """Kill supervisor and child at once."""
        process = self._agent(worker).process
        child = find_process(self.agent_child(worker).pid)
        process.send_group(signal.SIGKILL)
        eventually(lambda: not process.is_alive() and not (child and child.is_alive()), f"the end of the agent of {worker}")

    def kill_master(self) -> None:
        master = self.cluster().master
        master.send(signal.SIGKILL)
        eventually(lambda: not master.is_alive(), "the master's end")

    def restore(self) -> str:
        """Run `sparkpace up` once more, which starts the missing services; return its output."""
        return self.command("up").stdout

    def start_master_by_hand(self, port: int) -> None:
        """Start a master that no `up` knows of."""
        log = self.home.logs / "by-hand.log"
        with log.open("ab") as out:
            words = ("master", "--home", str(self.home.path), "--port", str(port))
            process = subprocess.Popen(ours("controller.cli.main", *words), stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.by_hand.append(process)
        client = admin_client(self.home, f"https://127.0.0.1:{port}")

        def answers() -> bool:
            assert process.poll() is None, log.read_text()
            with contextlib.suppress(PaceError):
                return bool(client.health().cluster_id)
            return False

        eventually(answers, "the master's answer")

    def await_workers(self) -> None:
        """Wait until the master has had a report of every agent that lives."""
        living = {agent.worker_id for agent in self.cluster().agents if agent.process.is_alive()}
        eventually(lambda: living <= {view.worker_id for view in self.client().workers()}, "the agents' reports")

    def heal(self) -> list[str]:
        """Start services that are dead, so that the next test finds them; return their names."""
        cluster = self.cluster()
        dead = [] if cluster.master.is_alive() else ["master"]
        dead += [agent.worker_id for agent in cluster.agents if not agent.process.is_alive()]
        if dead:
            self.restore()
        return dead

    def _agent(self, worker: str) -> AgentProcess:
        return next(agent for agent in self.cluster().agents if agent.worker_id == worker)


@contextlib.contextmanager
def cluster_in(place: Path, runtime: str, *options: str, program: tuple[str, ...] = PROGRAM) -> Iterator[LocalCluster]:
    """Keep a cluster up whose home is in `place`; none of its processes may stay."""
    (place / "shown").mkdir(parents=True)
    cluster = LocalCluster(Home(place / "home"), runtime, program=program)
    try:
        cluster.up(*options)
        yield cluster
    finally:
        cluster.down()
    eventually(lambda: not cluster.left(), "the end of the cluster's processes")
