"""The cost of the production's agent with many executors on its worker: a real cluster (`sparkpace up`) with a real engine.

Real: master, supervisor, agent, HTTP between them, Docker, one container for each executor with quota, memory limit and
orders, deadlines, profiles and plans. Made up, because the machine has no room for a hundred JVMs: the programs in the
containers (`executor`), the drivers (this process: they register, report stages and tasks, and sync every second), and the
worker's size, which is so large that the law and not the arbiter decides. Not covered: the master's cost (`crowd`).
"""

from __future__ import annotations

import cProfile
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import docker
import msgspec
import psutil

from controller.agent import child
from controller.asks.options import AgentOptions
from controller.cli.service_option import option_defaults
from controller.cli.service_options import AGENT
from controller.client import MasterClient, submit_client
from controller.home import Home
from controller.local.cluster import start
from controller.local.ending import stop
from controller.local.plan import Plan, WorkerPlan
from controller.machine.addresses import check_port
from controller.runs.profile_store import ProfileStore
from controller.runtime.docker.container import CLUSTER
from controller.submit.bridge_jar import bridge_jar
from controller.wire.command import Change
from controller.wire.driver import DriverReply, DriverSync, ExecutorWish, PythonEnvironment, Registered
from controller.wire.states import ApplicationState
from experiments.bench.overhead import executor
from experiments.bench.overhead.kept_connection import KeptConnection
from experiments.bench.overhead.made_up import NAME, MadeUpDriver, made_up_profile, registration, sequenced
from experiments.bench.overhead.where import own_time
from stage_model.history.events import StageCompleted, StageSubmitted

CORES_EACH = 0.4
"""Cores of the worker for each executor; their laws ask for about half."""
MEMORY_MB_EACH = 1200
SETTLE_S = 15.0
SPARE_S = 45.0
"""Seconds by which applications last longer than they are measured."""
START_S = 600.0
END_S = 60.0
SYNC_S = 1.0
PROFILED = "SPARKPACE_PROFILED"


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU of supervisor and child in a span of `seconds`. `stage_events`: stages submitted and completed meanwhile, each
    of which wakes the agent; `writes` are quotas set."""

    executors: int
    seconds: float
    cpu_s: float
    writes: int
    stage_events: int
    rss_mb: float

    @property
    def share(self) -> float:
        """The share of a core."""
        return self.cpu_s / self.seconds


def measure_cpu(folder: Path, executors: int, seconds: float, stage_s: float) -> Spent:
    """Return the agent's CPU over `seconds` while each application has stages of `stage_s`."""
    with _Scene(folder, executors, SETTLE_S + seconds + SPARE_S, stage_s).running() as scene:
        supervisor = psutil.Process(scene.agent_pid())
        processes = [supervisor, *supervisor.children()]
        log = folder / "home" / "logs" / "agent-w1.log"
        writes, events_before = log.read_text().count(" quota "), scene.stage_events
        before, begun_s = _cpu_s(processes), time.monotonic()
        time.sleep(seconds)
        used, span_s = _cpu_s(processes) - before, time.monotonic() - begun_s
        return Spent(
            executors=executors,
            seconds=round(span_s, 2),
            cpu_s=round(used, 3),
            writes=log.read_text().count(" quota ") - writes,
            stage_events=scene.stage_events - events_before,
            rss_mb=round(sum(p.memory_info().rss for p in processes) / 1e6, 1),
        )


def profiled(folder: Path, executors: int, seconds: float, stage_s: float) -> dict[str, float]:
    """Return the own time of the control loop's thread by module, as shares, with Python's profiler in the agent, which
    adopts the executors of the agent before."""
    length_s = 2 * SETTLE_S + seconds + SPARE_S
    with _Scene(folder, executors, length_s, stage_s).running() as scene, scene.agent_replaced(folder / "profile") as agent:
        time.sleep(seconds)
        agent.send_signal(signal.SIGUSR1)
        until = time.monotonic() + END_S
        while not (folder / "profile").exists() and time.monotonic() < until:
            time.sleep(0.2)
        return own_time(folder / "profile")


def _cpu_s(processes: list[psutil.Process]) -> float:
    return float(sum(sum(process.cpu_times()[:2]) for process in processes))


@dataclass(slots=True)
class _Scene:
    """A cluster of one worker with an executor of each of `executors` applications, which last `length_s` each."""

    folder: Path
    executors: int
    length_s: float
    stage_s: float
    drivers: list[MadeUpDriver] = field(default_factory=list)
    stage_events: int = 0
    begun_s: float = 0.0
    home: Home = field(init=False)
    stopped: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[_Scene]:
        """Provide the scene with all executors under control; everything is gone afterwards."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.home = Home(self.folder / "home")
        ours = self._programs()
        self.home.create()
        ProfileStore(self.home.profiles).add(made_up_profile(self.stages, self.stage_s))
        with self._cluster():
            syncing = threading.Thread(target=self._sync_all, daemon=True)
            try:
                self.drivers = [self._register(ours) for _ in range(self.executors)]
                syncing.start()
                self._await(lambda: self._running() == self.executors, START_S, "its executors have not started")
                self.begun_s = time.time()
                clock = {"begun": self.begun_s, "stage_s": self.stage_s}
                (ours / "begun.new").write_text(json.dumps(clock))
                (ours / "begun.new").rename(ours / "begun")
                for view in self._client().applications():
                    due = Change(deadline_s=view.elapsed_s + self.length_s, force=True)
                    self._client().change(view.application_id, due)
                time.sleep(SETTLE_S)
                yield self
            finally:
                self.stopped.set()
                if syncing.is_alive():
                    syncing.join()
                self._end()

    @contextmanager
    def _cluster(self) -> Iterator[None]:
        """Start a cluster as `sparkpace up` does, but for its check that the machine has that many cores."""
        plan = Plan(
            workers=(WorkerPlan("w1", self.cores, self.memory_mb),),
            runtime="docker",
            host="127.0.0.1",
            port=check_port("127.0.0.1", 0),
            master_options=("--keep-runs", str(2 * self.executors)),
        )
        running = start(self.home, plan)
        try:
            yield
        finally:
            stop(self.home, running)

    @property
    def stages(self) -> int:
        """The number of stages of each application."""
        return math.ceil(self.length_s / self.stage_s) + 1

    @property
    def cores(self) -> float:
        return CORES_EACH * self.executors

    @property
    def memory_mb(self) -> int:
        return MEMORY_MB_EACH * self.executors + 4096

    def agent_pid(self) -> int:
        [agent] = self.home.need_cluster().agents
        return agent.process.pid

    @contextmanager
    def agent_replaced(self, out: Path) -> Iterator[subprocess.Popen[bytes]]:
        """Stop the agent, and let an agent under the profiler take its place."""
        old = psutil.Process(self.agent_pid())
        options = AgentOptions(
            home=self.home.path,
            worker_id="w1",
            cores=self.cores,
            memory_mb=self.memory_mb,
            runtime="docker",
            master_url=self.home.need_cluster().url,
            **{**option_defaults(AGENT), "network": "host", "local_limit": "none", "allow_mounts": ()},
        )
        old.terminate()
        old.wait(END_S)
        with (self.folder / "profiled.log").open("wb") as log:
            new = subprocess.Popen(
                (sys.executable, "-m", "experiments.bench.overhead.crowded_agent"),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env={**os.environ, PROFILED: str(out)},
            )
        assert new.stdin
        new.stdin.write(options.to_json())
        new.stdin.close()
        try:
            yield new
            self._kill_applications()
        finally:
            new.terminate()
            new.wait(END_S)

    # ------------------------------------------------------------------ starting and ending

    def _programs(self) -> Path:
        """Return a directory that looks like a Python environment, a Spark and a bridge, with our program under the name
        java."""
        ours = self.folder / "programs"
        shutil.rmtree(ours, ignore_errors=True)
        (ours / "bin").mkdir(parents=True)
        (ours / "spark" / "jars").mkdir(parents=True)
        shutil.copy(bridge_jar(), ours / "bridge.jar")
        (ours / "bin" / "java").write_text("#!/usr/bin/python3 -SEs\n" + Path(executor.__file__).read_text())
        (ours / "bin" / "java").chmod(0o755)
        (ours / "bin" / "python3").symlink_to("/usr/bin/python3")
        return ours

    def _register(self, ours: Path) -> MadeUpDriver:
        asked = registration(
            {
                "spark.pace.profile": NAME,
                "spark.pace.deadline": f"{START_S + self.length_s:.0f}s",
                "spark.executor.cores": str(executor.SLOTS),
                "spark.executor.memory": "64m",
                "spark.executor.memoryOverhead": "384m",
                "spark.executor.pyspark.memory": "64m",
                "spark.executor.extraClassPath": "/nothing",  # so no class archive is made for it
                "spark.memory.offHeap.enabled": "true",
                "spark.memory.offHeap.size": "64m",
            },
            executors=1,
            jars_dir=str(ours / "spark" / "jars"),
            bridge_jar=str(ours / "bridge.jar"),
            working_dir=str(ours),
            environment={"BEGUN": str(ours / "begun")},
            python=PythonEnvironment(
                executable=str(ours / "bin" / "python3"), version="3.11", prefix=str(ours), base_prefix=str(ours)
            ),
        )
        connection = self._connection()
        reply = connection.post("/v1/applications", self.home.submit_token(), asked, Registered)
        return MadeUpDriver(reply.application_id, reply.token, self.stages, self.stage_s)

    def _running(self) -> int:
        return sum(view.executors for view in self._client().applications())

    def _client(self) -> MasterClient:
        return submit_client(self.home)

    def _connection(self) -> KeptConnection:
        return KeptConnection(self.home.need_cluster().url, self.home.ca_file)

    def _kill_applications(self) -> None:
        client = self._client()
        for view in client.applications():
            if view.state is not ApplicationState.ENDED:
                client.kill(view.application_id)
        self._await(lambda: self._running() == 0, END_S, "its executors have not ended")

    def _end(self) -> None:
        """End the applications; containers that no agent ended are removed all the same."""
        try:
            self._kill_applications()
        finally:
            engine = docker.from_env()
            with suppress(docker.errors.DockerException):
                for left in engine.containers.list(
                    all=True, filters={"label": f"{CLUSTER}={self.home.need_cluster().cluster_id}"}
                ):
                    left.remove(force=True, v=True)
            engine.close()

    def _await(self, holds: Callable[[], bool], limit_s: float, otherwise: str) -> None:
        until = time.monotonic() + limit_s
        while not holds():
            if time.monotonic() > until:
                raise SystemExit(f"{otherwise} within {limit_s:g} s; the agent's log is in {self.folder}/home/logs")
            time.sleep(0.5)

    # ------------------------------------------------------------------ drivers

    def _sync_all(self) -> None:
        """Sync every driver once a second, spread over the second."""
        connection = self._connection()
        while not self.stopped.is_set():
            begun_s = time.monotonic()
            for number, driver in enumerate(self.drivers):
                events = driver.news(self.begun_s, time.time()) if self.begun_s else []
                numbered = sequenced(events, driver.sent + 1)
                sync = DriverSync(instance="made-up", wanted={"0": ExecutorWish(count=1)}, events=numbered)
                path = f"/v1/applications/{driver.application_id}/sync"
                connection.post(path, driver.token, sync, DriverReply)
                driver.sent += len(events)
                self.stage_events += sum(isinstance(event, StageSubmitted | StageCompleted) for event in events)
                due_s = begun_s + (number + 1) * SYNC_S / len(self.drivers)
                self.stopped.wait(max(0.0, due_s - time.monotonic()))
            self.stopped.wait(max(0.0, begun_s + SYNC_S - time.monotonic()))


def main() -> None:
    """Run the agent's child under the profiler, options on standard input as the supervisor gives them."""
    tracer, out = cProfile.Profile(), Path(os.environ[PROFILED])

    def dump(*_: object) -> None:
        tracer.disable()
        tracer.dump_stats(out.with_suffix(".new"))
        out.with_suffix(".new").rename(out)

    signal.signal(signal.SIGUSR1, dump)
    tracer.enable()
    sys.exit(child.main())


if __name__ == "__main__":
    main()
