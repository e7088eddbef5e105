"""The state of one run, folded from the driver's events: the single path for live runs and for event logs.

Every event costs O(1), a job O(its stages), a submitted stage O(what it waits for); repeated job and stage events (snapshots)
change nothing. Times are milliseconds of the driver's clock, as in events. Not covered: making a run record (`run_record`),
signatures (`signature`).
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest

from stage_model.history.events import (
    AnyEvent,
    ApplicationEnd,
    ExecutorAdded,
    ExecutorRemoved,
    JobEnd,
    JobStart,
    StageCompleted,
    StageInfo,
    StageSubmitted,
    TaskEnd,
)
from stage_model.history.signature import Signatures
from stage_model.history.stage_run import JobRun, StageKey, StageRun

MOST_WAITED_FOR = 100
"""Most last stages of a job that the next job waits for: each of its stages would otherwise have all of them as parents."""
MOST_SKIPPED = 1000
_NOT_A_FAILURE = "TaskKilled"
_DONE_AGAIN = "Resubmitted"
"""Beginning of the reason of a task whose output was lost with its executor: Spark runs it again in the same attempt."""


class Run:
    def __init__(self) -> None:
        self.ended_ms: int | None = None
        self.jobs_cut_short = 0
        """Number of jobs that were under way when the run ended, without those that the program had cancelled by then."""
        self.jobs: dict[int, JobRun] = {}
        self.attempts: dict[StageKey, StageRun] = {}
        self.tasks_failed = 0
        self.tasks_unknown = 0
        """Ends of tasks whose stage was never submitted, as far as is known."""
        self.ends_unknown = 0
        """Ends of stages that were never submitted and of jobs that never started, as far as is known."""
        self.lossy = False
        """True if events of the run were lost."""
        self._signatures = Signatures()
        self._infos: dict[int, StageInfo] = {}
        self._job_of_stage: dict[int, int] = {}
        self._latest: dict[int, StageRun] = {}
        self._last_end_ms = 0
        self._active: dict[StageKey, StageRun] = {}
        self._executed: dict[tuple[str | None, int], int] = {}
        self._last_ended_job: int | None = None
        self._open_jobs: set[int] = set()
        self._slots: dict[str, int] = {}
        self._slots_in_all = 0
        self._parts = 0

    # ------------------------------------------------------------ questions

    @property
    def ended(self) -> bool:
        return self.ended_ms is not None

    @property
    def size(self) -> int:
        """The amount that is kept and may have to be walked through: jobs, attempts, stages with their parents and scopes,
        and the stages that each attempt waited for; and executors."""
        return self._parts + len(self._slots)

    @property
    def complete(self) -> bool:
        """True if all of the run is known: it has jobs, it ended, and no event was lost. How its driver ended is another
        question."""
        return self.ended and not self.lossy and bool(self.jobs)

    @property
    def seems_well(self) -> bool:
        """True if the run ended well as far as its jobs show, for a driver that no one has seen end: no job was cut short,
        and the last job did not fail. After a job that failed earlier the program went on."""
        last = None if self._last_ended_job is None else self.jobs[self._last_ended_job]
        return self.ended and not self.jobs_cut_short and (last is None or last.ok is True or last.cancelled)

    def cut_off(self, stage: StageRun) -> bool:
        """Return True if the stage did not end well, because its job was cancelled or because the application ended first."""
        job, last = self.jobs.get(-1 if stage.job is None else stage.job), self._latest[stage.info.stage]
        return job is not None and (job.cancelled or job.ok is None) and (last.active or last.failure is not None)

    def active_stages(self) -> tuple[StageRun, ...]:
        """Return the stage attempts submitted and not completed, in order of submission."""
        return tuple(self._active.values())

    def first_attempts(self) -> tuple[StageRun, ...]:
        """Return the first seen attempt of each stage, in order of submission."""
        return tuple(tries[0] for tries in self.tries())

    def tries(self) -> tuple[tuple[StageRun, ...], ...]:
        """Return all attempts of each stage, in order of submission."""
        found: dict[int, list[StageRun]] = {}
        for stage in self.attempts.values():
            found.setdefault(stage.info.stage, []).append(stage)
        return tuple(map(tuple, found.values()))

    # ------------------------------------------------------------ events

    def apply(self, event: AnyEvent) -> None:
        """Take one event in. Of executors only their slots count."""
        match event:
            case ExecutorAdded():
                self._slots_in_all += event.cores - self._slots.pop(event.executor, 0)
                self._slots[event.executor] = event.cores
            case ExecutorRemoved():
                self._slots_in_all -= self._slots.pop(event.executor, 0)
            case TaskEnd():
                self._task_ended(event)
            case StageSubmitted():
                self._stage_submitted(event)
            case StageCompleted():
                self._stage_completed(event)
            case JobStart():
                self._job_started(event)
            case JobEnd():
                self._job_ended(event)
            case ApplicationEnd():
                self._application_ended(event)

    def replace_active(self, snapshot: Iterable[AnyEvent]) -> None:
        """Take a snapshot in after events were lost: jobs and stages that are active now, as their start events.

        A job or stage that was thought active and is not in the snapshot has ended, how is unknown; so nothing is learned
        from this run.
        """
        events = tuple(snapshot)
        self.lossy = True
        jobs = {event.job for event in events if isinstance(event, JobStart)}
        stages = {(e.info.stage, e.info.attempt) for e in events if isinstance(e, StageSubmitted)}
        last_ms = max((stage.submitted_ms for stage in self.attempts.values()), default=0)
        now_ms = max((e.time_ms for e in events if isinstance(e, JobStart | StageSubmitted)), default=last_ms)
        for key in self._active.keys() - stages:
            self._stage_completed(StageCompleted(stage=key[0], attempt=key[1], time_ms=now_ms))
        for job in sorted(self._open_jobs - jobs):
            self._job_ended(JobEnd(job=job, time_ms=now_ms, ok=True))
        for event in events:
            self.apply(event)

    def _job_started(self, event: JobStart) -> None:
        if event.job in self.jobs:
            return
        sql = self._signatures.job(event)
        self._parts += 1
        result, result_names = self._signatures.result(event) or (None, None)
        self.jobs[event.job] = JobRun(
            len(self.jobs),
            sql,
            event.time_ms,
            previous=self._last_ended_job,
            result=result,
            result_names=result_names,
            alone=not self._open_jobs,
        )
        self._open_jobs.add(event.job)
        for info in event.stages:
            self._describe(info)
            self._job_of_stage.setdefault(info.stage, event.job)

    def _job_ended(self, event: JobEnd) -> None:
        job = self.jobs.get(event.job)
        if job is None:
            self.ends_unknown += 1
            return
        job.ended_ms, job.ok, job.cancelled = event.time_ms, event.ok, event.cancelled
        if self.ended and event.job in self._open_jobs and event.cancelled and not event.cut_short:
            # a program that cancels a job and stops Spark at once: the job's end comes after the application's
            self.jobs_cut_short -= 1
        self._open_jobs.discard(event.job)
        self._last_ended_job = event.job

    def _application_ended(self, event: ApplicationEnd) -> None:
        """End the run. Spark cancels jobs that are under way now after this event."""
        self.ended_ms = event.time_ms
        self.jobs_cut_short = len(self._open_jobs)

    def _stage_submitted(self, event: StageSubmitted) -> None:
        info = event.info
        key = (info.stage, info.attempt)
        if key in self.attempts:
            return
        self._describe(info)
        job = self._job_of_stage.get(info.stage)
        waited_for, ready_ms = self._waited_for(info, job)
        if info.stage in self._latest:
            ready_ms = event.time_ms if self._active else self._last_end_ms
        self._parts += 1 + len(waited_for)
        signature = self._signatures.submitted(info)
        stage = StageRun(
            info=info,
            signature=signature,
            structure=self._signatures.structure(info.stage),
            job=job,
            submitted_ms=event.time_ms,
            waited_for=waited_for,
            ready_ms=ready_ms,
            slots=self._slots_in_all,
        )
        if job is not None and info.stage not in self._latest:
            self.jobs[job].submitted.append(info.stage)
            self.jobs[job].last = None
        self.attempts[key] = self._latest[info.stage] = self._active[key] = stage

    def _describe(self, info: StageInfo) -> None:
        if info.stage not in self._infos:
            self._infos[info.stage] = info
            self._parts += 1 + len(info.parents) + len(info.scopes)

    def _stage_completed(self, event: StageCompleted) -> None:
        key = (event.stage, event.attempt)
        stage = self.attempts.get(key)
        if stage is None:
            self.ends_unknown += 1
            return
        stage.completed_ms, stage.failure = event.time_ms, event.failure
        self._last_end_ms = max(self._last_end_ms, stage.last_ms)
        self._active.pop(key, None)
        if event.failure is None:
            self._executed[self._twin_key(event.stage)] = event.stage

    def _task_ended(self, event: TaskEnd) -> None:
        stage = self.attempts.get((event.stage, event.attempt))
        if not event.ok and not event.reason.startswith(_NOT_A_FAILURE):
            self.tasks_failed += 1
        if stage is None:
            self.tasks_unknown += 1
            return
        stage.all_run_ms += event.run_ms
        if event.reason.startswith(_DONE_AGAIN):
            stage.done.discard(event.index)
        elif event.ok and event.index not in stage.done:
            stage.count(event)

    def _waited_for(self, info: StageInfo, job: int | None) -> tuple[tuple[int, ...], int | None]:
        """Return the executed stages that had to end first: parents (for a skipped one the stage that did its work), and
        before a job's first stages whatever the previous job ended with; and the time when the last of them, or that job,
        ended."""
        parents = self._executed_parents(info)
        ends = [self._latest[parent].last_ms for parent in parents]
        here = self.jobs.get(job) if job is not None else None
        if here is not None and not any(self._job_of_stage.get(parent) == job for parent in parents):
            before = self.jobs.get(here.previous) if here.previous is not None else None
            if before is not None and before.ended_ms is not None:
                ends.append(before.ended_ms)
                parents |= self._last_of(before)
        return tuple(sorted(parents)), max(ends, default=None)

    def _last_of(self, job: JobRun) -> frozenset[int]:
        """Return the stages of a job that no other stage of it waited for; of very many, the stages that ended last, which is
        the longest wait."""
        if job.last is None:
            needed = {parent for stage in job.submitted for parent in self._latest[stage].waited_for}
            last = (stage for stage in job.submitted if stage not in needed)
            job.last = frozenset(nlargest(MOST_WAITED_FOR, last, key=lambda stage: self._latest[stage].completed_ms or 0))
        return job.last

    def _executed_parents(self, info: StageInfo) -> set[int]:
        """Return the stages that ran of those that the stage needs. Look through at most `MOST_SKIPPED` skipped stages, so
        that no event costs more."""
        found: set[int] = set()
        pending, visited = list(info.parents), {info.stage}
        while pending and len(visited) <= MOST_SKIPPED + len(info.parents):
            parent = pending.pop()
            if parent in visited:
                continue
            visited.add(parent)
            latest = self._latest.get(parent)
            twin = self._executed.get(self._twin_key(parent)) if parent in self._infos else None
            if latest is not None:
                found.add(parent)
            elif twin is not None:
                found.add(twin)
            elif parent in self._infos:
                pending.extend(self._infos[parent].parents)
        return found - {info.stage}

    def _twin_key(self, stage: int) -> tuple[str | None, int]:
        """Return the key that stages which compute the same data have in common: one is skipped because the other ran."""
        return self._signatures.shape(stage), self._infos[stage].tasks
