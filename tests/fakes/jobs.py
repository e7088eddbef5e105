"""Simulated jobs of plain numbers."""

from __future__ import annotations

import random
from collections.abc import Sequence

from experiments.simulator.jobs import SimJob, SimStage, log_normal


def log_normal_job(
    rng: random.Random,
    tasks: Sequence[int],
    task_core_s: Sequence[float],
    *,
    cv: float,
    profile_factor: float = 1.0,
    records_per_task: float | None = None,
    gap_s: float = 0.0,
    startup_s: float = 0.0,
) -> SimJob:
    """Make a job of stages with log-normal tasks of these mean works; the profile says `profile_factor` times the true
    work."""
    stages = []
    for count, mean in zip(tasks, task_core_s, strict=True):
        works = tuple(log_normal(rng, mean, cv) for _ in range(count))
        records = None if records_per_task is None else records_per_task * count
        stages.append(SimStage(works, records=records, gap_s=gap_s, profile_factor=profile_factor))
    return SimJob(tuple(stages), startup_s)
