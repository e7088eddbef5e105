"""Made-up records of experiments: runs with given grants over time, as agents would have sampled them.

Every run has two executors, "1" on worker w1 and "2" on w2; an agent's ticks are at whole seconds of the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controller.runs.run_folder import append_samples, write_stages, write_summary
from controller.wire.course import StageCourse
from controller.wire.worker import Sample
from experiments.harness.recorded import JobRecord, StepRecord
from tests.fakes import views

CAPACITY = {"w1": 0.85, "w2": 0.85}
WORKERS = {"1": "w1", "2": "w2"}
Spans = Sequence[tuple[float, float, float]]
"""Spans of time from and to (seconds since submission), and the cores granted to each executor meanwhile."""


def samples_of(spans: Spans, submitted: float = 1000.0) -> list[Sample]:
    """Make samples of an executor that uses its grant; its last sample says that it has exited."""
    found, cpu, last_s = [], 0.0, 0.0
    for start_s, end_s, grant in spans:
        for epoch in range(math.ceil(submitted + start_s), math.ceil(submitted + end_s)):
            last_s = epoch - submitted
            found += [sample(e, last_s, grant, cpu) for e in WORKERS]
            cpu += grant
    return [*found, *(sample(e, last_s + 1, 0.0, cpu) for e in WORKERS)]


def sample(executor: str, time_s: float, grant: float, cpu: float) -> Sample:
    return views.sample(
        round(time_s, 3), executor, demand=grant, grant=grant, quota=grant, usage=grant, cpu_core_s=round(cpu, 4)
    )


def job_record(job: str, app_id: str, *, end_s: float, deadline_s: float | None = None, **fields: Any) -> JobRecord:
    """Make a job's record. `fields` replace those of the summary, and `exit_code`, `workers` those of the job."""
    summary: dict[str, Any] = {
        "app_id": app_id,
        "name": job,
        "priority": 50,
        "deadline_s": deadline_s,
        "end_s": end_s,
        "error_pct": None if deadline_s is None else 100 * (end_s - deadline_s) / deadline_s,
        "violated": None if deadline_s is None else end_s > deadline_s,
        "first_task_s": 10.0,
        "last_task_s": end_s - 1,
        "tasks_failed": 0,
        "executors_lost": 0,
        "submitted_epoch_s": 1000.0,
        "data_waits": [],
        "allocated_core_s": 41.0,
        "used_core_s": 40.0,
    }
    exit_code, workers = fields.pop("exit_code", 0), fields.pop("workers", WORKERS)
    assert set(fields) <= {*summary, "withheld_core_s", "debt_core_s"}
    return JobRecord(job=job, app_id=app_id, exit_code=exit_code, summary={**summary, **fields}, workers=workers)


def step_record(step: str, *jobs: JobRecord, session: int = 1) -> StepRecord:
    return StepRecord(
        step=step, session=session, took_s=100.0, outside_core_s=20.0, steal_core_s=0.5, capacity=CAPACITY, jobs=jobs
    )


def write_run(runs: Path, job: JobRecord, samples: Sequence[Sample]) -> None:
    """Write the run folder that a master would have left."""
    folder = runs / job.app_id
    folder.mkdir(parents=True)
    write_summary(folder, job.summary)
    append_samples(folder, samples)
    write_stages(folder, [StageCourse(stage=0, attempt=0, name="map at /home/me/app.py:7", start_s=1.0, end_s=5.0, tasks=4)])
