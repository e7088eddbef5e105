"""Reports of virtual drivers, which the production's model of a run takes as those of a real driver."""

from __future__ import annotations

import random

import pytest

from experiments.simulator.jobs import SimJob, SimStage, SparkJob
from experiments.simulator.learn import pre_run_with_events
from experiments.simulator.state import IDEAL, REAL, workers
from experiments.simulator.trials import SimCluster, run
from stage_model.history.amounts import Amounts
from stage_model.history.events import JobEnd, JobStart, StageSubmitted
from stage_model.history.profile import parse_profile, profile, profile_json
from tests.fakes.random_applications import KINDS, again, draw, leaking, stopped, truncated

TWO = SimCluster(executors=2, slots=2, cores=2.0)


def two_threads() -> SimJob:
    """Make a stage that fills a cache, then a job each on two threads: the shorter one is followed by another job."""
    stages = (
        SimStage((1.0, 1.0), name="load at app.py:1", amounts=Amounts(7, 7, 5, 70, 70, 50)),
        SimStage((1.0,), name="map at app.py:2", parents=(0,)),
        SimStage((3.0,), name="map at app.py:2", parents=(0,)),
        SimStage((0.5,), name="map at app.py:2", parents=(0, 1)),
    )
    inherited = {"spark.pace.deadline": "60s"}
    threads = (
        SparkJob((1,), (0,)),
        SparkJob((2,), (0,), sql="9"),
        SparkJob((3,), (0,), properties=inherited, cancelled=True),
    )
    return SimJob(stages, jobs=(SparkJob((0,)), *threads))


def test_every_job_starts_with_its_first_stage_and_ends_with_its_last() -> None:
    events = pre_run_with_events(two_threads(), workers(2, 1.0), effects=IDEAL)[2]
    found = [(type(e).__name__, e.job) for e in events if isinstance(e, JobStart | JobEnd)]
    jobs = [("JobStart", 0), ("JobEnd", 0), ("JobStart", 1), ("JobStart", 2)]
    assert found == [*jobs, ("JobEnd", 1), ("JobStart", 3), ("JobEnd", 3), ("JobEnd", 2)]
    assert [e.ok for e in events if isinstance(e, JobEnd)] == [True, True, False, True]
    starts = [e for e in events if isinstance(e, JobStart)]
    assert [e.sql_execution for e in starts] == [None, None, "9", None]
    assert [e.properties for e in starts] == [{}, {}, {}, {"spark.pace.deadline": "60s"}]


def test_a_skipped_stage_is_described_under_another_id_and_never_submitted() -> None:
    _, record, events = pre_run_with_events(two_threads(), workers(2, 1.0), effects=IDEAL)
    described = [{info.stage for info in e.stages} for e in events if isinstance(e, JobStart)]
    assert described == [{0}, {4, 1}, {5, 2}, {6, 3}]
    assert {e.info.stage for e in events if isinstance(e, StageSubmitted)} == {0, 1, 2, 3}
    # each waited for the stage that did the skipped one's work, and the thread's second job for its first, too
    load, first, _, second = (stage.signature for stage in record.stages)
    assert [stage.parents for stage in record.stages] == [(), (load,), (load,), (load, first)]
    # equal stages are counted in order of submission
    assert second.endswith("-3")


def test_a_stages_amounts_are_those_of_all_its_tasks() -> None:
    record = pre_run_with_events(two_threads(), workers(2, 1.0), effects=IDEAL)[1]
    assert record.stages[0].amounts == Amounts(7, 7, 5, 70, 70, 50)


@pytest.mark.parametrize("kind", KINDS)
def test_random_applications_run_teach_and_are_paced(kind: str) -> None:
    rng = random.Random(kind)
    job = draw(rng, kind, (10.0, 30.0))
    app, record, _ = pre_run_with_events(job, TWO.workers, effects=REAL)
    assert [stage.tasks for stage in record.stages] == [len(job.stages[p].works) for p in app.stage_starts_s]
    taught = truncated(profile(kind, [record]), 0.5, rng)
    assert 0 < len(taught.runs[0].stages) < len(record.stages)
    assert parse_profile(profile_json(taught)) == taught
    conf = {"spark.pace.deadline": "1000s"}
    other = stopped(leaking(again(rng, job, renamed=0.5), conf))
    paced = run(other, TWO, 1000.0, conf=conf, profile=profile(kind, [record]), effects=REAL)
    assert paced.end_s > other.work_core_s / TWO.all_cores
