"""The comparison of a live run with its profile: which stages are which, what is still to come, how far the profile is off.

Everything is computed again from estimate and run, linear in their stages. What a stage has to do follows from what it reads
in this run (`nominal`). Not covered: what follows for cores (`laws`).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import msgspec

from stage_model.forecast.doubt import as_equal
from stage_model.forecast.estimate import ApplicationEstimate, StageEstimate
from stage_model.forecast.expected import Expected, Traits
from stage_model.forecast.nominal import of_this_run
from stage_model.forecast.same_stage import same_stages
from stage_model.history.profile import CpuSource
from stage_model.history.run import Run
from stage_model.history.signature import kind, stage_names
from stage_model.history.stage_run import StageKey, StageRun

RATIO_LIMITS = (0.25, 4.0)
"""Stages of one kind that are off by more than this factor are other stages, which must not affect the others."""
RATIO_PRIOR_SHARE = 0.05
RATIO_PRIOR_CORE_S = 1.0
"""The ratio counts as 1 over this much work (the larger of both) besides what was seen: shrinkage while little is
known."""
PACE_PRIOR_S = 10.0
"""Seconds over which the pace counts as 1 besides what was seen: one short stage is no evidence."""
PACE_LIMITS = (0.8, 2.0)
"""Range of the pace: beyond it, the stages are not the profile's."""


@dataclass(frozen=True, slots=True)
class Matched:
    """A live run against its estimate.

    `seen` holds an estimate for every stage attempt submitted so far, `active` those under way; `exact` holds those that were
    found by signature. The other attempts have the numbers of the expected stage that they stand for; attempts that stand for
    no stage are `unplanned` and have the mean of their neighbours. `stages` are all expected stages and `to_come` those not
    seen yet, in order, as large as they are in this run. `matched_share` = share of the work seen that was found by
    signature, None before the first stage. `work_ratio` = real / expected work of the finished stages: expected of future
    ones; `shown` is the number of stages of equal work that have shown it.
    """

    seen: Mapping[StageKey, StageEstimate]
    active: Mapping[StageKey, StageEstimate]
    exact: frozenset[StageKey]
    unplanned: frozenset[StageKey]
    stages: tuple[StageEstimate, ...]
    to_come: tuple[StageEstimate, ...]
    matched_share: float | None
    work_ratio: float
    shown: float


def match(estimate: ApplicationEstimate, run: Run, container_core_s: Mapping[StageKey, float] | None = None) -> Matched:
    """Compare the run with the estimate. `container_core_s` is container CPU by stage attempt so far: without it the work of
    finished stages cannot be compared with a profile of container CPU, and `work_ratio` is 1."""
    firsts = run.first_attempts()
    same = same_stages(estimate.expected, _live_traits(firsts, run))
    places = dict(zip([stage.info.stage for stage in firsts], same.places, strict=True))
    taken = {place for place in same.places if place is not None}
    first = {p: stage for stage, p in zip(firsts, same.places, strict=True) if p is not None and p not in same.alike}
    stages = of_this_run(estimate.stages, first)
    seen: dict[StageKey, StageEstimate] = {}
    exact: set[StageKey] = set()
    unplanned: set[StageKey] = set()
    latest = -1
    for key, stage in run.attempts.items():
        place = places[stage.info.stage]
        if place is None:
            found = _mean(stages[max(0, latest) : latest + 2], stage)
            unplanned.add(key)
        else:
            found = stages[place]
            latest = max(latest, place)
            if place not in same.alike:
                exact.add(key)
        seen[key] = _sized(found, stage, run)
    over = taken | _passed(estimate.expected, taken, same.jobs, run)
    work_ratio, shown = _work_ratio(stages, estimate.cpu_source, run, seen, exact, container_core_s)
    return Matched(
        seen=seen,
        active={stage.key: seen[stage.key] for stage in run.active_stages()},
        exact=frozenset(exact),
        unplanned=frozenset(unplanned),
        stages=tuple(stages),
        to_come=tuple(s for s in stages if s.index not in over),
        matched_share=_share(run, exact, container_core_s),
        work_ratio=work_ratio,
        shown=shown,
    )


def _live_traits(firsts: Sequence[StageRun], run: Run) -> list[Traits]:
    """Return the traits of the first attempt of each stage, in order of submission, with what is known of it so far."""
    place = {stage.info.stage: number for number, stage in enumerate(firsts)}
    found = []
    for stage in firsts:
        job = run.jobs[stage.job] if stage.job is not None else None
        result = job is not None and job.result == stage.info.stage
        found.append(
            Traits(
                names=stage_names(kind(stage.signature), stage.structure, stage.info.name, result=result),
                tasks=stage.info.tasks,
                parents=tuple([place[parent] for parent in stage.waited_for if firsts[place[parent]].job == stage.job]),
                job=stage.job,
                result=job.result_names if job else None,
                sql=job.sql if job else None,
                amounts=stage.shown,
                counted=max(1, stage.shown_tasks),
            )
        )
    return found


def _mean(neighbours: Sequence[StageEstimate], stage: StageRun) -> StageEstimate:
    """Return the estimate of an unknown stage: the mean of its neighbours, and no work where it has no neighbours."""

    def mean(values: Iterable[float]) -> float:
        found = tuple(values)
        return fmean(found) if found else 0.0

    records = mean(n.records for n in neighbours if n.records is not None) or None
    work_core_s = mean(n.work_core_s for n in neighbours)
    return StageEstimate(
        index=neighbours[-1].index if neighbours else 0,
        signature=stage.signature,
        name=stage.info.name,
        job=neighbours[-1].job if neighbours else 0,
        sql=neighbours[-1].sql if neighbours else None,
        tasks=stage.info.tasks,
        records=records,
        work_core_s=work_core_s,
        task_cv=mean(n.task_cv for n in neighbours),
        fixed_s=mean(n.fixed_s for n in neighbours),
        waiting_s=mean(n.waiting_s for n in neighbours),
        gap_s=mean(n.gap_s for n in neighbours),
        duration_s=mean(n.duration_s for n in neighbours),
        start_s=mean(n.start_s for n in neighbours),
    )


def _sized(found: StageEstimate, stage: StageRun, run: Run) -> StageEstimate:
    """Return the estimate with the attempt's own number of tasks; a retry runs only what is missing, so it has that part of
    the whole."""
    first = run.attempts.get((stage.info.stage, 0))
    if stage.info.attempt == 0 or first is None or not first.info.tasks:
        return msgspec.structs.replace(found, tasks=stage.info.tasks) if found.tasks != stage.info.tasks else found
    part = min(1.0, stage.info.tasks / first.info.tasks)
    return msgspec.structs.replace(found.part(part, part), tasks=stage.info.tasks)


def _passed(expected: Expected, taken: set[int], jobs: Mapping[int, int], run: Run) -> set[int]:
    """Return the stages that will not come: the rest of a job that has ended; in a job the stages that a submitted stage
    waited for; and jobs that came before a job that has begun, except where threads may begin them in another order.

    `jobs` are the numbers of expected jobs, by those of the run.
    """
    passed: set[int] = set()
    pending = list(taken)
    while pending:
        for parent in expected.stages[pending.pop()].parents:
            if parent not in passed and parent not in taken:
                passed.add(parent)
                pending.append(parent)
    begun_s = -math.inf
    for job, number in jobs.items():
        one = expected.jobs[number]
        if run.jobs[job].ended_ms is not None:
            passed.update(one.places)
        if one.ordered and run.jobs[job].alone:
            begun_s = max(begun_s, one.start_s)
    come = set(jobs.values())
    for number, one in enumerate(expected.jobs):
        if one.ordered and one.end_s <= begun_s and number not in come:
            passed.update(one.places)
    return passed


def _share(run: Run, exact: set[StageKey], container_core_s: Mapping[StageKey, float] | None) -> float | None:
    """Return the share of the work seen that known stages did. The work is measured, because the expected work of an unknown
    stage is a guess."""
    if not run.attempts:
        return None
    works = {
        key: stage.work_core_s(None if container_core_s is None else container_core_s.get(key, 0.0))
        for key, stage in run.attempts.items()
    }
    total = sum(works.values())
    if total <= 0:
        return len(exact) / len(works)
    return sum(work for key, work in works.items() if key in exact) / total


def _work_ratio(
    stages: Sequence[StageEstimate],
    cpu_source: CpuSource,
    run: Run,
    seen: Mapping[StageKey, StageEstimate],
    exact: set[StageKey],
    container_core_s: Mapping[StageKey, float] | None,
) -> tuple[float, float]:
    """Return (prior + real) / (prior + profiled) over finished matched stages, the real work of each kind clamped to its
    limits, and the number of stages of equal work that they are. Stages of a kind are clamped together, because an agent
    samples CPU once a second: which of many short stages it counts to is chance, and limits of each stage would make a bias
    of it."""
    if container_core_s is None and cpu_source == "container":
        return 1.0, 0.0
    prior = max(RATIO_PRIOR_CORE_S, RATIO_PRIOR_SHARE * sum(s.work_core_s for s in stages))
    works = defaultdict[str, list[tuple[float, float]]](list)
    for key in exact:
        stage, expected = run.attempts[key], seen[key]
        if not stage.teaches or expected.work_core_s <= 0:
            continue
        measured = None
        if container_core_s is not None and cpu_source == "container":
            measured = container_core_s.get(key, 0.0)
        works[kind(expected.signature)].append((stage.work_core_s(measured), expected.work_core_s))
    low, high = RATIO_LIMITS
    real = profiled = prior
    for alike in works.values():
        expected_core_s = math.fsum(expected for _, expected in alike)
        real += min(high * expected_core_s, max(low * expected_core_s, math.fsum(took for took, _ in alike)))
        profiled += expected_core_s
    finished = [expected for alike in works.values() for _, expected in alike]
    return real / profiled, as_equal(finished)


def pace(stages: Iterable[tuple[float, float]]) -> float:
    """Return how much longer this run's stages took than the model says: (prior + real) / (prior + modelled) over finished
    stages given as (real, modelled) seconds, within `PACE_LIMITS`. A busy or throttled machine shows here, because work is
    measured in core-seconds and does not show whether the cores granted could be used."""
    real = modelled = PACE_PRIOR_S
    for real_s, modelled_s in stages:
        if real_s > 0 and modelled_s > 0:
            real += real_s
            modelled += modelled_s
    return min(PACE_LIMITS[1], max(PACE_LIMITS[0], real / modelled))
