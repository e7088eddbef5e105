"""The deadlines of a pipeline's jobs: one end for all, split so that the whole takes a constant number of cores. Pure.

Jobs start when the jobs that they come after have ended. A schedule with a constant number of cores shares them equally among
the jobs that run at a time, none with more than it can use; T(c) says how fast each goes. The schedule that counts has
the least number of cores with which the last job ends in time. A job's deadline is the time at which the first job after it
starts in that schedule. See docs/pipelines.md.

Not covered: other applications (`promises`), stages inside a job (`deadlines`).
"""

from __future__ import annotations

import graphlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from stage_model.errors import BadInput
from stage_model.forecast.promises import least_enough
from stage_model.forecast.virtual_time import Forecast


@dataclass(frozen=True, slots=True)
class PipelineJob:
    """`forecast` of the job's remaining work; None: not known. `after` names the jobs after which it starts."""

    name: str
    forecast: Forecast | None
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """`cores` are the cores that the whole takes, all cores if it is not `feasible`; with all cores it ends after `least_s`.
    `due_s`: the deadline of each job whose forecast is known. Seconds count from now."""

    feasible: bool
    cores: float
    least_s: float
    due_s: dict[str, float]


def split_time(jobs: Sequence[PipelineJob], left_s: float, cores: float) -> TimeSplit:
    """Return the deadlines for an end `left_s` seconds from now with at most `cores` > 0. Without enough time they are the
    deadlines of the schedule with all cores. A job without a forecast counts as taking no time and gets no deadline. Raise
    `BadInput` for a name that no job has, and for a circle."""
    _check_order({job.name: job.after for job in jobs})
    usable = {job.name: _usable(job.forecast) for job in jobs}
    spans = _schedule(jobs, usable, cores)
    least_s = _end_s(spans)
    feasible = least_s <= left_s
    taken = cores
    if feasible:
        taken = least_enough(0.0, cores, lambda fewer: _end_s(_schedule(jobs, usable, fewer)) <= left_s)
        spans = _schedule(jobs, usable, taken)
    # what the bisection leaves, and fixed times that no core stretches
    end_s = _end_s(spans)
    stretch = left_s / end_s if feasible and end_s > 0 else 1.0
    last_s = left_s if feasible else least_s
    next_s = dict.fromkeys((job.name for job in jobs), math.inf)
    for job in jobs:
        for earlier in job.after:
            next_s[earlier] = min(next_s[earlier], spans[job.name][0] * stretch)
    due_s = {job.name: min(next_s[job.name], last_s) for job in jobs if job.forecast is not None}
    return TimeSplit(feasible, taken, least_s, due_s)


def _check_order(after: Mapping[str, Collection[str]]) -> None:
    for name, earlier in after.items():
        for one in earlier:
            if one not in after:
                raise BadInput(f"job {name!r} is after {one[:80]!r}, which is not a job; accepted: {', '.join(after)}")
    try:
        graphlib.TopologicalSorter(after).prepare()
    except graphlib.CycleError as error:
        circle = " before ".join(error.args[1])
        raise BadInput(f"{circle} is a circle; no job may wait for itself") from error


_Spans = dict[str, tuple[float, float]]
"""Start and end of each job."""


def _end_s(spans: _Spans) -> float:
    return max((end_s for _, end_s in spans.values()), default=0.0)


def _schedule(jobs: Sequence[PipelineJob], usable: Mapping[str, float], cores: float) -> _Spans:
    left = {job.name: 1.0 for job in jobs}  # shares of what each has to do
    started: dict[str, float] = {}
    spans: _Spans = {}
    now_s = 0.0
    while left:
        running = [job for job in jobs if job.name in left and not any(earlier in left for earlier in job.after)]
        shares = _shares([usable[job.name] for job in running], cores)
        lasts = {
            job.name: 0.0 if job.forecast is None else job.forecast.time_s(share)
            for job, share in zip(running, shares, strict=True)
        }
        step_s = min(left[name] * lasting_s for name, lasting_s in lasts.items())
        for name, lasting_s in lasts.items():
            started.setdefault(name, now_s)
            if left[name] * lasting_s <= step_s:
                del left[name]
                spans[name] = (started[name], now_s + step_s)
            else:
                left[name] -= step_s / lasting_s
        now_s += step_s
    return spans


def _usable(forecast: Forecast | None) -> float:
    """Return the cores beyond which the job is no faster."""
    if forecast is None:
        return 0.0
    return forecast.speed_limit * max((tasks for tasks, _ in forecast.states), default=0.0)


def _shares(usable: Sequence[float], cores: float) -> list[float]:
    """Return equal shares; the other jobs share the cores that one job cannot use."""
    shares = [0.0] * len(usable)
    for place, index in enumerate(sorted(range(len(usable)), key=usable.__getitem__)):
        shares[index] = min(usable[index], cores / (len(usable) - place))
        cores -= shares[index]
    return shares
