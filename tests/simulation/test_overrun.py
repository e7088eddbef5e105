"""Stages of one task that need more than their profile says, in virtual time: the last of them has nothing after it to repay
what it takes, so what is left of a task that overruns must be foreseen while there is time."""

from __future__ import annotations

import random
import statistics

from experiments.simulator.jobs import SimJob, SimStage
from experiments.simulator.learn import learned, pre_run
from experiments.simulator.state import REAL
from experiments.simulator.trials import SimCluster, all_cores, run

CLUSTER = SimCluster(executors=2, slots=1, cores=0.85)
SEEDS = range(8)
TIMES = 2.0
MORE = 2.5


def late_s(seed: int) -> float:
    """Return the seconds after the deadline of a chain whose last task takes `MORE` times what its profile says."""
    rng = random.Random(seed)
    stages = tuple(SimStage((rng.uniform(0.5, 2.0),), gap_s=0.2) for _ in range(rng.randint(6, 12)))
    job = SimJob((*stages, SimStage((MORE * rng.uniform(1.0, 2.0),), gap_s=0.2)), startup_s=8.0, tail_s=0.3)
    record = pre_run(job, CLUSTER.workers, effects=REAL, seed=seed)[1]
    known = learned(record, job.wrong([*[1.0] * len(stages), 1 / MORE]))
    deadline_s = TIMES * all_cores(job, CLUSTER, effects=REAL, seed=seed).end_s
    return run(job, CLUSTER, deadline_s, profile=known, effects=REAL, seed=seed).end_s - deadline_s


def test_a_last_task_that_overruns_far_is_hardly_late_where_there_was_time() -> None:
    lates_s = [late_s(seed) for seed in SEEDS]
    assert statistics.fmean(lates_s) <= 1.0
    assert max(lates_s) <= 1.5
