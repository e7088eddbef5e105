"""Virtual applications of every shape that Spark programs have, drawn from a seed: for properties that hold for any of them.

`draw` gives one run, `again` another run of the same application: other works, so other orders of threads, and for a part of
the stages other signatures. `truncated` is a profile that lacks a part of its stages. Retried stages are not among them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from msgspec import structs

from experiments.simulator.jobs import SimJob, SimStage, SparkJob, log_normal
from stage_model.history.profile import Profile, RunRecord, profile


def _stage(
    rng: random.Random, name: str, tasks: int, mean_core_s: float, parents: tuple[int, ...], code: int | None = None
) -> SimStage:
    return SimStage(
        tuple(log_normal(rng, mean_core_s, 0.3) for _ in range(tasks)),
        wait_s=rng.choice((0.0, 0.1)) * mean_core_s,
        hidden_wait_s=rng.choice((0.0, 0.0, 0.5)) * mean_core_s,
        records=rng.choice((None, 1000.0 * tasks)),
        gap_s=rng.uniform(0.0, 0.3),
        parents=parents,
        code=code,
        name=f"{name} at app.py:1",
    )


def chain(rng: random.Random, size_s: float) -> SimJob:
    """Make one-task stages, each a job of its own, with the driver's time between them; some run the same code."""
    count = rng.randint(8, 30)
    stages = []
    for place in range(count):
        code = rng.randrange(count // 2)
        parents = (place - 1,) if place else ()
        stages.append(_stage(rng, f"step{code}", 1, size_s / count * rng.uniform(0.2, 1.8), parents, code=code))
    return SimJob(tuple(stages), jobs=tuple(SparkJob((place,)) for place in range(count)))


def dag(rng: random.Random, size_s: float) -> SimJob:
    """Make a job of stages with up to three parents each: branches run side by side."""
    count = rng.randint(4, 10)
    stages: list[SimStage] = []
    for place in range(count):
        parents = tuple(sorted(rng.sample(range(place), rng.randint(0, min(3, place)))))
        tasks = rng.randint(1, 16)
        stages.append(_stage(rng, f"branch{place}", tasks, 2 * size_s / count / tasks * rng.uniform(0.2, 1.8), parents))
    return SimJob(tuple(stages))


def pool(rng: random.Random, size_s: float) -> SimJob:
    """Make a first job, threads that each run jobs of two stages one after the other, and a last job. All threads run the
    same code, so their stages look alike; a cache that the first job has filled makes each job skip a stage."""
    threads, rounds = rng.randint(2, 4), rng.randint(3, 12)
    mean = size_s / (threads * rounds * 6)
    stages = [_stage(rng, "load", 4, mean, ())]
    jobs = [SparkJob((0,))]
    last = dict.fromkeys(range(threads), 0)
    for turn in range(rounds):
        for thread in range(threads):
            place, before = len(stages), last[thread]
            stages.append(
                _stage(rng, f"map{turn % 3}", 4, mean * rng.uniform(0.3, 1.7), (before,) if before == 0 else (0, before))
            )
            stages.append(_stage(rng, f"collect{turn % 3}", 1, mean * rng.uniform(0.3, 1.7), (place,)))
            jobs.append(SparkJob((place, place + 1), skipped=(0,), sql=str(turn)))
            last[thread] = place + 1
    stages.append(_stage(rng, "fit", 4, mean, tuple(sorted(last.values()))))
    return SimJob(tuple(stages), jobs=(*jobs, SparkJob((len(stages) - 1,))))


def micro_batches(rng: random.Random, size_s: float) -> SimJob:
    """Make batches of three stages, all alike but for the first, which takes longer."""
    count = rng.randint(4, 24)
    mean = size_s / count / 5
    stages, jobs = list[SimStage](), list[SparkJob]()
    for batch in range(count):
        place = len(stages)
        more = 3.0 if batch == 0 else 1.0
        stages.append(_stage(rng, "read", 4, more * mean, (place - 1,) if place else (), code=0))
        stages.append(_stage(rng, "merge", 1, more * mean / 2, (place,), code=1))
        stages.append(_stage(rng, "sum", 1, more * mean / 2, (place + 1,), code=2))
        jobs.append(SparkJob((place, place + 1, place + 2), sql=str(batch)))
    return SimJob(tuple(stages), jobs=tuple(jobs))


def adaptive_query(rng: random.Random, size_s: float) -> SimJob:
    """Make queries as AQE runs them: a job for each shuffle, the shuffles of two tables at once, and a job that skips
    them."""
    count = rng.randint(2, 5)
    stages, jobs = list[SimStage](), list[SparkJob]()
    for query in range(count):
        place = len(stages)
        before = (place - 1,) if place else ()
        tasks = rng.randint(4, 16)
        for table in ("left", "right"):
            stages.append(_stage(rng, f"scan {table}", tasks, size_s / count / 3 / tasks, before))
            jobs.append(SparkJob((len(stages) - 1,), sql=str(query)))
        stages.append(_stage(rng, "join", rng.randint(1, 8), size_s / count / 12, (place, place + 1)))
        jobs.append(SparkJob((place + 2,), skipped=(place, place + 1), sql=str(query)))
    return SimJob(tuple(stages), jobs=tuple(jobs))


KINDS: dict[str, Callable[[random.Random, float], SimJob]] = {
    one.__name__: one for one in (chain, dag, pool, micro_batches, adaptive_query)
}


def draw(rng: random.Random, kind: str, size_core_s: tuple[float, float] = (10.0, 200.0)) -> SimJob:
    """Make a run of an application of this kind, of about that much work."""
    job = KINDS[kind](rng, rng.uniform(*size_core_s))
    return replace(job, name=kind, startup_s=rng.uniform(1.0, 8.0), tail_s=rng.uniform(0.0, 0.5))


def again(rng: random.Random, job: SimJob, *, cv: float = 0.3, renamed: float = 0.0) -> SimJob:
    """Make another run of the application: each stage's work and gap drawn around what they were, and the operators' names of
    that share of the stages are others."""
    stages = []
    for stage in job.stages:
        factor = log_normal(rng, 1.0, cv)
        scopes = ("Renamed",) if rng.random() < renamed else stage.scopes
        works = tuple(factor * work for work in stage.works)
        stages.append(replace(stage, works=works, gap_s=stage.gap_s * log_normal(rng, 1.0, cv), scopes=scopes))
    return replace(job, stages=tuple(stages))


def stopped(job: SimJob) -> SimJob:
    """Return the same job, of which the program cancels the last Spark job."""
    *others, last = job.spark_jobs
    return replace(job, jobs=(*others, replace(last, cancelled=True)))


def leaking(job: SimJob, properties: Mapping[str, str]) -> SimJob:
    """Return the same job, with all Spark jobs but the first from threads that have these local properties."""
    first, *others = job.spark_jobs
    return replace(job, jobs=(first, *(replace(one, properties=properties) for one in others)))


def truncated(taught: Profile, keep: float, rng: random.Random) -> Profile:
    """Return the profile with only about that share of each run's stages, the first one always; a stage that waited for a
    stage that is left out waits for what that one waited for."""
    return profile(taught.key, [_truncated(run, keep, rng) for run in taught.runs])


def _truncated(run: RunRecord, keep: float, rng: random.Random) -> RunRecord:
    kept, instead = [], dict[str, tuple[str, ...]]()
    for place, stage in enumerate(run.stages):
        parents = tuple(dict.fromkeys(one for parent in stage.parents for one in instead[parent]))
        stays = place == 0 or rng.random() < keep
        instead[stage.signature] = (stage.signature,) if stays else parents
        if stays:
            kept.append(structs.replace(stage, parents=parents))
    return structs.replace(run, stages=tuple(kept))
