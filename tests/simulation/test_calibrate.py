"""A recorded run becomes a virtual job that does the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from controller.runs.run_folder import append_samples, write_stages, write_summary
from controller.wire.course import StageCourse
from controller.wire.worker import Sample
from experiments.simulator.calibrate import Recorded, compare, foreknown, foreknown_table, read_recorded, runs_table, to_job
from stage_model.errors import BadInput
from tests.fakes import views

SUMMARY: dict[str, Any] = {
    "app_id": "pace-1",
    "name": "job",
    "law": "constant",
    "settings": {"constant.cores": 1.0},
    "deadline_s": 40.0,
    "end_s": 35.5,
    "error_pct": -11.25,
    "first_task_s": 5.0,
    "allocated_core_s": 30.0,
    "used_core_s": 24.0,
    "cluster_cores": 2.0,
    "executors": 2,
}


def sample(time_s: float, executor: str, cpu_core_s: float) -> Sample:
    return views.sample(time_s, executor, demand=0.5, grant=0.5, quota=0.5, cpu_core_s=cpu_core_s)


def recorded() -> Recorded:
    """Make a run on two executors of half a core. From 5 to 15 s a stage of 10 tasks uses all of it, from 15 to 35 s one is
    idle for three tenths of it: 10 and 14 core-seconds. The start of the executors took a core-second each."""
    samples = []
    for second in range(36):
        cpu = 1.0 + 0.5 * min(10, max(0, second - 5)) + 0.35 * min(20, max(0, second - 15))
        samples += [sample(float(second), name, cpu if second >= 5 else 0.2 * second) for name in ("1", "2")]
    stages = (
        StageCourse(stage=0, attempt=0, name="first", start_s=3.0, end_s=15.0, tasks=10),
        StageCourse(stage=1, attempt=0, name="second", start_s=15.0, end_s=35.0, tasks=10),
    )
    return Recorded(SUMMARY, samples, stages)


def test_works_and_waits_are_those_of_the_recorded_stages() -> None:
    job = to_job(recorded(), task_cv=0.0)
    assert [stage.work_core_s for stage in job.stages] == pytest.approx([10.0, 14.0])
    # 5 waves of 2 tasks; the second stage takes 14 s on a core, 6 s are waits
    assert [stage.wait_s for stage in job.stages] == pytest.approx([0.0, 6 / 5])
    assert (job.startup_s, job.tail_s) == (3.0, 0.5)
    assert job.stages[1].parents == (0,)


def test_a_replay_under_the_same_law_ends_as_the_run_did() -> None:
    found = compare(recorded(), task_cv=0.0)
    assert found.real == (35.5, 30.0, 24.0)
    assert found.errors_pct == pytest.approx((0.0, 0.0, 0.0), abs=1.0)
    assert "pace-1" in runs_table([found])


def test_who_knows_the_run_beforehand_ends_it_at_its_deadline() -> None:
    known = foreknown(recorded(), recorded(), task_cv=0.0)
    assert (known.deadline_s, known.real) == (40.0, -11.25)
    # the law of the run holds one core whatever the profile says, so the replay ends as the run did
    assert known.taught == known.own == pytest.approx(-11.25, abs=2.5)
    assert -0.2 <= known.constant <= 0
    assert "| mean size |" in foreknown_table([known])
    # a law that plans by a profile of half the work ends elsewhere than with the run's own
    paced = Recorded({**SUMMARY, "law": "forecast", "settings": {}}, recorded().samples, recorded().stages)
    half = [structs.replace(one, cpu_core_s=one.cpu_core_s / 2) for one in recorded().samples]
    less = foreknown(paced, Recorded(paced.summary, half, paced.stages), task_cv=0.0)
    assert abs(less.taught - less.own) > 0.25
    with pytest.raises(BadInput, match="pace-1"):
        foreknown(Recorded({**SUMMARY, "deadline_s": None}, recorded().samples, recorded().stages), recorded())


def test_overlapping_stages_share_the_cpu_by_their_tasks() -> None:
    stages = (
        StageCourse(stage=0, attempt=0, name="one", start_s=5.0, end_s=15.0, tasks=10),
        StageCourse(stage=1, attempt=0, name="other", start_s=5.0, end_s=15.0, tasks=30),
    )
    job = to_job(Recorded(SUMMARY, recorded().samples, stages), task_cv=0.0)
    assert [stage.work_core_s for stage in job.stages] == pytest.approx([2.5, 7.5])
    assert job.stages[1].parents == ()


def test_a_run_folder_is_read_and_one_without_samples_is_refused(tmp_path: Path) -> None:
    made = recorded()
    write_summary(tmp_path, made.summary)
    with pytest.raises(BadInput):
        read_recorded(tmp_path)
    append_samples(tmp_path, made.samples)
    write_stages(tmp_path, made.stages)
    assert to_job(read_recorded(tmp_path)).work_core_s == pytest.approx(24.0, rel=1e-3)
