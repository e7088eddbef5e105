"""A stream of more batches than the profile knows, on virtual executors, with other arguments than any run that taught."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from msgspec import structs

from experiments.simulator.jobs import SimJob, SimStage, SparkJob, log_normal
from experiments.simulator.learn import pre_run
from experiments.simulator.state import IDEAL, REAL
from experiments.simulator.trials import SimCluster, all_cores, run
from stage_model.history.profile import Profile, profile

TWO_SMALL = SimCluster(executors=2, slots=1, cores=1.0)
BATCH = ((8, 0.3), (8, 0.2), (2, 0.1))
"""Tasks and mean work of each of the three stages of a batch, like those of a structured stream."""
STARTUP_S = 4.0


def stream(batches: int, seed: int = 0, shape: Sequence[tuple[int, float]] = BATCH) -> SimJob:
    """Make a job of batches, each a Spark job, in which a stage waits for the one before it; the next batch waits for it
    all."""
    rng = random.Random(seed)
    stages = [
        SimStage(tuple(log_normal(rng, mean, 0.3) for _ in range(tasks)), gap_s=0.1, name="start at app.py:1")
        for _ in range(batches)
        for tasks, mean in shape
    ]
    jobs = [SparkJob(tuple(range(at, at + len(shape)))) for at in range(0, len(stages), len(shape))]
    return SimJob(tuple(stages), STARTUP_S, name="stream", jobs=tuple(jobs))


def taught(*batches: int) -> Profile:
    """Return a profile of runs of these numbers of batches, which are their arguments."""
    records = [pre_run(stream(count, seed=9 + count), TWO_SMALL.workers, effects=IDEAL)[1] for count in batches]
    return profile(
        "stream",
        [
            structs.replace(record, id=f"run-{place}", when_ms=place, arguments=(str(count),))
            for place, (count, record) in enumerate(zip(batches, records, strict=True))
        ],
    )


def error_pct(batches: int, times: float, known: Profile, arguments: tuple[str, ...] | None) -> float:
    """Return the error of a run whose deadline is `times` what all cores need."""
    job = stream(batches)
    deadline_s = times * all_cores(job, TWO_SMALL).end_s
    return run(job, TWO_SMALL, deadline_s, profile=known, arguments=arguments).error_pct(deadline_s)


@pytest.mark.parametrize("times", [1.1, 1.2, 1.5, 2.0, 3.0])
def test_twice_as_many_batches_as_the_profile_knows_end_in_time(times: float) -> None:
    assert error_pct(24, times, taught(12), ("24",)) <= 0


@pytest.mark.parametrize("times", [1.2, 1.5])
def test_without_the_reserve_they_are_late(times: float) -> None:
    """The same run whose arguments are not known, which keeps nothing."""
    assert error_pct(24, times, taught(12), None) > 10


@pytest.mark.parametrize("seed", range(6))
def test_random_streams_of_up_to_twice_the_batches_are_hardly_late(seed: int) -> None:
    rng = random.Random(seed)
    shape = [(rng.randint(1, 12), rng.uniform(0.05, 0.5)) for _ in range(rng.randint(1, 4))]
    known, batches = rng.randint(4, 12), rng.randint(5, 24)
    job = stream(min(batches, 2 * known), seed, shape)
    record = structs.replace(pre_run(stream(known, seed + 1, shape), TWO_SMALL.workers, effects=REAL)[1], arguments=("a",))
    deadline_s = rng.uniform(1.1, 2.0) * all_cores(job, TWO_SMALL, effects=REAL).end_s
    ran = run(job, TWO_SMALL, deadline_s, profile=profile("stream", [record]), arguments=("b",), effects=REAL, seed=seed)
    assert ran.error_pct(deadline_s) <= 2


def daily(runs: int) -> Profile:
    """Return a profile of a job of 12 batches that ran on `runs` days, each a date of its own."""
    (record,) = taught(12).runs
    return profile("daily", [structs.replace(record, id=f"{n}", when_ms=n, arguments=(f"day {n}",)) for n in range(runs)])


@pytest.mark.parametrize("times", [1.2, 1.5, 2.0])
def test_a_run_of_the_same_arguments_keeps_nothing(times: float) -> None:
    assert error_pct(12, times, daily(1), ("day 0",)) == error_pct(12, times, daily(1), None)


def test_what_a_daily_job_keeps_melts_after_a_few_days() -> None:
    nothing_kept = error_pct(12, 1.5, daily(1), None)
    errors = [error_pct(12, 1.5, daily(runs), ("today",)) for runs in (1, 2, 4, 6)]
    assert errors == sorted(errors)
    # the time with all cores, because a single day does not show how days differ
    assert errors[0] == pytest.approx(100 / 1.5 - 100, abs=1)
    assert errors[-1] == pytest.approx(nothing_kept, abs=3)


def test_a_job_without_a_loop_keeps_little_at_its_end() -> None:
    """Each stage of the job has a call site of its own, so it shows how far it has come."""
    rng = random.Random(5)
    works = [tuple(log_normal(rng, 0.5, 0.3) for _ in range(24)) for _ in range(6)]
    job = SimJob(tuple(SimStage(each) for each in works), STARTUP_S, name="stream")
    record = structs.replace(pre_run(job, TWO_SMALL.workers, effects=IDEAL)[1], arguments=("yesterday",))
    deadline_s = 1.5 * all_cores(job, TWO_SMALL).end_s
    ran = run(job, TWO_SMALL, deadline_s, profile=profile("stream", [record]), arguments=("today",))
    assert -5 < ran.error_pct(deadline_s) <= 0
