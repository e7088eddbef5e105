"""Gaps in the events of a run: events that Spark dropped, ends of stages and jobs, CPU times, a clock that was set back.

Spark drops events when its listeners are slow, and says so only in the driver's log; the events that are left show it. Pure.
Not covered: what a run is read from (`eventlog`).
"""

from __future__ import annotations

from collections.abc import Sequence

from stage_model.history.all_attempts import kept_stages
from stage_model.history.eventlog import EventLog
from stage_model.history.profile import RunRecord
from stage_model.history.run import Run
from stage_model.history.stage_run import StageRun

WITHOUT_CPU_MS = 1000
"""Run time, in milliseconds, that tasks together cannot have without CPU; a coarse clock may show no CPU for less."""


def log_gaps(log: EventLog) -> tuple[str, ...]:
    """Return `gaps` of the log's run, and the gaps that only a log has."""
    found = []
    if log.started_ms is None:
        found.append("no SparkListenerApplicationStart; its name is not known, and its time counts from its first job")
    if not log.spark:
        found.append(
            "no SparkListenerEnvironmentUpdate; its main file and when it was submitted are not known, and each task counts "
            "as one core's"
        )
    if not log.end_known:
        found.append("no SparkListenerApplicationEnd, as Databricks writes none; it is taken to have ended with its last job")
    if log.strangers:
        found.append(f"{_count(len(log.strangers), 'executor')} that ran tasks and never came; their cores do not count")
    return (*found, *gaps(log.run))


def why_unusable(log: EventLog) -> str:
    """Return why neither a plan nor a profile follows from a log, although its run is `complete`, and what to give instead;
    empty: they follow."""
    whole = "; give one of a run of which no event was lost"
    if log.untimed and not log.run.attempts:
        return (
            "no times at which its stages were submitted (Submission Time), like all logs of Spark 2.2 and older; "
            "give one that Spark 2.3 or newer wrote"
        )
    if not log.slots:
        return f"no executor that could run a task (SparkListenerExecutorAdded), so its cores are not known{whole}"
    if not any(stage.done for stage in log.run.attempts.values()):
        return f"no task that ended well with its run time (SparkListenerTaskEnd), so its work is not known{whole}"
    return ""


def remarks(run: Run, record: RunRecord) -> tuple[str, ...]:
    """Return a clause for all that a plan has to say of a run and its record, and that is no gap; empty: there is nothing to
    say."""
    found = []
    stages = kept_stages(run)
    if retried := [stage.first for stage in stages if stage.retried]:
        counts = "the work and the time of all attempts count, so a run that loses nothing may end sooner"
        found.append(f"{_stages(retried)} needed more than one attempt, because output was lost; {counts}")
    if redone := [stage.first for stage in stages if not stage.retried and stage.ended > stage.first.info.tasks]:
        counts = "the work and the time of all of them count, so a run that loses nothing may end sooner"
        found.append(f"{_stages(redone)} did tasks again, because their output was lost with an executor; {counts}")
    if record.cores_there:
        least = min(step.cores for step in record.cores_there)
        found.append(
            f"executors came or went: {least:g} to {record.cores:g} cores were there; a plan has its cores from the beginning"
        )
    return tuple(found)


def gaps(run: Run) -> tuple[str, ...]:
    """Return a clause for each kind of gap, with what it means for what is learned; empty: nothing is missing."""
    stages = tuple(run.attempts.values())
    open_ones = [stage for stage in stages if stage.active]
    ended = [stage for stage in stages if stage.completed_ms is not None and stage.failure is None]
    short = [stage.first for stage in kept_stages(run) if stage.short and stage.last.completed_ms is not None]
    without_cpu = [stage for stage in stages if stage.run_ms_without_cpu]
    backward = [stage for stage in ended if (stage.completed_ms or 0) < stage.submitted_ms]
    found = []
    if run.tasks_unknown:
        found.append(f"{_count(run.tasks_unknown, 'task')} ended of stages that were never submitted; left out")
    if run.ends_unknown:
        found.append(f"{_count(run.ends_unknown, 'end')} of stages or jobs that never began; left out")
    if open_ones:
        found.append(f"{_stages(open_ones)} without an end; how long they took is unknown")
    if short:
        found.append(f"{_stages(short)} with fewer ends of tasks than tasks; missing ones count as the mean of the others")
    if sum(stage.run_ms_without_cpu for stage in without_cpu) >= WITHOUT_CPU_MS:
        found.append(
            f"{_stages(without_cpu)} without the CPU time of tasks (Executor CPU Time); their run time counts as work, "
            "which is too much where they waited"
        )
    if backward:
        found.append(
            f"{_stages(backward)} with an end before the beginning, because the clock was set back; their duration is unknown"
        )
    if run.ended_ms is not None and any((stage.completed_ms or 0) > run.ended_ms for stage in ended):
        found.append("stages with an end after the application's, because the clock was set back; its tail is not known")
    return tuple(found)


def why_incomplete(run: Run) -> str:
    """Return the reason why nothing may be learned from a log's run that is not `complete`, or that does not seem to have
    ended well."""
    failed = sum(job.ok is False and not job.cancelled for job in run.jobs.values())
    unended = run.jobs_cut_short if run.ended else sum(job.ok is None for job in run.jobs.values())
    reasons = [
        *([] if run.jobs else ["it has no job"]),
        *([f"{_count(failed, 'job')} failed"] if failed else []),
        *([f"{_count(unended, 'job')} did not end before the application"] if unended else []),
        *([] if run.ended else ["the application never ended"]),
    ]
    return ", ".join(reasons)


def _stages(stages: Sequence[StageRun]) -> str:
    """Return words such as: 2 stages (first stage 3)."""
    return f"{_count(len(stages), 'stage')} (first stage {stages[0].info.stage})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
