"""The end of a run: its summary and stages go into the run folder, its record into the profile."""

from __future__ import annotations

import logging
from typing import Any

from msgspec import structs

from controller.master.actions import Action
from controller.master.application import Application
from controller.master.capacity import Capacity
from controller.master.recorder import Recorder
from controller.master.summary import error_pct, use_between
from controller.profile_store import ProfileStore
from controller.run_folder import StageSpan
from stage_model.errors import PaceError
from stage_model.match import match
from stage_model.run_record import to_record

log = logging.getLogger("sparkpace.master")


def finish(application: Application, recorder: Recorder, profiles: ProfileStore, most: Capacity, runtime: str) -> list[str]:
    """Writes the record and teaches the profile; returns the ids of old runs that were removed."""
    application.record.succeeded = succeeded(application)
    taught = _teach(application, profiles, most)
    summary = _summary(application, recorder, most, runtime, taught)
    return recorder.finish(application.id, summary, _stages(application))


def succeeded(application: Application) -> bool:
    """It ended by itself, with all its jobs done."""
    return application.ended and not application.record.end_reason and application.run.complete


def _teach(application: Application, profiles: ProfileStore, most: Capacity) -> bool:
    """Every run that ended by itself with all its jobs done updates its profile; others would teach what never ended."""
    if not application.record.succeeded:
        log.info("%s teaches nothing: it did not run to its end", application.id)
        return False
    record = to_record(
        application.run,
        id=application.id,
        name=application.name,
        main=application.record.registration.main,
        when_ms=round(application.record.started_epoch_s * 1000),
        started_ms=round(application.record.started_epoch_s * 1000),
        arguments=application.options.arguments,
        spark_version=application.record.registration.spark_version,
        cores=most.cores,
        slots=most.slots,
        executors=len(application.executors),
        container_core_s=application.stage_use(),
        allocated_core_s=application.stage_allocation(),
    )
    try:
        profiles.learn(application.profile_key, record)
    except (PaceError, OSError) as error:
        log.error("%s could not teach profile %s: %s", application.id, application.profile_key, error)
        return False
    return True


def _summary(application: Application, recorder: Recorder, most: Capacity, runtime: str, taught: bool) -> dict[str, Any]:
    record, options, run = application.record, application.options, application.run
    samples = recorder.samples(application.id)
    start_s, end_s = (application.since_submission(ms) for ms in (application.first_task_ms, application.last_task_ms))
    use = use_between(samples, start_s, end_s)
    ended_s = record.ended_s or 0.0
    workers = {e.record.worker_id for e in application.executors.values()}
    matched = match(application.estimate, run).matched_share if application.estimate else None
    return {
        "app_id": application.id,
        "name": application.name,
        "main": record.registration.main,
        "law": options.law,
        "settings": options.settings,
        "priority": options.priority,
        "runtime": runtime,
        "deadline_s": options.deadline_s,
        "changes": [structs.asdict(change) for change in record.changes],
        "end_s": round(ended_s, 3),
        "error_pct": _rounded(error_pct(ended_s, options.deadline_s)),
        "actions": [_action(application, action) for action in application.actions.by_key.values()],
        "violated": None if options.deadline_s is None else ended_s > options.deadline_s,
        "end_reason": record.end_reason,
        "first_task_s": round(start_s, 3),
        "last_task_s": round(end_s, 3),
        "allocated_core_s": round(use.allocated_core_s, 3),
        "used_core_s": round(use.used_core_s, 3),
        "all_cores_core_s": round(most.cores * max(0.0, end_s - start_s), 3),
        "peak_cores": round(use.peak_cores, 3),
        "withheld_core_s": round(application.withheld_core_s(), 3),
        "debt_core_s": round(application.debt_core_s(), 3),
        "cluster_cores": most.cores,
        "executors": len(application.executors),
        "workers": sorted(workers),
        "tasks": sum(len(stage.done) for stage in run.attempts.values()),
        "tasks_failed": run.tasks_failed,
        "executors_lost": application.executors_lost,
        "data_waits": [structs.asdict(wait) for wait in application.record.data_waits],
        "evicted": [
            {"executor": e.record.executor_id, "worker": e.record.worker_id, "for": e.record.evicted_for}
            for e in application.executors.values()
            if e.record.evicted_for
        ],
        "profile": application.profile_key,
        "profile_runs": application.profile_runs,
        "profile_match": _rounded(matched),
        "taught": taught,
        "spark_version": record.registration.spark_version,
        "submitted_epoch_s": round(record.started_epoch_s, 3),
    }


def _action(application: Application, action: Action) -> dict[str, Any]:
    """A job or query with a deadline of its own; times count from submission, its error from its own start."""
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


def _stages(application: Application) -> list[StageSpan]:
    return [
        StageSpan(
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
