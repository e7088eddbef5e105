"""The profile of a virtual job: the production's own record of a pre-run on all cores, made wrong as asked.

The pre-run's events go through `stage_model.history.run` and `run_record`, like those of a real one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from experiments.harness.wrong_profile import off_by
from experiments.simulator import driver
from experiments.simulator.engine import Engine, part_read
from experiments.simulator.fixed import Fixed, everything
from experiments.simulator.jobs import SimJob
from experiments.simulator.state import App, Effects, SimExecutor, SimSubmission, SimWorker, Task
from stage_model.history.cold import Readings
from stage_model.history.events import AnyEvent
from stage_model.history.profile import Profile, RunRecord, profile
from stage_model.history.run import Run
from stage_model.history.run_record import ContainerUse, RunFacts, to_record
from stage_model.history.stage_run import StageKey


@dataclass(slots=True)
class _Recorder(Fixed):
    """`Fixed`, and a record of one application's events and CPU by stage."""

    events: list[AnyEvent] = field(default_factory=list)
    cpu_core_s: dict[int, float] = field(default_factory=dict)
    throttled_s: dict[int, float] = field(default_factory=dict)
    readings: dict[int, Readings] = field(default_factory=dict)

    def stage_submitted(self, app: App, stage: int) -> None:
        assert self.engine
        self.events += driver.submitted(app, stage, self.engine.now_s)

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        assert self.engine
        self.events.append(driver.task_end(app, executor, task, self.engine.now_s))
        self.cpu_core_s[task.stage] = self.cpu_core_s.get(task.stage, 0.0) + task.used_core_s
        self.throttled_s[task.stage] = self.throttled_s.get(task.stage, 0.0) + task.throttled_s
        self._read(app, task.stage)

    def _read(self, app: App, stage: int) -> None:
        """Note what the stage has read and used by now, as agents would report it."""
        assert self.engine
        for executor in app.live:
            self.engine.advance(executor)
        what = app.job.stages[stage]
        running = [task for executor in app.live for task in executor.tasks if task.stage == stage]
        parts = math.fsum(min(1.0, part_read(what, task)) for task in running)
        done = math.fsum(executor.counters[stage].records_done for executor in app.live if stage in executor.counters)
        records = done + parts * (what.records or 0.0) / len(what.works)
        core_s = self.cpu_core_s[stage] + math.fsum(task.used_core_s for task in running)
        seen = self.readings.setdefault(stage, Readings(0.0, 0.0))
        seen.add(records - seen.records, core_s - seen.core_s)

    def stage_completed(self, app: App, stage: int) -> None:
        assert self.engine
        self.events += driver.completed(app, stage, self.engine.now_s)

    def ended(self, app: App) -> None:
        assert self.engine
        self.events.append(driver.application_end(self.engine.now_s))


def pre_run(job: SimJob, cluster: Sequence[SimWorker], *, effects: Effects, seed: int = 0) -> tuple[App, RunRecord]:
    """Run the job by itself on all cores of these workers, and return how it went and its record."""
    app, record, _ = pre_run_with_events(job, cluster, effects=effects, seed=seed)
    return app, record


def pre_run_with_events(
    job: SimJob, cluster: Sequence[SimWorker], *, effects: Effects, seed: int = 0
) -> tuple[App, RunRecord, list[AnyEvent]]:
    """Return the results of `pre_run`, and the events that the driver sent."""
    recorder = _Recorder(everything().quota)
    app = Engine(cluster, [SimSubmission(job)], recorder, effects=effects, seed=seed).run()[0]
    run = Run()
    for event in recorder.events:
        run.apply(event)
    cores = math.fsum(min(worker.cores, worker.slots) for worker in cluster)
    record = to_record(
        run,
        RunFacts(
            id="pre-run",
            name=job.name,
            main="app.py",
            when_ms=0,
            spark_version="4.3.0",
            cores=cores,
            slots=sum(worker.slots for worker in cluster),
            executors=len(cluster),
            started_ms=driver.milliseconds(0.0),
        ),
        ContainerUse(
            container_core_s={(stage, 0): core_s for stage, core_s in recorder.cpu_core_s.items()},
            throttled_s={(stage, 0): seconds for stage, seconds in recorder.throttled_s.items()},
            cold_core_s=_cold_core_s(job, recorder.readings),
            allocated_core_s={
                (stage, 0): cores * (app.stage_ends_s[stage] - app.stage_starts_s[stage]) for stage in app.stage_ends_s
            },
            used_core_s=math.fsum(executor.cpu_core_s for executor in app.executors),
        ),
    )
    return app, record, recorder.events


def _cold_core_s(job: SimJob, readings: Mapping[int, Readings]) -> dict[StageKey, float]:
    found = {stage: seen.cold_core_s(job.amounts(stage).records) for stage, seen in readings.items()}
    return {(stage, 0): core_s for stage, core_s in found.items() if core_s is not None}


def learned(record: RunRecord, job: SimJob) -> Profile:
    """Return a profile of one run, of which each stage's work and times are as wrong as the job says."""
    stages = tuple(off_by(stage, job.stages[driver.place_of(stage.name)].profile_factor) for stage in record.stages)
    return profile(record.name, [structs.replace(record, stages=stages)])
