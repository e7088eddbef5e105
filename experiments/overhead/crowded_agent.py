"""What the production's agent costs with many executors on its worker: a real cluster (`sparkpace up`) with a real engine.

Real: master, supervisor, agent, HTTP between them, Docker, one container for each executor with quota, memory limit and
orders, deadlines, profiles and plans. Made up, because the machine has no room for a hundred JVMs: what runs in the
containers (`executor`), the drivers (this process: they register, tell of stages and tasks, and sync every second), and the
worker's size, which is so large that the law and not the arbiter decides. Not covered: the master's cost (`crowd`).
"""

from __future__ import annotations

import cProfile
import http.client
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import docker
import msgspec
import psutil
from msgspec import structs

from controller.agent import child
from controller.cli.checks import check_port
from controller.client import MasterClient
from controller.home import Home
from controller.local_cluster import Plan, start, stop
from controller.messages import (
    Change,
    DriverReply,
    DriverSync,
    ExecutorWish,
    PythonEnvironment,
    Registered,
    Registration,
    Sequenced,
)
from controller.options import AgentOptions
from controller.profile_store import ProfileStore
from controller.runtime.docker_container import CLUSTER
from controller.runtime.process_identity import boot_id, of
from experiments.overhead import executor
from experiments.overhead.where import own_time
from stage_model.events import AnyEvent, ApplicationEnd, JobEnd, JobStart, StageCompleted, StageInfo, StageSubmitted, TaskEnd
from stage_model.profile import Profile, profile
from stage_model.run import Run
from stage_model.run_record import to_record

CORES_EACH = 0.4
"""Of the worker, for each executor; their laws ask for about half."""
WORK_CORES = 0.2
"""An application's work, so that it needs so many cores to end in time."""
CV = 3.0
"""Of the tasks in the profile. The stand-ins use hardly any CPU, and a law that trusts the profile does not conclude from
this that nothing is left to do; so quotas follow what progress they claim."""
MEMORY_MB_EACH = 1200
NAME = "crowded"
SETTLE_S = 15.0
SPARE_S = 45.0
"""By which applications last longer than what is measured of them."""
START_S = 600.0
END_S = 60.0
SYNC_S = 1.0
PROFILED = "SPARKPACE_PROFILED"

T = TypeVar("T")


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What supervisor and child spent in a span of `seconds`. `stage_events`: stages submitted and completed meanwhile, each
    of which wakes the agent; `writes` are quotas set through the engine."""

    executors: int
    seconds: float
    cpu_s: float
    writes: int
    stage_events: int
    rss_mb: float

    @property
    def share(self) -> float:
        """Of a core."""
        return self.cpu_s / self.seconds


def measure(folder: Path, executors: int, seconds: float, stage_s: float) -> Spent:
    """The agent's CPU over `seconds` while each application has stages of `stage_s`."""
    with _Scene(folder, executors, SETTLE_S + seconds + SPARE_S, stage_s).running() as scene:
        supervisor = psutil.Process(scene.agent_pid())
        processes = [supervisor, *supervisor.children()]
        log = folder / "home" / "logs" / "agent-w1.log"
        writes, told = log.read_text().count(" quota "), scene.stage_events
        before, begun_s = _cpu_s(processes), time.monotonic()
        time.sleep(seconds)
        used, span_s = _cpu_s(processes) - before, time.monotonic() - begun_s
        return Spent(
            executors=executors,
            seconds=round(span_s, 2),
            cpu_s=round(used, 3),
            writes=log.read_text().count(" quota ") - writes,
            stage_events=scene.stage_events - told,
            rss_mb=round(sum(p.memory_info().rss for p in processes) / 1e6, 1),
        )


def profiled(folder: Path, executors: int, seconds: float, stage_s: float) -> dict[str, float]:
    """Own time of the control loop's thread by module, as shares, with Python's profiler in the agent: it adopts the
    executors of the one before."""
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


# ---------------------------------------------------------------- applications


def _infos(stages: int) -> tuple[StageInfo, ...]:
    return tuple(
        StageInfo(stage=n, name=f"stage{n} at app.py:1", tasks=executor.TASKS, parents=(n - 1,) if n else ())
        for n in range(stages)
    )


def _task_end(stage: int, index: int, begun_ms: int, task_ms: int, core_s: float) -> TaskEnd:
    return TaskEnd(
        stage=stage,
        attempt=0,
        task=index,
        index=index,
        executor="1",
        launch_ms=begun_ms,
        finish_ms=begun_ms + task_ms,
        ok=True,
        run_ms=task_ms,
        cpu_ns=round(1e9 * core_s),
        input_records=executor.RECORDS,
    )


def made_up_profile(stages: int, stage_s: float) -> Profile:
    """Of a run in which every stage took `stage_s` and needed `WORK_CORES` cores for it."""
    task_core_s = WORK_CORES * stage_s / executor.TASKS
    run = Run()
    infos = _infos(stages)
    run.apply(JobStart(job=0, time_ms=0, stages=infos))
    for n, info in enumerate(infos):
        begun_ms = round(1000 * n * stage_s)
        run.apply(StageSubmitted(info=info, time_ms=begun_ms))
        for index in range(executor.TASKS):
            run.apply(_task_end(n, index, begun_ms, round(1000 * stage_s), task_core_s))
        run.apply(StageCompleted(stage=n, attempt=0, time_ms=begun_ms + round(1000 * stage_s)))
    end_ms = round(1000 * stages * stage_s)
    run.apply(JobEnd(job=0, time_ms=end_ms, ok=True))
    run.apply(ApplicationEnd(time_ms=end_ms))
    works = {(n, 0): WORK_CORES * stage_s for n in range(stages)}
    record = to_record(
        run,
        id="made-up",
        name=NAME,
        main="app.py",
        when_ms=0,
        spark_version="4.3.0",
        cores=WORK_CORES,
        slots=executor.SLOTS,
        executors=1,
        started_ms=0,
        container_core_s=works,
        allocated_core_s=works,
    )
    return profile(NAME, [structs.replace(record, stages=tuple(structs.replace(s, task_cv=CV) for s in record.stages))])


@dataclass(slots=True)
class _Driver:
    """One made-up driver. `told` is the number of events so far."""

    application_id: str
    token: str
    offset_s: float
    told: int = 0
    stage: int = -1
    done: int = 0


@dataclass(slots=True)
class _Scene:
    """A cluster of one worker with an executor of each of so many applications, which last `length_s` each."""

    folder: Path
    executors: int
    length_s: float
    stage_s: float
    drivers: list[_Driver] = field(default_factory=list)
    stage_events: int = 0
    begun_s: float = 0.0
    home: Home = field(init=False)
    stopped: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[_Scene]:
        """All executors under control; everything is gone afterwards."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.home = Home(self.folder / "home")
        ours = self._programs()
        self.home.create()
        stages = math.ceil(self.length_s / self.stage_s) + 1
        ProfileStore(self.home.profiles).add(made_up_profile(stages, self.stage_s))
        with self._cluster():
            syncing = threading.Thread(target=self._sync_all, args=(stages,), daemon=True)
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
        """As `sparkpace up` starts it, but for its check that the machine has so many cores."""
        plan = Plan(
            workers=1,
            runtime="docker",
            cores_each=self.cores,
            memory_mb_each=self.memory_mb,
            host="127.0.0.1",
            port=check_port("127.0.0.1", 0),
            insecure=False,
            period_s=1.0,
            allow_mounts=(),
            image=None,
            law="forecast",
            keep_runs=2 * self.executors,
        )
        running = start(self.home, plan)
        try:
            yield
        finally:
            stop(self.home, running)

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
        """The agent is stopped and one under the profiler takes its place."""
        old = psutil.Process(self.agent_pid())
        options = AgentOptions(
            home=self.home.path,
            worker_id="w1",
            cores=self.cores,
            memory_mb=self.memory_mb,
            runtime="docker",
            period_s=1.0,
            master_url=self.home.need_cluster().url,
        )
        old.terminate()
        old.wait(END_S)
        with (self.folder / "profiled.log").open("wb") as log:
            new = subprocess.Popen(
                (sys.executable, "-m", "experiments.overhead.crowded_agent"),
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
        """A directory that passes for a Python environment, a Spark and a bridge, with our program under the name java."""
        ours = self.folder / "programs"
        shutil.rmtree(ours, ignore_errors=True)
        (ours / "bin").mkdir(parents=True)
        (ours / "spark" / "jars").mkdir(parents=True)
        (ours / "bridge.jar").touch()
        (ours / "bin" / "java").write_text("#!/usr/bin/python3 -SEs\n" + Path(executor.__file__).read_text())
        (ours / "bin" / "java").chmod(0o755)
        (ours / "bin" / "python3").symlink_to("/usr/bin/python3")
        return ours

    def _register(self, ours: Path) -> _Driver:
        me = of(os.getpid())
        assert me is not None
        registration = Registration(
            name=NAME,
            instance="made-up",
            spark_version="4.3.0",
            user="crowd",
            uid=os.getuid(),
            gid=os.getgid(),
            pid=me.pid,
            pid_start=me.start_ticks,
            boot_id=boot_id(),
            host="127.0.0.1",
            driver_url="spark://CoarseGrainedScheduler@127.0.0.1:1",
            jars_dir=str(ours / "spark" / "jars"),
            bridge_jar=str(ours / "bridge.jar"),
            java_home="/java",
            working_dir=str(ours),
            age_s=0.0,
            conf={
                "spark.pace.profile": NAME,
                "spark.pace.deadline": f"{START_S + self.length_s:.0f}s",
                "spark.pace.force": "true",
                "spark.executor.cores": str(executor.SLOTS),
                "spark.executor.memory": "64m",
                "spark.executor.memoryOverhead": "384m",
                "spark.executor.pyspark.memory": "64m",
                "spark.executor.extraClassPath": "/nothing",  # so no class archive is made for it
                "spark.memory.offHeap.enabled": "true",
                "spark.memory.offHeap.size": "64m",
            },
            environment={"BEGUN": str(ours / "begun")},
            python=PythonEnvironment(
                executable=str(ours / "bin" / "python3"), version="3.11", prefix=str(ours), base_prefix=str(ours)
            ),
            wanted={"0": ExecutorWish(count=1)},
        )
        home = self.home
        reply = _post(home.need_cluster().url, "/v1/applications", home.submit_token(), registration, Registered)
        return _Driver(reply.application_id, reply.token, executor.offset_s(reply.application_id, self.stage_s))

    def _running(self) -> int:
        return sum(view.executors for view in self._client().applications())

    def _client(self) -> MasterClient:
        return MasterClient(self.home.need_cluster().url, self.home.submit_token())

    def _kill_applications(self) -> None:
        client = self._client()
        for view in client.applications():
            if view.state != "ended":
                client.kill(view.application_id)
        self._await(lambda: self._running() == 0, END_S, "its executors have not ended")

    def _end(self) -> None:
        """Ends the applications; containers that no agent ended go all the same."""
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

    def _sync_all(self, stages: int) -> None:
        """Every driver once a second, spread over it."""
        connection = _Connection(self.home.need_cluster().url)
        while not self.stopped.is_set():
            begun_s = time.monotonic()
            for number, driver in enumerate(self.drivers):
                events = self._news(driver, stages)
                numbered = tuple(Sequenced(seq=driver.told + 1 + i, event=event) for i, event in enumerate(events))
                sync = DriverSync(instance="made-up", wanted={"0": ExecutorWish(count=1)}, events=numbered)
                path = f"/v1/applications/{driver.application_id}/sync"
                connection.post(path, driver.token, sync, DriverReply)
                driver.told += len(events)
                self.stage_events += sum(isinstance(event, StageSubmitted | StageCompleted) for event in events)
                due_s = begun_s + (number + 1) * SYNC_S / len(self.drivers)
                self.stopped.wait(max(0.0, due_s - time.monotonic()))
            self.stopped.wait(max(0.0, begun_s + SYNC_S - time.monotonic()))

    def _news(self, driver: _Driver, stages: int) -> list[AnyEvent]:
        """What happened since the last sync, by the same clock as the executors'."""
        if not self.begun_s:
            return []
        infos, now_ms = _infos(stages), round(1000 * time.time())
        events: list[AnyEvent] = []
        if driver.stage < 0:
            events.append(JobStart(job=0, time_ms=now_ms, stages=infos))
        place = (time.time() - self.begun_s + driver.offset_s) / self.stage_s
        while driver.stage < int(place):
            if driver.stage >= 0:
                events += self._tasks(driver, executor.TASKS, now_ms)
                events.append(StageCompleted(stage=driver.stage, attempt=0, time_ms=now_ms))
            driver.stage, driver.done = driver.stage + 1, 0
            events.append(StageSubmitted(info=infos[driver.stage], time_ms=now_ms))
        events += self._tasks(driver, int((place - driver.stage) * executor.TASKS), now_ms)
        return events

    def _tasks(self, driver: _Driver, until: int, now_ms: int) -> list[AnyEvent]:
        core_s = WORK_CORES * self.stage_s / executor.TASKS
        task_ms = round(1000 * self.stage_s * executor.SLOTS / executor.TASKS)
        ended = range(driver.done, until)
        driver.done = max(driver.done, until)
        return [_task_end(driver.stage, index, now_ms - task_ms, task_ms, core_s) for index in ended]


class _Connection:
    """One to the master, kept open."""

    def __init__(self, url: str) -> None:
        parts = urllib.parse.urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port, timeout=30.0)

    def post(self, path: str, token: str, body: msgspec.Struct, kind: type[T]) -> T:
        """Raises `OSError` when the master does not take it."""
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._connection.request("POST", path, msgspec.json.encode(body), headers)
        response = self._connection.getresponse()
        data = response.read()
        if response.status != 200:
            raise OSError(f"{path}: status {response.status}, {data[:200].decode(errors='replace')}")
        return msgspec.json.decode(data, type=kind)


def _post(url: str, path: str, token: str, body: msgspec.Struct, kind: type[T]) -> T:
    return _Connection(url).post(path, token, body, kind)


def main() -> None:
    """The agent's child under the profiler, options on standard input as the supervisor gives them."""
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
