"""Many applications on many workers under the production's control: their results and the cost of the simulation.

Jobs of a few kinds arrive at random so that the cluster has a chosen load; each has a profile from a pre-run of its kind, a
random deadline and one of three priorities. Not covered: limits for the rows (the scenario).
"""

from __future__ import annotations

import cProfile
import pstats
import random
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import msgspec

from experiments.harness.machine import PROJECT
from experiments.simulator.engine import Engine
from experiments.simulator.jobs import Shape, random_shape
from experiments.simulator.learn import learned, pre_run
from experiments.simulator.pacing import Pacing
from experiments.simulator.state import REAL, SimSubmission, workers
from stage_model.history.profile import Profile
from stage_model.units import parse_priority

KINDS = 8
EXECUTORS = 4
SLOTS = 4
BASE_S = (40.0, 100.0)
STRETCH = (1.2, 2.5)
PRIORITIES = {"low": 0.3, "normal": 0.4, "high": 0.3}
"""Shares of the jobs by priority."""


class CrowdRow(msgspec.Struct, frozen=True, kw_only=True):
    """One simulated cluster. `wall_s`, `cpu_s`: of this machine; `virtual_s`: until the last job ended. `violated`: shares of
    the jobs by priority; `debt_core_s` are the core-seconds that were withheld and never given back."""

    workers: int
    jobs: int
    load: float
    wall_s: float
    cpu_s: float
    virtual_s: float
    decisions: int
    events: int
    mean_error_pct: float
    allocated_to_used: float
    violated: dict[str, float]
    withheld_core_s: float
    debt_core_s: float
    most_over_capacity: float
    where: dict[str, float] = {}
    """Share of the CPU by part of the program; only of a profiled run, which takes longer."""


def crowd(count: int, jobs: int, load: float, seed: int, *, profiled: bool = False) -> CrowdRow:
    """Simulate `jobs` jobs on `count` workers of 4 cores, each with executors on 4 of them."""
    rng = random.Random(seed)
    cluster = workers(count, float(SLOTS))
    kinds: list[tuple[Shape, Profile, float]] = []
    for number in range(KINDS):
        shape = replace(random_shape(rng, EXECUTORS * SLOTS, rng.uniform(*BASE_S)), name=f"kind{number}")
        app, record = pre_run(shape.draw(rng), cluster[:EXECUTORS], effects=REAL, seed=seed)
        assert app.end_s is not None
        kinds.append((shape, learned(record, app.job), app.end_s))
    submissions, at_s, works = [], 0.0, [sum(t * w for t, w in zip(s.tasks, s.task_core_s, strict=True)) for s, _, _ in kinds]
    every_s = (sum(works) / len(works)) / (load * count * SLOTS)
    names = list(PRIORITIES)
    for _ in range(jobs):
        at_s += rng.expovariate(1 / every_s)
        shape, _, base_s = rng.choice(kinds)
        name = rng.choices(names, list(PRIORITIES.values()))[0]
        submissions.append(
            SimSubmission(
                shape.draw(rng),
                at_s,
                base_s * rng.uniform(*STRETCH),
                priority=parse_priority(name),
                kind=name,
                executors=EXECUTORS,
            )
        )
    pacing = Pacing({shape.name: profile for shape, profile, _ in kinds})
    engine = Engine(cluster, submissions, pacing, effects=REAL, seed=seed)
    profile = cProfile.Profile() if profiled else None
    begun_s, begun_cpu_s = time.monotonic(), time.process_time()
    if profile:
        profile.runcall(engine.run)
    else:
        engine.run()
    wall_s, cpu_s = time.monotonic() - begun_s, time.process_time() - begun_cpu_s
    errors, late = [], defaultdict(list)
    for app in engine.apps:
        assert app.end_s is not None
        assert app.asked.deadline_s is not None
        took_s = app.end_s - app.asked.at_s
        errors.append(100 * (took_s - app.asked.deadline_s) / app.asked.deadline_s)
        late[app.asked.kind].append(took_s > app.asked.deadline_s)
    known = [paced.application for paced in pacing.paced.values()]
    return CrowdRow(
        workers=count,
        jobs=jobs,
        load=load,
        wall_s=round(wall_s, 2),
        cpu_s=round(cpu_s, 2),
        virtual_s=round(engine.now_s, 1),
        decisions=pacing.decisions,
        events=engine.events,
        mean_error_pct=round(sum(errors) / len(errors), 3),
        allocated_to_used=round(sum(a.allocated_core_s for a in engine.apps) / sum(a.used_core_s for a in engine.apps), 4),
        violated={name: round(sum(late[name]) / max(1, len(late[name])), 4) for name in names},
        withheld_core_s=round(sum(a.totals.withheld_core_s() for a in known), 1),
        debt_core_s=round(sum(a.debt_core_s() for a in known), 1),
        most_over_capacity=round(pacing.most_over_capacity, 6),
        where=_where(profile) if profile else {},
    )


def _where(profile: cProfile.Profile) -> dict[str, float]:
    """Return the share of the time spent in each module's own code; built-in functions are one module."""
    spent: dict[str, float] = defaultdict(float)
    for (file, _, _), (_, _, own_s, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        path = Path(file)
        name = str(path.relative_to(PROJECT)) if path.is_relative_to(PROJECT) else "Python and its library"
        spent[name] += own_s
    total = sum(spent.values())
    return {name: round(own_s / total, 4) for name, own_s in sorted(spent.items(), key=lambda item: -item[1])[:12]}
