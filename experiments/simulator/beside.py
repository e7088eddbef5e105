"""A job whose executors are on all workers, of which an important job without a deadline keeps one busy.

Both run twice, the job without a deadline and with one; to compare, the job runs by itself on all workers and on the workers
that the important one leaves, and both run under cpu-shares. Not covered: limits for the rows (the scenario).
"""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec

from experiments.simulator.engine import Control, Engine
from experiments.simulator.jobs import SimJob, random_shape
from experiments.simulator.learn import learned, pre_run
from experiments.simulator.pacing import Pacing
from experiments.simulator.schedulers import Shares
from experiments.simulator.state import REAL, SimSubmission, workers
from stage_model.history.profile import Profile
from stage_model.units import parse_priority

CLUSTER = workers(4, 2.0)
JOB_S, IMPORTANT_S = 60.0, 200.0
"""Seconds, roughly, of the job by itself on all workers, and of the important one on its own."""
LATER_S = 5.0
"""Seconds by which the important job comes first."""
STRETCH = 1.7
"""Deadline in times of the job by itself on all workers: more than it needs on three of them."""


class BesideRow(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds from the job's submission to its end: by itself on all workers, by itself on those that are left, next to the
    important one under cpu-shares and under ours; its deadline, and its end with it. `important_s`: the important one's end
    under ours, next to the job without and with the deadline."""

    seed: int
    all_s: float
    left_s: float
    shares_s: float
    ours_s: float
    deadline_s: float
    due_s: float
    important_s: tuple[float, float]


def beside(seed: int) -> BesideRow:
    rng = random.Random(seed)
    slots = sum(worker.slots for worker in CLUSTER)
    shapes = {
        "important": random_shape(rng, CLUSTER[0].slots, IMPORTANT_S),
        "job": random_shape(rng, slots, JOB_S),
    }
    drawn = {name: replace(shape.draw(rng), name=name) for name, shape in shapes.items()}
    profiles: dict[str, Profile] = {}
    for name, shape in shapes.items():
        before, record = pre_run(shape.draw(rng), CLUSTER[:1] if name == "important" else CLUSTER, effects=REAL, seed=seed)
        profiles[name] = learned(record, before.job)
    all_s, left_s = (pre_run(drawn["job"], on, effects=REAL, seed=seed)[0].end_s or 0.0 for on in (CLUSTER, CLUSTER[1:]))
    deadline_s = STRETCH * all_s
    shares_s, _ = _both(drawn, None, Shares(), seed)
    ours_s, important_s = _both(drawn, None, Pacing(profiles), seed)
    due_s, important_due_s = _both(drawn, deadline_s, Pacing(profiles), seed)
    return BesideRow(
        seed=seed,
        all_s=round(all_s, 3),
        left_s=round(left_s, 3),
        shares_s=round(shares_s, 3),
        ours_s=round(ours_s, 3),
        deadline_s=round(deadline_s, 3),
        due_s=round(due_s, 3),
        important_s=(round(important_s, 3), round(important_due_s, 3)),
    )


def _both(drawn: dict[str, SimJob], deadline_s: float | None, control: Control, seed: int) -> tuple[float, float]:
    """Return the seconds from submission to end of the job and of the important one."""
    asked = [
        SimSubmission(drawn["important"], priority=parse_priority("high"), executors=1),
        SimSubmission(drawn["job"], LATER_S, deadline_s=deadline_s),
    ]
    important, job = Engine(CLUSTER, asked, control, effects=REAL, seed=seed).run()
    return (job.end_s or 0.0) - LATER_S, important.end_s or 0.0
