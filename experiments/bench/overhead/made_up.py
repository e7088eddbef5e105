"""Made-up applications: the reports of their drivers to a master, and the profile that such an application would have left.

Their stages follow each other at fixed times, whatever cores the executors get. Not covered: the programs in place of their
executors (`executor`), and what is measured (`crowd`, `crowded_agent`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import structs

from controller.machine.proc import boot_id
from controller.machine.process import find_process
from controller.wire.driver import ExecutorWish, Registration, Sequenced
from experiments.bench.overhead import executor
from stage_model.history.events import (
    AnyEvent,
    ApplicationEnd,
    JobEnd,
    JobStart,
    StageCompleted,
    StageInfo,
    StageSubmitted,
    TaskEnd,
)
from stage_model.history.profile import Profile, profile
from stage_model.history.run import Run
from stage_model.history.run_record import ContainerUse, RunFacts, to_record

NAME = "crowded"
WORK_CORES = 0.2
"""Cores of an application's work, so that it needs that many to end in time."""
CV = 3.0
"""Coefficient of variation of the tasks in the profile. The stand-ins use hardly any CPU, and a law that trusts the profile
does not conclude from this that nothing is left to do; so quotas follow the progress that they claim."""


def sequenced(events: Iterable[AnyEvent], first: int) -> tuple[Sequenced, ...]:
    """Return the events as a bridge sends them, numbered from `first` on."""
    return tuple(
        Sequenced(seq=number, event=msgspec.Raw(msgspec.json.encode(event))) for number, event in enumerate(events, first)
    )


def registration(conf: dict[str, str], executors: int, **fields: Any) -> Registration:
    """Return the registration of a driver that is this process, on Spark 4.3.0; `fields` replace those of `Registration`."""
    me = find_process(os.getpid())
    assert me is not None
    plain = Registration(
        name=NAME,
        instance=str(uuid.uuid4()),
        spark_version="4.3.0",
        user="crowd",
        uid=os.getuid(),
        gid=os.getgid(),
        pid=me.pid,
        pid_start=me.start_ticks,
        boot_id=boot_id(),
        host="127.0.0.1",
        driver_url="spark://CoarseGrainedScheduler@127.0.0.1:1",
        jars_dir="/spark/jars",
        bridge_jar="/spark/bridge.jar",
        java_home="/java",
        working_dir="/srv/jobs",
        age_s=0.0,
        conf={"spark.pace.force": "true", **conf},
        wanted={"0": ExecutorWish(count=executors)},
    )
    return structs.replace(plain, **fields)


def infos(stages: int) -> tuple[StageInfo, ...]:
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
    """Return the profile of a run in which every stage took `stage_s` and needed `WORK_CORES` cores for it."""
    task_core_s = WORK_CORES * stage_s / executor.TASKS
    run = Run()
    all_stages = infos(stages)
    run.apply(JobStart(job=0, time_ms=0, stages=all_stages))
    for n, info in enumerate(all_stages):
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
        RunFacts(
            id="made-up",
            name=NAME,
            main="app.py",
            when_ms=0,
            spark_version="4.3.0",
            cores=WORK_CORES,
            slots=executor.SLOTS,
            executors=1,
            started_ms=0,
        ),
        ContainerUse(container_core_s=works, allocated_core_s=works),
    )
    return profile(NAME, [structs.replace(record, stages=tuple(structs.replace(s, task_cv=CV) for s in record.stages))])


@dataclass(slots=True)
class MadeUpDriver:
    """One made-up driver. `sent` is the number of events so far, `done` the number of the stage's tasks."""

    application_id: str
    token: str
    stages: int
    stage_s: float
    sent: int = 0
    stage: int = -1
    done: int = 0

    def news(self, begun_s: float, now_s: float) -> list[AnyEvent]:
        """Return the events since the last call. The application's first stage began at `begun_s`, but for its offset; times
        are seconds since the epoch, by which the executors' stand-ins go, too."""
        all_stages, now_ms = infos(self.stages), round(1000 * now_s)
        events: list[AnyEvent] = []
        if self.stage < 0:
            events.append(JobStart(job=0, time_ms=now_ms, stages=all_stages))
        place = (now_s - begun_s + executor.offset_s(self.application_id, self.stage_s)) / self.stage_s
        while self.stage < int(place):
            if self.stage >= 0:
                events += self._tasks(executor.TASKS, now_ms)
                events.append(StageCompleted(stage=self.stage, attempt=0, time_ms=now_ms))
            self.stage, self.done = self.stage + 1, 0
            events.append(StageSubmitted(info=all_stages[self.stage], time_ms=now_ms))
        return events + self._tasks(int((place - self.stage) * executor.TASKS), now_ms)

    def _tasks(self, until: int, now_ms: int) -> list[AnyEvent]:
        core_s = WORK_CORES * self.stage_s / executor.TASKS
        task_ms = round(1000 * self.stage_s * executor.SLOTS / executor.TASKS)
        ended = range(self.done, until)
        self.done = max(self.done, until)
        return [_task_end(self.stage, index, now_ms - task_ms, task_ms, core_s) for index in ended]
