"""The bounds of an application's largest stages (which of them more cores would shorten, and what holds the others), and the
largest part of the time that no number of cores shortens. Pure.

All follows from the estimate of each stage: the driver's time before it, its fixed time with Spark's metrics of its waiting,
and its work as a schedule on the slots that there are. Times are those of the runs that the estimate is from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from stage_model.forecast.estimate import ApplicationEstimate, StageEstimate, estimate
from stage_model.forecast.fixed import MOST_SLOTS
from stage_model.forecast.overlap import overlapping
from stage_model.forecast.virtual_time import stages_busy
from stage_model.history.profile import RunRecord, profile
from stage_model.history.signature import kind, stage_names
from stage_model.units import format_duration

LARGEST = 5
"""Number of stages that are shown; repetitions of one count once."""
LEAST_BUSY = 0.5
"""Share of the slots that tasks keep busy while they compute: below it there are too few tasks, or one lasts too long."""
EXPLAINED = 0.5
"""Share of a stage's fixed time above which waiting that Spark measured is named as the stage's bound."""

Bound = Literal["CPU", "too few tasks", "disk", "network", "waiting", "driver"]
_WORDS: Mapping[Bound, str] = {
    "disk": "waiting for the disk",
    "network": "waiting for the network",
    "waiting": "waiting",
    "driver": "start-up and pauses of the driver",
}


class StageBound(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that the program ran `number` times, and its `bound`: the largest part of its `time_s`, which are the seconds
    from the end of the stages that it waited for to its own end, summed up. The parts are the driver's time, fixed time
    (`waits_for` names it) and the computing of its tasks, which is bound by `CPU`, or by `too few tasks` to keep the slots
    busy. `tasks` are those of the longest repetition. `share` is the part of the run's duration, at most 1; stages that ran
    at the same time may have more than 1 together."""

    name: str
    number: int
    bound: Bound
    tasks: int
    time_s: float
    share: float


def stage_bounds(expected: ApplicationEstimate, slots: int, duration_s: float) -> tuple[StageBound, ...]:
    """Return the largest stages of a run of `duration_s` on these slots, the largest first."""
    groups = {stage.index: group for group in overlapping(expected.stages) for stage in group}
    repeated: dict[str, list[StageEstimate]] = {}
    for stage in expected.stages:
        repeated.setdefault(_origin(stage), []).append(stage)
    found = []
    for stages in sorted(repeated.values(), key=lambda stages: _time_s(*stages), reverse=True)[:LARGEST]:
        longest, time_s = max(stages, key=_time_s), _time_s(*stages)
        found.append(
            StageBound(
                name=longest.name,
                number=len(stages),
                bound=_bound(stages, longest, groups[longest.index], slots),
                tasks=longest.tasks,
                time_s=time_s,
                share=_share(time_s, duration_s),
            )
        )
    return tuple(found)


def run_bounds(run: RunRecord) -> tuple[StageBound, ...]:
    """Return what bounded the largest stages of a complete run by itself. Raise `BadInput` for a run that is not complete."""
    return stage_bounds(estimate(profile("run", [run])), max(1, run.slots), run.duration_s)


def driver_share(expected: ApplicationEstimate, duration_s: float) -> float:
    """Return the part of a run's duration in which no stage was under way: before the first, between stages, and after the
    last."""
    idle_s, end_s = expected.startup_s + expected.tail_s, expected.startup_s
    for stage in expected.stages:
        # not the stage's gap: this counts from the stages that it waited for, and others may have been under way
        idle_s += max(0.0, stage.start_s - end_s)
        end_s = max(end_s, stage.start_s + stage.duration_s)
    return _share(idle_s, duration_s)


def hindrance(expected: ApplicationEstimate, slots: int, deadline_s: float) -> str:
    """Return the words that follow a duration if no number of cores keeps the deadline (seconds after submission): the
    largest part of the time that no cores shorten. Return an empty text if that time is not longer than the deadline."""
    parts: dict[Bound, float] = {"driver": expected.first_task_s + expected.tail_s, "waiting": expected.rest_s}
    for group in overlapping(expected.stages):
        # as a schedule has it: fixed times of stages side by side pass together
        longest = max(group, key=lambda stage: stage.fixed_s)
        bound = waits_for(longest, slots)
        parts["driver"] += group[0].gap_s
        parts[bound] = parts.get(bound, 0.0) + longest.fixed_s
    if sum(parts.values()) <= deadline_s:
        return ""
    largest = max(parts, key=lambda name: parts[name])
    return f", of which {format_duration(parts[largest])} are {_WORDS[largest]}, which more cores do not shorten"


def _origin(stage: StageEstimate) -> str:
    """Return what a stage has in common with its repetitions: its call site with the line, or its kind, where the call site
    is that of a thread of Spark's own."""
    names = stage_names(kind(stage.signature), "", stage.name, result=False)
    return stage.name if names.site else names.kind


def _time_s(*stages: StageEstimate) -> float:
    return math.fsum(stage.gap_s + stage.duration_s for stage in stages)


def _share(seconds: float, duration_s: float) -> float:
    return min(1.0, seconds / duration_s) if duration_s > 0 else 0.0


def _bound(stages: Sequence[StageEstimate], longest: StageEstimate, group: Sequence[StageEstimate], slots: int) -> Bound:
    """Return the bound of a stage's repetitions; `group` are the stages that run at the same time as the `longest`."""
    gap_s, fixed_s = math.fsum(stage.gap_s for stage in stages), math.fsum(stage.fixed_s for stage in stages)
    computing_s = math.fsum(stage.duration_s for stage in stages) - fixed_s
    if gap_s >= max(fixed_s, computing_s):
        return "driver"
    if fixed_s >= computing_s:
        return waits_for(longest, slots)
    return "too few tasks" if _idle(group, slots) else "CPU"


def waits_for(stage: StageEstimate, slots: int) -> Bound:
    """Return the bound of a stage's fixed time: the `network`, where its tasks mostly waited for blocks of a shuffle, the
    `disk`, where they mostly wrote such blocks, else `waiting`: Spark has no metrics of other reasons, such as reading files.
    `slots` count where those of the stage's own run are not known."""
    if stage.waits is None:
        return "waiting"
    at_once = max(1, min(stage.tasks, stage.slots or slots))
    network_s, disk_s = stage.waits.fetch_s / at_once, stage.waits.write_s / at_once
    if max(network_s, disk_s) <= EXPLAINED * stage.fixed_s:
        return "waiting"
    return "network" if network_s > disk_s else "disk"


def _idle(group: Sequence[StageEstimate], slots: int) -> bool:
    """Return True if the tasks of stages that run at the same time leave slots idle for more than the end of a schedule."""
    if sum(stage.tasks for stage in group) < slots:
        return True
    # with more slots than MOST_SLOTS, a part of them with its part of the tasks is as busy as all of them
    part, slots = max(1.0, slots / MOST_SLOTS), min(slots, MOST_SLOTS)
    busy = stages_busy(tuple([(math.ceil(s.tasks / part), s.work_core_s / part, s.task_cv) for s in group]), slots)
    work_core_s = math.fsum(k * lasting for k, lasting in enumerate(busy, 1))
    return work_core_s < LEAST_BUSY * slots * sum(busy)
