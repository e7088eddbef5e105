"""A production master with many applications on many workers, and what one planning pass of it costs.

The drivers and agents are made up: they send the messages of running applications, as the bytes that come over the wire. Not
covered: HTTP, and how the agents use the answers.
"""

from __future__ import annotations

import asyncio
import cProfile
import random
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from msgspec import structs

from controller.home import Home
from controller.master.cluster import ClusterState
from controller.master.core.core import ClusterOptions
from controller.master.main import TICK_S
from controller.master.storage.kept import Kept
from controller.runs.profile_store import ProfileStore
from controller.wire.driver import DriverSync, ExecutorWish
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, Sample, StageUse, WorkerInfo, WorkerSync
from experiments.bench.overhead.made_up import registration, sequenced
from experiments.bench.overhead.where import own_time
from experiments.simulator.jobs import random_shape
from experiments.simulator.learn import learned, pre_run_with_events
from experiments.simulator.state import REAL, workers
from stage_model.history.events import AnyEvent, StageCompleted, StageSubmitted, TaskEnd

STAGES = (5, 10)
EXECUTORS = 4
CORES = 4
BASE_S = (40.0, 100.0)
CONTAINER_MB = 1408
"""Heap and overhead of an executor whose driver says nothing about them."""
ROOMY_MB = 1 << 16
STRETCH = (5.0, 10.0)
"""Deadlines in times of a run alone on all cores: four of these applications share as many cores, so about seven tenths of
them are promised."""
STAGES_LEFT = 4
"""Least number of stages that are to come, so that as many passes find something new in every application."""
TASKS_HELD = 2
"""Last tasks of the stage under way: they end in the pass in which everything changes."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """An application that ran before: its name, its driver's events, its duration."""

    name: str
    events: list[AnyEvent]
    took_s: float


@dataclass(slots=True)
class Driver:
    """A driver that has sent the first `sent` of its kind's events, and what its executors have done by stage."""

    kind: _Kind
    application_id: str = ""
    sent: int = 0
    uses: dict[str, dict[int, StageUse]] = field(default_factory=lambda: defaultdict(dict))


class Crowd:
    """`applications` of `kinds` kinds on `count` workers, each with executors on four of them, amid its stages. Where
    `waiting` more wait for memory, the workers have just the memory that the others need."""

    def __init__(self, folder: Path, applications: int, count: int, kinds: int, seed: int, waiting: int = 0) -> None:
        self.rng = random.Random(seed)
        self.memory_mb = applications * EXECUTORS // count * CONTAINER_MB if waiting else ROOMY_MB
        self.now_s = 1000.0
        self.woken: set[str] = set()
        self.samples: dict[str, int] = defaultdict(int)
        kept = Kept.of(Home(folder), keep_runs=100)
        known = [self._kind(number, kept.profiles) for number in range(kinds)]
        (folder / "runs").mkdir()
        self.state = ClusterState(kept, ClusterOptions(), self._woken, self.now_s)
        self.on_worker: dict[str, list[tuple[Driver, str]]] = {f"w{number}": [] for number in range(count)}
        for worker_id in self.on_worker:
            self.answer(worker_id, self.report(worker_id))
        self.drivers = [Driver(self.rng.choice(known)) for _ in range(applications)]
        for driver in self.drivers:
            self._register(driver)
        self.waiting = [Driver(self.rng.choice(known)) for _ in range(waiting)]
        for driver in self.waiting:
            self._register(driver)
        for driver in self.drivers:
            for executor in self.state.applications[driver.application_id].executors.values():
                self.on_worker[executor.record.worker_id].append((driver, executor.record.executor_id))
            stages = sum(isinstance(e, StageCompleted) for e in driver.kind.events)
            self._tell(driver, self.rng.randrange(stages - STAGES_LEFT))

    def close(self) -> None:
        """End the master; nothing is written into its folder afterwards."""
        self.state.close()

    def _woken(self, worker_ids: Collection[str]) -> None:
        self.woken |= set(worker_ids)

    def _kind(self, number: int, profiles: ProfileStore) -> _Kind:
        shape = random_shape(self.rng, EXECUTORS * CORES, self.rng.uniform(*BASE_S), stages=STAGES)
        job = replace(shape, name=f"kind{number}").draw(self.rng)
        app, record, events = pre_run_with_events(job, workers(EXECUTORS, CORES), effects=REAL, seed=number)
        profiles.add(structs.replace(learned(record, job), key=f"kind{number}"))
        assert app.end_s is not None
        return _Kind(f"kind{number}", events, app.end_s)

    def _register(self, driver: Driver) -> None:
        deadline_s = driver.kind.took_s * self.rng.uniform(*STRETCH)
        conf = {
            "spark.pace.profile": driver.kind.name,
            "spark.pace.deadline": f"{deadline_s:.1f}s",
            "spark.pace.priority": self.rng.choice(("low", "normal", "high")),
        }
        asked = registration(conf, EXECUTORS, name=driver.kind.name)
        driver.application_id = asyncio.run(self.state.drivers.register(asked, lambda: self.now_s)).application_id

    # ------------------------------------------------------------------ messages of drivers and agents

    def _tell(self, driver: Driver, stage: int) -> None:
        """Send all events up to the last tasks of that stage."""
        events = driver.kind.events
        end = next(i for i, e in enumerate(events) if isinstance(e, StageCompleted) and e.stage == stage)
        tasks = [i for i in range(end) if isinstance(events[i], TaskEnd)]
        self.say(driver.application_id, self._events(driver, tasks[-TASKS_HELD]))

    def _events(self, driver: Driver, end: int) -> bytes:
        """Return the message with the events up to event `end`, whose tasks the executors have then done."""
        first, events = driver.sent + 1, driver.kind.events[driver.sent : end]
        driver.sent = end
        for event in events:
            if isinstance(event, TaskEnd):
                uses = driver.uses[event.executor]
                core_s = event.cpu_ns / 1e9
                use = uses.get(event.stage) or _no_use(event.stage)
                uses[event.stage] = structs.replace(
                    use,
                    done=use.done + 1,
                    records=use.records + event.input_records + event.shuffle_read_records,
                    cpu_core_s=use.cpu_core_s + core_s,
                    allocated_core_s=use.allocated_core_s + 1.05 * core_s,
                )
        numbered = sequenced(events, first)
        sync = DriverSync(instance="made-up", wanted={"0": ExecutorWish(count=EXECUTORS)}, events=numbered)
        return msgspec.json.encode(sync)

    def say(self, application_id: str, data: bytes) -> None:
        """Let the master take in a driver's message."""
        reply = asyncio.run(
            self.state.drivers.sync(application_id, msgspec.json.decode(data, type=DriverSync), lambda: self.now_s)
        )
        msgspec.json.encode(reply)

    def hold(self, driver: Driver) -> None:
        """Send the events of the stage under way up to its last tasks."""
        events = driver.kind.events
        ends = [i for i in range(driver.sent, len(events)) if isinstance(events[i], StageCompleted)]
        if ends and ends[0] - TASKS_HELD > driver.sent:
            self.say(driver.application_id, self._events(driver, ends[0] - TASKS_HELD))

    def next_stage(self, driver: Driver) -> bytes:
        """Return the message by which the driver's last tasks end, its stage ends and the next one begins."""
        events = driver.kind.events
        begins = [i for i in range(driver.sent, len(events)) if isinstance(events[i], StageSubmitted)]
        return self._events(driver, begins[0] + 1 if begins else len(events) - 1)

    def report(self, worker_id: str) -> bytes:
        """Return the report that a worker's agent posts each period: two tasks of each executor run, one sample of each is
        new."""
        reports, samples = [], []
        for driver, executor_id in self.on_worker[worker_id]:
            touched = list(driver.uses[executor_id].values())[-3:]
            cpu_s = sum(use.cpu_core_s for use in touched) + (self.now_s - 1000.0)
            if touched:
                touched[-1] = structs.replace(touched[-1], running=2, cpu_core_s=touched[-1].cpu_core_s + 0.1, speed=0.5)
            reports.append(
                ExecutorReport(
                    application_id=driver.application_id,
                    executor_id=executor_id,
                    state=ExecutorState.RUNNING,
                    quota_cores=0.5,
                    demand_cores=0.5,
                    cpu_core_s=cpu_s,
                    memory_bytes=1 << 30,
                    memory_limit_mb=1408,
                    log_dir=f"/runs/{driver.application_id}/executors/{executor_id}",
                    stages=tuple(touched),
                )
            )
            samples.append(
                Sample(
                    application_id=driver.application_id,
                    executor_id=executor_id,
                    time_s=self.now_s - 1000.0,
                    stage=touched[-1].stage if touched else None,
                    set_point=0.5,
                    progress=0.5,
                    demand=0.5,
                    grant=0.5,
                    quota=0.5,
                    usage=0.49,
                    cpu_core_s=cpu_s,
                    forecast_end_s=80.0,
                )
            )
        sync = WorkerSync(
            instance=f"{worker_id}-life",
            cluster_id=self.state.identity.cluster_id,
            generation=self.state.identity.generation,
            worker=WorkerInfo(
                worker_id=worker_id,
                host="127.0.0.1",
                cores=float(CORES),
                memory_mb=self.memory_mb,
                runtime="docker",
                pid=1,
                boot_id="elsewhere",
            ),
            executors=tuple(reports),
            sample_seq=self.samples[worker_id],
            samples=tuple(samples),
        )
        self.samples[worker_id] += len(samples)
        return msgspec.json.encode(sync)

    def answer(self, worker_id: str, data: bytes) -> bytes:
        """Return the master's answer to an agent, as bytes."""
        sync = msgspec.json.decode(data, type=WorkerSync)
        return msgspec.json.encode(self.state.agents.sync(worker_id, sync, self.now_s))

    def end(self, driver: Driver) -> None:
        """Kill the application; its executors are gone."""
        self.state.commands.kill(driver.application_id, self.now_s)
        for worker_id, there in self.on_worker.items():
            if any(one is driver for one, _ in there):
                there[:] = [(one, executor_id) for one, executor_id in there if one is not driver]
                self.answer(worker_id, self.report(worker_id))


class PassRow(msgspec.Struct, frozen=True, kw_only=True):
    """One pass. `changed`: applications in which a stage ended and the next one began; `concerned`: workers whose desired
    state thereby changes. `told_ms`: the drivers' messages decoded, stored and taken in, with the stages' deadlines;
    `planned_ms`: the workers' desired state worked out and encoded. With none changed: every agent's report of a period is
    taken in and answered, with samples written. `cpu_ms`: this process's CPU in all of it, which other programs on the
    machine lengthen less. `where`: own time by module, only of a pass under the profiler, which makes the pass longer."""

    applications: int
    workers: int
    executors: int
    changed: int
    concerned: int
    told_ms: float
    planned_ms: float
    cpu_ms: float
    where: dict[str, float] = {}

    @property
    def pass_ms(self) -> float:
        return self.told_ms + self.planned_ms


class TurnsRow(msgspec.Struct, frozen=True, kw_only=True):
    """The master's periodic pass, in which each application has its turn, while `running` run and `waiting` wait for memory:
    `cpu_ms` of the thread that does it, each time. A running application has `ended` before every other pass, and the first
    in the queue gets its executors."""

    running: int
    waiting: int
    workers: int
    ended: int
    cpu_ms: list[float]


def turns(crowd: Crowd, times: int) -> TurnsRow:
    """Run `times` passes, half a second apart."""
    took_ms = []
    for number in range(times):
        if number % 2:
            crowd.end(crowd.drivers[number // 2])
        crowd.now_s += TICK_S
        for worker in crowd.state.workers.by_id.values():
            worker.seen_s = crowd.now_s
        for application in crowd.state.applications.values():
            application.heard_s = crowd.now_s
        begun_s = time.thread_time()
        crowd.state.tick(crowd.now_s)
        took_ms.append(round(1000 * (time.thread_time() - begun_s), 3))
    return TurnsRow(
        running=len(crowd.drivers),
        waiting=len(crowd.waiting),
        workers=len(crowd.on_worker),
        ended=times // 2,
        cpu_ms=took_ms,
    )


def passes(crowd: Crowd, few: int, times: int) -> Iterator[PassRow]:
    """Yield `times` passes in which all applications changed, as many periods' reports, ten times as many passes in which
    `few` did, and one more in which all changed, profiled."""
    for _ in range(times):
        yield one_pass(crowd, crowd.drivers)
        yield period(crowd)
    for _ in range(10 * times):
        yield one_pass(crowd, crowd.rng.sample(crowd.drivers, min(few, len(crowd.drivers))))
    tracer = cProfile.Profile()
    yield structs.replace(one_pass(crowd, crowd.drivers, tracer), where=own_time(tracer))


def one_pass(crowd: Crowd, changed: Sequence[Driver], tracer: cProfile.Profile | None = None) -> PassRow:
    """Run a pass in which the next stage of these applications begins."""
    crowd.now_s += 1.0
    for driver in changed:
        crowd.hold(driver)
    messages = [(driver.application_id, crowd.next_stage(driver)) for driver in changed]
    crowd.woken.clear()
    if tracer:
        tracer.enable()
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    for application_id, data in messages:
        crowd.say(application_id, data)
    taken_s = time.perf_counter()
    concerned = sorted(crowd.woken)
    for worker_id in concerned:
        msgspec.json.encode(crowd.state.core.agents.desired(worker_id, crowd.now_s))
    planned_s, cpu_s = time.perf_counter(), time.process_time() - begun_cpu_s
    if tracer:
        tracer.disable()
    return _row(crowd, len(changed), len(concerned), taken_s - begun_s, planned_s - taken_s, cpu_s)


def period(crowd: Crowd) -> PassRow:
    """Run a period in which every agent reports."""
    crowd.now_s += 1.0
    reports = [(worker_id, crowd.report(worker_id)) for worker_id in crowd.on_worker]
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    for worker_id, data in reports:
        crowd.answer(worker_id, data)
    took_s, cpu_s = time.perf_counter() - begun_s, time.process_time() - begun_cpu_s
    return _row(crowd, 0, len(reports), 0.0, took_s, cpu_s)


def _row(crowd: Crowd, changed: int, concerned: int, taken_s: float, planned_s: float, cpu_s: float) -> PassRow:
    return PassRow(
        applications=len(crowd.drivers),
        workers=len(crowd.on_worker),
        executors=sum(map(len, crowd.on_worker.values())),
        changed=changed,
        concerned=concerned,
        told_ms=round(1000 * taken_s, 3),
        planned_ms=round(1000 * planned_s, 3),
        cpu_ms=round(1000 * cpu_s, 3),
    )


def _no_use(stage: int) -> StageUse:
    return StageUse(
        stage=stage,
        attempt=0,
        running=0,
        done=0,
        records=0.0,
        records_running=0.0,
        cpu_core_s=0.0,
        allocated_core_s=0.0,
    )
