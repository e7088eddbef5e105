"""The end of a run: its summary and stages go into the run folder, its record into the profile.

What is known of the run is put together at once (`prepare_ending`); reading its samples and writing take their time and are
done off the master's loop (`write_ending`), tried again when they fail, and given up in the end (`Finisher`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor, Future
from dataclasses import asdict, dataclass, field
from typing import Any

from msgspec import structs

from controller.asks.pipeline_options import PipelineOptions
from controller.machine.back_off import BackOff
from controller.machine.files import no_space
from controller.master.actions import Action
from controller.master.application import Application
from controller.master.capacity import Capacity
from controller.master.guard import Caught
from controller.master.lesson import NoLesson, untaught, why_untaught
from controller.master.storage.recorder import Recorder
from controller.master.summary import error_pct, use_between
from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import StageSpan
from controller.wire.basis import Untaught
from stage_model.errors import NotStored, PaceError
from stage_model.forecast.match import match
from stage_model.history.profile import RunRecord
from stage_model.history.run_record import ContainerUse, RunFacts, to_record

log = logging.getLogger("sparkpace.master")

BACK_OFF = BackOff(first_s=1.0, most_s=60.0)
"""Waits between two tries to write a record."""
MOST_TRIES = 20
"""A record that cannot be written in a quarter of an hour is given up: nothing may wait for it for ever. Only a full disk is
waited for: it passes, and a fault in what the record is made of would not."""


@dataclass(frozen=True, slots=True)
class Ending:
    """All that is needed to write a run's record: what follows from its samples is still None in `summary`. `first_task_s`
    and `last_task_s` count from submission. `lesson` updates the profile; if it is None, `untaught` is the reason."""

    application_id: str
    summary: dict[str, Any]
    stages: Sequence[StageSpan]
    first_task_s: float
    last_task_s: float
    profile_key: str
    lesson: RunRecord | None
    untaught: Untaught | None


@dataclass(slots=True)
class _Try:
    """The tries to write a record. `under_way` None: the next one is due at `due_s`."""

    most: Capacity
    runtime: str
    under_way: Future[Written] | None = None
    failed: int = 0
    due_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Written:
    """The result of a written record: ids of old runs that were removed, and the reason if the run taught nothing. `problem`
    is the reason if there is no record."""

    removed: Sequence[str] = ()
    untaught: Untaught | None = None
    problem: str = ""


@dataclass(slots=True)
class Finisher:
    """The writer of records, on threads of `pool`."""

    recorder: Recorder
    profiles: ProfileStore
    pool: Executor
    _tries: dict[str, _Try] = field(default_factory=dict)

    def begun(self, application: Application) -> bool:
        return application.id in self._tries

    def begin(self, application: Application, most: Capacity, runtime: str) -> None:
        """Let `step` bring the application's record about from now on."""
        self._tries[application.id] = _Try(most, runtime)

    def step(self, application: Application, now_s: float) -> Written | None:
        """Begin or look after the writing of a record; return None as long as it is not over."""
        now = self._tries[application.id]
        if now.under_way is None and now_s >= now.due_s:
            with Caught() as problem:
                ending = prepare_ending(application, now.most, now.runtime)
                now.under_way = self.pool.submit(write_ending, ending, self.recorder, self.profiles)
            if problem.error is not None:
                return self.failed(application, problem.error, now_s)
        if now.under_way is None or not now.under_way.done():
            return None
        error = now.under_way.exception()
        if error is None:
            return now.under_way.result()
        return self.failed(application, error, now_s)

    def failed(self, application: Application, error: BaseException, now_s: float) -> Written | None:
        """Put the next try off after a failed one. After the last one, return that there is no record."""
        now = self._tries[application.id]
        now.under_way, now.failed = None, now.failed + 1
        now.due_s = now_s + BACK_OFF.wait_s(now.failed)
        passes = no_space(error) or isinstance(error, NotStored)
        if now.failed == 1:
            said = "the record of %s cannot be written and will be tried again: %s"
            log.error(said, application.id, error, exc_info=None if passes else error)
        if now.failed < MOST_TRIES or passes:
            return None
        problem = f"its record could not be written: {error}"
        log.error("%s: %s; given up after %d tries", application.id, problem, now.failed)
        return Written(problem=problem)

    def over(self, application: Application) -> None:
        """Forget what was kept for the application."""
        self._tries.pop(application.id, None)


def prepare_ending(application: Application, most: Capacity, runtime: str) -> Ending:
    """Return what the record will say, as far as it is known without the samples."""
    start_s, end_s = (application.since_submission(ms) for ms in (application.first_task_ms, application.last_task_ms))
    why = why_untaught(application.run, succeeded=application.succeeded, left_out=application.left_out)
    return Ending(
        application_id=application.id,
        summary=_summary(application, most, runtime, start_s, end_s),
        stages=stage_spans(application),
        first_task_s=start_s,
        last_task_s=end_s,
        profile_key=application.profile_key,
        lesson=None if why else _lesson(application, most),
        untaught=why,
    )


def write_ending(ending: Ending, recorder: Recorder, profiles: ProfileStore) -> Written:
    """Write the record and teach the profile. Raise `PaceError` and `OSError`. A record that is written twice is the same."""
    try:
        use = use_between(recorder.samples(ending.application_id), ending.first_task_s, ending.last_task_s)
        used = {name: round(value, 3) for name, value in asdict(use).items()}
    except PaceError as error:
        log.error("%s: what it used is not known: %s", ending.application_id, error)
        used = {}
    why = _teach(ending, profiles)
    taught = {"taught": why is None, "untaught": None if why is None else structs.asdict(why)}
    removed = recorder.finish(ending.application_id, {**ending.summary, **used, **taught}, ending.stages)
    return Written(removed, why)


def _lesson(application: Application, most: Capacity) -> RunRecord:
    """Return the record that updates the profile."""
    return to_record(
        application.run,
        RunFacts(
            id=application.id,
            name=application.name,
            main=application.record.registration.main,
            when_ms=round(application.record.started_epoch_s * 1000),
            started_ms=round(application.submitted_ms),
            arguments=application.options.arguments,
            spark_version=application.record.registration.spark_version,
            cores=most.cores,
            slots=most.slots,
            executors=len(application.executors),
        ),
        ContainerUse(
            container_core_s=application.stage_use(),
            allocated_core_s=application.stage_allocation(),
            throttled_s=application.stage_throttling(),
            used_core_s=round(application.used_core_s(), 3),
        ),
    )


def _teach(ending: Ending, profiles: ProfileStore) -> Untaught | None:
    """Teach the profile. Return the reason if that is not possible."""
    if ending.lesson is None:
        log.info("%s teaches nothing: %s", ending.application_id, ending.untaught.sentence if ending.untaught else "")
        return ending.untaught
    try:
        profiles.learn(ending.profile_key, ending.lesson, newest=True)
    except (PaceError, OSError, ValueError, ArithmeticError) as error:
        if no_space(error):
            raise  # the record has no room either, and both are tried again
        # whatever is wrong with the profile, the run's record is written
        log.error("%s could not teach profile %s: %s", ending.application_id, ending.profile_key, error)
        return untaught(NoLesson.PROFILE, str(error))
    return None


def _summary(application: Application, most: Capacity, runtime: str, start_s: float, end_s: float) -> dict[str, Any]:
    record, options, run = application.record, application.options, application.run
    ended_s = record.ended_s or 0.0
    late = None if options.deadline_s is None else ended_s > options.deadline_s
    workers = {e.record.worker_id for e in application.executors.values()}
    found = match(application.estimate, run, application.stage_use()) if application.estimate else None
    return {
        "app_id": application.id,
        "name": application.name,
        "submitted_name": record.submitted_name or None,
        "main": record.registration.main,
        "law": options.law,
        "settings": options.settings,
        "priority": options.priority,
        "runtime": runtime,
        "deadline_s": options.deadline_s,
        "pipeline": _pipeline(options.pipeline),
        "changes": [structs.asdict(change) for change in record.changes],
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
        "profile_match": _rounded(found.matched_share if found else None),
        "basis": None if record.basis is None else structs.asdict(record.basis),
        "lateness": None if record.lateness is None else structs.asdict(record.lateness),
        "faults": application.faults,
        "events_missing": application.missed + application.left_out,
        "taught": False,
        "untaught": None,
        "spark_version": record.registration.spark_version,
        "submitted_epoch_s": round(record.started_epoch_s, 3),
    }


def _pipeline(said: PipelineOptions | None) -> dict[str, Any] | None:
    """Return the pipeline that the application was part of; `by_s`, its end, counts from submission."""
    if said is None:
        return None
    return {"name": said.name, "by_s": said.by_s}


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


def stage_spans(application: Application) -> list[StageSpan]:
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
