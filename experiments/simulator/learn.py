"""The profile of a virtual job: the production's own record of a pre-run on all cores, made wrong as asked.

The pre-run's events go through `stage_model.history.run` and `run_record`, like those of a real one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import structs

from experiments.harness.wrong_profile import off_by
from experiments.simulator import driver
from experiments.simulator.engine import Engine
from experiments.simulator.fixed import Fixed, everything
from experiments.simulator.jobs import SimJob
from experiments.simulator.state import App, Effects, SimExecutor, SimSubmission, SimWorker, Task
from stage_model.history.events import AnyEvent
from stage_model.history.profile import Profile, RunRecord, profile
from stage_model.history.run import Run
from stage_model.history.run_record import ContainerUse, RunFacts, to_record


@dataclass(slots=True)
class _Recorder(Fixed):
    """`Fixed`, and a record of one application's events and CPU by stage."""

    events: list[AnyEvent] = field(default_factory=list)
    cpu_core_s: dict[int, float] = field(default_factory=dict)
    throttled_s: dict[int, float] = field(default_factory=dict)

    def stage_submitted(self, app: App, stage: int) -> None:
        assert self.engine
        self.events += driver.submitted(app, stage, self.engine.now_s)

    def task_ended(self, app: App, executor: SimExecutor, task: Task) -> None:
        assert self.engine
        self.events.append(driver.task_end(app, executor, task, self.engine.now_s))
        self.cpu_core_s[task.stage] = self.cpu_core_s.get(task.stage, 0.0) + task.used_core_s
        self.throttled_s[task.stage] = self.throttled_s.get(task.stage, 0.0) + task.throttled_s

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
            allocated_core_s={
                (stage, 0): cores * (app.stage_ends_s[stage] - app.stage_starts_s[stage]) for stage in app.stage_ends_s
            },
            used_core_s=math.fsum(executor.cpu_core_s for executor in app.executors),
        ),
    )
    return app, record, recorder.events


def learned(record: RunRecord, job: SimJob) -> Profile:
    """Return a profile of one run, of which each stage's work and times are as wrong as the job says."""
    stages = tuple(off_by(stage, job.stages[driver.place_of(stage.name)].profile_factor) for stage in record.stages)
    return profile(record.name, [structs.replace(record, stages=stages)])
