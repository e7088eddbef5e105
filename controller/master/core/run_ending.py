"""The end of a run: its summary, its stages, and the record that updates its profile, as far as they are known without the
samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from controller.master.core.actions import Action
from controller.master.core.application import Application
from controller.master.core.capacity import Capacity
from controller.master.core.lesson import why_untaught
from controller.master.core.summary import error_pct
from controller.wire.basis import Untaught
from controller.wire.course import StageCourse
from stage_model.forecast.match import match
from stage_model.history.profile import RunRecord
from stage_model.history.run_record import ContainerUse, RunFacts, to_record
from stage_model.history.stage_run import StageKey


@dataclass(frozen=True, slots=True)
class RunEnding:
    """All that is needed to write a run's record: what follows from its samples is still None in `summary`. `first_task_s`
    and `last_task_s` count from submission. `lesson` updates the profile; if it is None, `untaught` is the reason."""

    application_id: str
    summary: dict[str, Any]
    stages: Sequence[StageCourse]
    first_task_s: float
    last_task_s: float
    profile_key: str
    lesson: RunRecord | None
    untaught: Untaught | None


def run_ending(application: Application, most: Capacity, runtime: str) -> RunEnding:
    """Return what the record will say, as far as it is known without the samples."""
    stream = application.stream
    start_s, end_s = (application.since_submission(ms) for ms in (stream.first_task_ms, stream.last_task_ms))
    why = why_untaught(application.run, succeeded=application.succeeded, left_out=stream.left_out)
    return RunEnding(
        application_id=application.id,
        summary=_summary(application, most, runtime, start_s, end_s),
        stages=stage_spans(application),
        first_task_s=start_s,
        last_task_s=end_s,
        profile_key=application.profile_key,
        lesson=None if why else _lesson(application, most, start_s),
        untaught=why,
    )


def _lesson(application: Application, most: Capacity, first_task_s: float) -> RunRecord:
    """Return the record that updates the profile."""
    return to_record(
        application.run,
        RunFacts(
            id=application.id,
            name=application.name,
            main=application.record.registration.main,
            when_ms=round(application.record.started_epoch_s * 1000),
            started_ms=round(application.submitted_ms),
            first_task_s=first_task_s or None,
            room_s=min((e.record.created_s for e in application.executors.values() if not e.record.adopted), default=0.0),
            arguments=application.options.arguments,
            spark_version=application.record.registration.spark_version,
            cores=most.cores,
            slots=most.slots,
            executors=len(application.executors),
        ),
        ContainerUse(
            container_core_s=application.totals.stage_use(),
            allocated_core_s=application.totals.stage_allocation(),
            throttled_s=application.totals.stage_throttling(),
            cold_core_s=_cold_core_s(application),
            used_core_s=round(application.totals.used_core_s(), 3),
        ),
    )


def _cold_core_s(application: Application) -> dict[StageKey, float]:
    """Return the core-seconds of the cold part of each stage attempt of which it is known."""
    attempts = application.run.attempts
    found = {key: seen.cold_core_s(attempts[key].amounts.records) for key, seen in application.readings.items()}
    return {key: core_s for key, core_s in found.items() if core_s is not None}


def _summary(application: Application, most: Capacity, runtime: str, start_s: float, end_s: float) -> dict[str, Any]:
    record, options, run = application.record, application.options, application.run
    ended_s = record.ended_s or 0.0
    late = None if options.deadline_s is None else ended_s > options.deadline_s
    workers = {e.record.worker_id for e in application.executors.values()}
    found = match(application.estimate, run, application.totals.stage_use()) if application.estimate else None
    return {
        "app_id": application.id,
        "name": application.name,
        "submitted_name": record.submitted_name or None,
        "main": record.registration.main,
        "law": options.law,
        "settings": options.settings,
        "priority": options.priority,
        "runtime": runtime,
        "observed": options.observe,
        "deadline_s": options.deadline_s,
        "pipeline": options.pipeline,
        "changes": list(record.changes),
        "end_s": round(ended_s, 3),
        "error_pct": _rounded(error_pct(ended_s, options.deadline_s)) if application.succeeded else None,
        "actions": [_action(application, action) for action in application.actions.by_key.values()],
        "violated": late if late or application.succeeded else None,  # a run cut off before its deadline is neither
        "outcome": record.outcome,
        "end_reason": record.end_reason,
        "first_task_s": round(start_s, 3),
        "last_task_s": round(end_s, 3),
        "allocated_core_s": None,
        "used_core_s": None,
        "all_cores_core_s": round(most.cores * max(0.0, end_s - start_s), 3),
        "peak_cores": None,
        "withheld_core_s": round(application.totals.withheld_core_s(), 3),
        "debt_core_s": round(application.debt_core_s(), 3),
        "cluster_cores": most.cores,
        "executors": len(application.executors),
        "workers": sorted(workers),
        "tasks": sum(len(stage.done) for stage in run.attempts.values()),
        "tasks_failed": run.tasks_failed,
        "executors_lost": application.placement.lost,
        "data_waits": list(record.data_waits),
        "evicted": [
            {"executor": e.record.executor_id, "worker": e.record.worker_id, "for": e.record.evicted_for}
            for e in application.executors.values()
            if e.record.evicted_for
        ],
        "profile": application.profile_key,
        "profile_runs": application.profile_runs,
        "profile_match": _rounded(found.matched_share if found else None),
        "basis": record.basis,
        "lateness": record.lateness,
        "faults": application.faults,
        "events_missing": application.stream.missed + application.stream.left_out,
        "largest_stages": [],
        "taught": False,
        "untaught": None,
        "spark_version": record.registration.spark_version,
        "submitted_epoch_s": round(record.started_epoch_s, 3),
    }


def _action(application: Application, action: Action) -> dict[str, Any]:
    """Return a job or query with a deadline of its own; times count from submission, its error from its own start."""
    took_s = None if action.end_ms is None or action.under_way else (action.end_ms - action.start_ms) / 1000
    return {
        "name": action.name,
        "jobs": sorted(action.jobs),
        "start_s": application.since_submission(action.start_ms),
        "end_s": None if took_s is None else application.since_submission(action.end_ms),
        "deadline_s": action.deadline_s,
        "error_pct": None if took_s is None else _rounded(error_pct(took_s, action.deadline_s)),
        "violated": None if took_s is None else took_s > action.deadline_s,
    }


def stage_spans(application: Application) -> list[StageCourse]:
    return [
        StageCourse(
            stage=stage.info.stage,
            attempt=stage.info.attempt,
            name=stage.info.name,
            start_s=application.since_submission(stage.submitted_ms),
            end_s=None if stage.completed_ms is None else application.since_submission(stage.completed_ms),
            tasks=stage.info.tasks,
        )
        for stage in application.run.attempts.values()
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
