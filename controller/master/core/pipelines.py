"""Pipelines, which are jobs with one end together: the deadline of each job, split again when a job comes or ends.

A pipeline is the jobs of one user that name it and its end: applications that have not ended, and submissions that wait for
others. The newest job's end is that of all. A split must fit alongside other applications when a job comes; running jobs are
not judged again. The arithmetic is `stage_model.forecast.pipeline`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from controller.asks.pipeline_options import MOST_JOBS
from controller.master.core.application import Application, Target
from controller.master.core.dependencies import Job, WaitingJob
from controller.master.core.feasibility import rounded_up
from controller.master.core.guard import guarded
from controller.master.core.registry import Registry
from controller.master.core.remaining import promise
from controller.master.core.set_command import change, changed_record
from controller.wire.command import Change
from controller.wire.driver import NOBODY_UID
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.forecast.pipeline import PipelineJob, TimeSplit, split_time
from stage_model.forecast.virtual_time import Forecast
from stage_model.units import format_duration

Key = tuple[int, str, str]
"""User, name of a pipeline, and the only application where the user is not known."""
SPLITS_A_TICK = 2
"""A split of many jobs takes a part of a second, in which no one else is answered."""
LEAST_CHANGE_S, LEAST_CHANGE = 0.5, 0.01
"""A deadline that would move by less than both, the latter of the time that is left, stays."""


class Pipelines:
    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._split: dict[Key, tuple[object, ...]] = {}
        """The ids and cores of which the last split of each was made."""

    def admit(self, newcomer: Application, now_s: float) -> None:
        """Give the newcomer its share of the time that is left. Raise `InfeasibleDeadline` where that is too little for the
        whole, `BadInput` for too many jobs."""
        said = newcomer.options.pipeline
        if said is None or said.by_s is None:
            return
        key = _key(newcomer)
        others = [one for one in self._members().get(key, []) if one.id != newcomer.options.waited] if key else []
        if len(others) >= MOST_JOBS:
            raise BadInput(
                f"pipeline {said.name} would have {len(others) + 1} jobs, more than {MOST_JOBS}; submit it when one has ended"
            )
        found = self._plan([*others, newcomer], now_s)
        if not found.feasible and not newcomer.options.unjudged:
            why = _refusal(said.name, said.by_s, newcomer.elapsed_s(now_s), found)
            raise InfeasibleDeadline(f"{why}, or --force")
        due_s = found.due_s.get(newcomer.id)
        deadline_s = None if due_s is None else round(newcomer.elapsed_s(now_s) + due_s, 3)
        newcomer.record.options = replace(newcomer.options, deadline_s=deadline_s)

    def refusal(self, job: WaitingJob, now_s: float) -> str:
        """Return the refusal that the job would get if it came now, as `admit` gives it; empty if nothing speaks against
        it."""
        key = _key(job)
        others = self._members().get(key, []) if key else []
        if not others or job.pipeline is None:
            return ""
        found = self._plan([*others, job], now_s)
        return "" if found.feasible else _refusal(job.pipeline, _left_s(job, now_s), 0.0, found)

    def split_again(self, now_s: float) -> None:
        """Split the time of each pipeline that has changed since its last split, a few at a time; the pipeline with the
        oldest split comes first. After a restart, nothing is split on the cores of some workers while others may report."""
        if not self.registry.workers.all_heard(now_s):
            return
        members = self._members()
        for key in self._split.keys() - members.keys():
            del self._split[key]
        left = SPLITS_A_TICK
        for key in [*self._split, *(key for key in members if key not in self._split)]:
            there = members[key]
            running = [one for one in there if isinstance(one, Application)]
            seen = (*(one.id for one in there), self.registry.workers.cores(now_s, adopts=there[-1].attached))
            if self._split.get(key) == seen:
                continue
            if not left:
                return
            left -= 1
            self._split.pop(key, None)
            self._split[key] = seen
            if running:
                with guarded(running[-1], "splitting its pipeline's time"):
                    self._apply(there, running, now_s)

    def _apply(self, members: Sequence[Job], running: Sequence[Application], now_s: float) -> None:
        found = self._plan(members, now_s)
        for application in running:
            due_s, elapsed_s = found.due_s.get(application.id), application.elapsed_s(now_s)
            if not due_s:
                continue
            before = application.options.deadline_s
            moved_s = abs(elapsed_s + due_s - (before or 0.0))
            if before is not None and moved_s < max(LEAST_CHANGE_S, LEAST_CHANGE * due_s):
                continue
            with guarded(application, "giving it a new share of its pipeline's time"):
                record = changed_record(application, Change(deadline_s=round(elapsed_s + due_s, 3)), now_s)
                if record is not None:
                    change(application, record, now_s)
                    self.registry.save(application)
                self.registry.changes.application(application)

    def _members(self) -> dict[Key, list[Job]]:
        """Return the members of each pipeline in order of submission."""
        found = defaultdict[Key, list[Job]](list)
        for one in self.registry.jobs.present():
            key = _key(one)
            if key is not None and not one.ended:
                found[key].append(one)
        for there in found.values():
            there.sort(key=lambda one: one.started_s)
        return found

    def _plan(self, members: Sequence[Job], now_s: float) -> TimeSplit:
        """Return the split of a pipeline's time. Names of jobs are ids of applications and of submissions."""
        left_s, cores = _left_s(members[-1], now_s), self.registry.workers.cores(now_s, adopts=members[-1].attached)
        jobs = self._jobs(members, now_s)
        if not cores:  # the cores that the pipeline could have are not known; its time is split when a worker is there
            due_s = {job.name: left_s for job in jobs if job.forecast is not None} if left_s > 0 else {}
            return TimeSplit(feasible=True, cores=0.0, least_s=0.0, due_s=due_s)
        return split_time(jobs, left_s, cores)

    def _jobs(self, members: Sequence[Job], now_s: float) -> list[PipelineJob]:
        """Return the members as jobs, with what is left of each."""
        ids = {one.id: one.id for one in members}
        # others may still come after the submission of an application that registers now
        ids |= {one.options.waited: one.id for one in members if isinstance(one, Application) and one.options.waited}
        jobs = []
        for one in members:
            after = tuple(dict.fromkeys(ids[name] for name in self.registry.jobs.predecessors(one) if name in ids))
            jobs.append(PipelineJob(one.id, self._left(one, now_s), after))
        return jobs

    def _left(self, job: Job, now_s: float) -> Forecast | None:
        if isinstance(job, WaitingJob):
            return job.forecast
        claim = promise(job, Target(0.0, 0.0), self.registry.workers.capacity(job, now_s), now_s)
        return None if claim is None else claim.forecast


def _key(job: Job) -> Key | None:
    """Return the pipeline of a job; None for a job that names no pipeline with an end."""
    if isinstance(job, WaitingJob):
        name, uid = job.pipeline, job.uid
    else:
        said, uid = job.options.pipeline, job.uid
        name = said.name if said is not None and said.by_s is not None else None
    # drivers whose user is not known are not one user's
    return None if name is None else (uid, name, job.id if uid == NOBODY_UID else "")


def _left_s(job: Job, now_s: float) -> float:
    """Return the seconds until the end of the whole, as this job has it."""
    if isinstance(job, WaitingJob):
        return math.inf if job.due_s is None else job.due_s - now_s
    said = job.options.pipeline
    assert said is not None
    assert said.by_s is not None
    return said.by_s - job.elapsed_s(now_s)


def _refusal(name: str, by_s: float, spent_s: float, found: TimeSplit) -> str:
    """Return the refusal of a job, `spent_s` after its submission."""
    return (
        f"the end of pipeline {name}, {format_duration(by_s)}, cannot be met: with all {found.cores:.2f} cores what is left "
        f"of it takes {format_duration(found.least_s)}; accepted: {rounded_up(spent_s + found.least_s)} or more"
    )
