"""Profiles that say too little, in virtual time, through the production's planning, agents and law: the CPU of a whole
application bounds its parts where half of its stages are missing, and a last task may need far more than its profile says."""

from __future__ import annotations

import random
import statistics

import pytest

from experiments.simulator.jobs import SimJob, SimStage
from experiments.simulator.learn import learned, pre_run
from experiments.simulator.state import REAL
from experiments.simulator.trials import SimCluster, all_cores, run
from stage_model.forecast.beyond_plan import USUAL
from stage_model.history.profile import profile
from tests.fakes import random_applications

CLUSTER = SimCluster(executors=2, slots=1, cores=0.85)
SEEDS = range(4)
HALF = 0.5
TIMES = 1.2
LITTLE_S = 4.0
"""Seconds for waits and gaps of the stages that are missing, which no CPU foretells."""


def late(kind: str, seed: int) -> tuple[float, float]:
    """Return the seconds after the deadline, and the seconds that work which neither stages nor total forecast takes, one
    task at a time."""
    rng = random.Random(f"{kind} {seed}")
    before = random_applications.draw(rng, kind, (30.0, 100.0))
    job = random_applications.again(rng, before, cv=0.1)
    record = pre_run(before, CLUSTER.workers, effects=REAL, seed=seed)[1]
    known = random_applications.truncated(profile(kind, [record]), HALF, rng)
    deadline_s = TIMES * all_cores(job, CLUSTER, effects=REAL, seed=seed).end_s
    end = run(job, CLUSTER, deadline_s, profile=known, effects=REAL, seed=seed)
    assert record.used_core_s is not None
    unforeseen = max(0.0, end.used_core_s - record.used_core_s) + USUAL * sum(s.work_core_s for s in known.runs[0].stages)
    return end.end_s - deadline_s, unforeseen / CLUSTER.cores


@pytest.mark.parametrize("kind", random_applications.KINDS)
def test_a_profile_without_half_of_its_stages_makes_a_run_late_by_no_more_than_its_total_did_not_foretell(kind: str) -> None:
    lates_s = []
    for seed in SEEDS:
        late_s, unforeseen_s = late(kind, seed)
        assert late_s <= unforeseen_s + LITTLE_S, f"seed {seed}"
        lates_s.append(late_s)
    assert statistics.fmean(lates_s) <= LITTLE_S


# ---------------------------------------------------------------- a task that overruns

MORE = 2.5


def overrun_s(seed: int) -> float:
    """Return the seconds after the deadline of a chain whose last task takes `MORE` times what its profile says. Nothing
    comes after that task to repay what it takes, so what is left of it must be foreseen while there is time."""
    rng = random.Random(seed)
    stages = tuple(SimStage((rng.uniform(0.5, 2.0),), gap_s=0.2) for _ in range(rng.randint(6, 12)))
    job = SimJob((*stages, SimStage((MORE * rng.uniform(1.0, 2.0),), gap_s=0.2)), startup_s=8.0, tail_s=0.3)
    record = pre_run(job, CLUSTER.workers, effects=REAL, seed=seed)[1]
    known = learned(record, job.wrong([*[1.0] * len(stages), 1 / MORE]))
    deadline_s = 2.0 * all_cores(job, CLUSTER, effects=REAL, seed=seed).end_s
    return run(job, CLUSTER, deadline_s, profile=known, effects=REAL, seed=seed).end_s - deadline_s


def test_a_last_task_that_overruns_far_is_hardly_late_where_there_was_time() -> None:
    lates_s = [overrun_s(seed) for seed in range(8)]
    assert statistics.fmean(lates_s) <= 1.0
    assert max(lates_s) <= 1.5
