"""Fixed times of stages: the part of a duration that work and cores do not explain and that no core shortens.

Shuffle waits, task launch, result transfer and the like show up as the difference between a stage's real duration and the
virtual-time schedule of its work on the cores it had (docs/control.md, What goes in). Where executors came and went, the most
cores at one time do not explain how long a stage took, so its tasks are put on the slots that were there at each moment
(`lasting_s`). Not covered: cores that a quota shares among more tasks than cores (`virtual_time`).
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Sequence

from msgspec import structs

from stage_model.forecast.overlap import overlapping
from stage_model.forecast.virtual_time import Busy, Forecast, Sized, queued, stages_busy, with_waiting
from stage_model.history.profile import RunRecord, StageRecord

LEAST_CORES = 1e-6
"""Least cores with which anything ran: a profile may claim what no quota can be, and what divides to nothing."""
MOST_SLOTS = 1024
"""A profile may claim any number of slots and tasks; the time to model a stage must not grow with them."""


def fixed_times(run: RunRecord) -> dict[str, float]:
    """Return, for each stage by its signature, the seconds of its duration that no core shortens.

    A stage that ran next to others waited for slots that their tasks had. So no stage has more of such time than all of them
    together: than what is left of the time from the first one's start to the last one's end when all their work was done.
    """
    found = {}
    for group in overlapping(_launched(run)):
        alone_s = [_explained_s(stage, run) for stage in group]
        lasted_s = max(stage.start_s + stage.duration_s for stage in group) - group[0].start_s
        together_s = alone_s[0] if len(group) == 1 else max(*alone_s, _least_s(group, lasted_s, run))
        for stage, explained_s in zip(group, alone_s, strict=True):
            found[stage.signature] = max(0.0, min(stage.duration_s - explained_s, lasted_s - together_s))
    return found


def _launched(run: RunRecord) -> tuple[StageRecord, ...]:
    """Return the stages without the time in which the first executors started, which is in `RunRecord.launch_s`."""
    if not run.launch_s:
        return run.stages
    first_s = run.startup_s + run.launch_s
    return tuple(
        structs.replace(stage, start_s=first_s, duration_s=max(0.0, stage.duration_s - (first_s - stage.start_s)))
        if stage.start_s < first_s
        else stage
        for stage in run.stages
    )


def _explained_s(stage: StageRecord, run: RunRecord) -> float:
    """Return the seconds the model gives for the stage with the cores it had in that run."""
    if stage.duration_s <= 0:
        return 0.0
    if run.cores_there:
        return side_by_side_s((_sized(stage),), stage.start_s, run)
    cores = mean_cores((stage,), stage.duration_s, run)
    return modelled_s(_sized(stage), cores, run.cores, run.slots)


def _least_s(group: Sequence[StageRecord], lasted_s: float, run: RunRecord) -> float:
    """Return the seconds that the work of these stages takes at least with the cores that they had together."""
    if run.cores_there:
        return side_by_side_s([_sized(stage) for stage in group], group[0].start_s, run)
    cores = min(mean_cores(group, lasted_s, run), run.slots)
    return sum(stage.work_core_s for stage in group) / cores if cores >= LEAST_CORES else 0.0


def _sized(stage: StageRecord) -> Sized:
    return stage.tasks, stage.work_core_s, stage.task_cv


def side_by_side_s(stages: Sequence[Sized], since_s: float, run: RunRecord) -> float:
    """Return the seconds the model gives for stages that all begin at `since_s` of that run, with all the cores that were
    there at each moment."""
    if len(stages) == 1 and not run.cores_there:
        return modelled_s(stages[0], run.cores, run.cores, run.slots)
    if run.cores < LEAST_CORES:
        return 0.0
    tasks = sum(count for count, _, _ in stages)
    slots, part = max(1, run.slots), max(1.0, min(run.slots, tasks) / MOST_SLOTS)
    fewer = tuple([(math.ceil(count / part), work_core_s / part, cv) for count, work_core_s, cv in stages])
    speed = min(1.0, run.cores / slots)
    if not run.cores_there:
        return Forecast(stages_busy(fewer, min(round(slots / part), MOST_SLOTS)), 0.0, speed).time_s(run.cores / part)
    shares = [(step.since_s, step.cores / run.cores) for step in run.cores_there]
    steps = [(second, max(1, min(round(share * slots / part), MOST_SLOTS)) if share else 0) for second, share in shares]
    return lasting_s(fewer, since_s, steps, speed)


def mean_cores(stages: Sequence[StageRecord], seconds: float, run: RunRecord) -> float:
    """Return the cores allocated to the stages over these seconds, else the run's cores, which are the most."""
    allocated = [stage.cores_s for stage in stages if stage.cores_s]
    return min(run.cores, sum(allocated) / seconds) if seconds > 0 and len(allocated) == len(stages) else run.cores


def modelled_s(stage: Sized, cores: float, most_cores: float, slots: int, waiting_s: float = 0.0) -> float:
    """Return the seconds that a stage of this work takes with `cores` of at most `most_cores` on `slots`, if it waits for
    `waiting_s` of them at full speed; 0 without work or cores."""
    tasks, work_core_s, cv = stage
    cores = min(cores, most_cores)
    if work_core_s <= 0 or cores < LEAST_CORES:
        return 0.0
    busy, part = _part_busy(tasks, cv, slots)
    speed_limit = min(1.0, most_cores / max(1, slots))
    computing = tuple([work_core_s / part * v for v in busy])
    return with_waiting(computing, 0.0, waiting_s, speed_limit).time_s(cores / part)


def with_cores(run: RunRecord, cores: float) -> RunRecord:
    """Return the record of a run that had `cores` cores, which its events do not show: a quota below its slots held it. Of
    tasks with Python workers only run times are known (`StageRun.work_core_s`), of which a part was waiting for the
    others."""
    stages = tuple(
        structs.replace(stage, work_core_s=stage.run_s / _stretch(stage.tasks, stage.task_cv, cores, run.slots))
        if stage.work_core_s >= stage.run_s
        else stage
        for stage in run.stages
    )
    return structs.replace(run, cores=cores, cores_there=(), stages=stages)


def _stretch(tasks: int, cv: float, cores: float, slots: int) -> float:
    """Return the factor, at least 1, by which a stage's tasks run longer than they work when the running tasks share
    `cores`."""
    busy, part = _part_busy(tasks, cv, slots)
    return max(1.0, math.fsum(k * lasted * max(1.0, part * k / cores) for k, lasted in enumerate(busy, 1)))


def _part_busy(tasks: int, cv: float, slots: int) -> tuple[Busy, float]:
    """Return the busy tuple of one core-second, which every work stretches, so runs of one profile share it. More slots than
    tasks change nothing; of more than `MOST_SLOTS` one part, with its part of the tasks and cores, takes as long as all: how
    many parts there are is the second number."""
    slots = max(1, slots)
    part = max(1.0, min(slots, tasks) / MOST_SLOTS)
    return stages_busy(((round(tasks / part), 1.0, cv),), min(round(slots / part), MOST_SLOTS)), part


def lasting_s(stages: Sequence[Sized], since_s: float, steps: Sequence[tuple[float, int]], speed: float) -> float:
    """Return the seconds that stages, begun at `since_s`, take side by side, the earlier stage's tasks first.

    `steps` are (second, slots from then on), in order; the first holds before it, too. A task uses `speed` cores, more than
    0. Seconds without any slot are left out, because more cores would not have shortened them. If there is no slot any more,
    it is the time until then.
    """
    steady_core_s, works = queued(stages, max(slots for _, slots in steps))
    changes = [*(second for second, _ in steps[1:]), math.inf]
    at, clock, idle_s = bisect_right(changes, since_s), since_s, 0.0
    while steady_core_s > 0:
        rate = steps[at][1] * speed
        left_s = changes[at] - clock
        if rate * left_s >= steady_core_s:  # false where it is not a number: no slot for ever
            clock += steady_core_s / rate
            break
        if math.isinf(left_s):
            return clock - since_s - idle_s
        idle_s += 0.0 if rate else left_s
        steady_core_s -= rate * left_s
        clock, at = changes[at], at + 1
    ends: list[float] = []
    for work in works:
        while True:
            while changes[at] <= clock:
                at += 1
            while ends and ends[0] <= clock:
                heapq.heappop(ends)
            if len(ends) < steps[at][1]:
                break
            following = min(changes[at], ends[0] if ends else math.inf)
            if math.isinf(following):
                return clock - since_s - idle_s
            idle_s += 0.0 if ends else following - clock
            clock = following
        heapq.heappush(ends, clock + work / speed)
    return max(ends, default=clock) - since_s - idle_s
