"""Makes a run record, which teaches, of a run that was folded. The same for live runs and event logs.

Not covered: who measures container CPU and allocation (the agents), what is derived from records (`estimate`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from stage_model.history.profile import RunRecord, StageRecord
from stage_model.history.run import Run
from stage_model.history.stage_run import StageKey, StageRun


def to_record(
    run: Run,
    *,
    id: str,  # noqa: A002 - the record's field
    name: str,
    main: str | None,
    when_ms: int,
    spark_version: str,
    cores: float,
    slots: int,
    executors: int,
    started_ms: int,
    ended_well: bool = True,
    arguments: tuple[str, ...] | None = None,
    container_core_s: Mapping[StageKey, float] | None = None,
    allocated_core_s: Mapping[StageKey, float] | None = None,
    throttled_s: Mapping[StageKey, float] | None = None,
    used_core_s: float | None = None,
) -> RunRecord:
    """The record of `run`.

    `started_ms` is the application's start (its submission) on the driver's clock, as the events' times are; `when_ms` is the
    wall clock's.
    `container_core_s` and `allocated_core_s` are core-seconds by (stage, attempt); without the former the executors'
    own CPU counts. `used_core_s` is the container CPU of all executors from their starts on, in stages or not; `throttled_s`
    are the seconds, by stage attempt, that quotas held threads back. `ended_well`: its driver did; else nothing is learned
    from the run.

    Stages that were cut off (`Run.cut_off`) are left out: a later run may be cut off elsewhere, or not at all. Their time
    counts as time of the driver, which had its own reasons to wait.
    """
    stages = [stage for stage in run.first_attempts() if not run.cut_off(stage)]
    parents = _parents(run)
    records = tuple(
        _stage(run, s, parents[s.info.stage], started_ms, container_core_s, allocated_core_s or {}, throttled_s or {})
        for s in stages
    )
    first_ms = min((s.submitted_ms for s in stages), default=started_ms)
    last_ms = max((s.last_ms for s in run.attempts.values() if not run.cut_off(s)), default=started_ms)
    end_ms = run.ended_ms if run.ended_ms is not None else last_ms
    return RunRecord(
        id=id,
        name=name,
        main=main,
        when_ms=when_ms,
        arguments=arguments,
        spark_version=spark_version,
        cores=cores,
        slots=slots,
        executors=executors,
        startup_s=_seconds(first_ms - started_ms),
        tail_s=_seconds(end_ms - last_ms),
        duration_s=_seconds(end_ms - started_ms),
        input_records=sum(stage.input_records for stage in records),
        cpu_source="executor" if container_core_s is None else "container",
        used_core_s=used_core_s,
        complete=run.complete and ended_well,
        stages=records,
    )


def _parents(run: Run) -> dict[int, tuple[StageRun, ...]]:
    """The stages that each stage waited for. A stage that was cut off is replaced by the stages that it waited for."""
    first = {stage.info.stage: stage for stage in run.first_attempts()}
    found: dict[int, tuple[StageRun, ...]] = {}
    for name, stage in first.items():
        waits = [parent for one in stage.waited_for for parent in (found[one] if run.cut_off(first[one]) else (first[one],))]
        found[name] = tuple(dict.fromkeys(waits))
    return found


def _stage(
    run: Run,
    stage: StageRun,
    parents: tuple[StageRun, ...],
    started_ms: int,
    container_core_s: Mapping[StageKey, float] | None,
    allocated_core_s: Mapping[StageKey, float],
    throttled_s: Mapping[StageKey, float],
) -> StageRecord:
    count = len(stage.done)
    mean_ms = stage.run_ms / count if count else 0.0
    variance = max(0.0, stage.run_ms_squares / count - mean_ms**2) if count else 0.0
    ready_ms = stage.submitted_ms if stage.ready_ms is None else stage.ready_ms
    if {parent.info.stage for parent in parents} != set(stage.waited_for):  # some of them were cut off
        ready_ms = max((parent.last_ms for parent in parents), default=started_ms)
    job = run.jobs.get(stage.job) if stage.job is not None else None
    return StageRecord(
        signature=stage.signature,
        structure=stage.structure,
        name=stage.info.name,
        job=job.ordinal if job else 0,
        sql=job.sql if job else None,
        parents=tuple(parent.signature for parent in parents),
        tasks=stage.info.tasks,
        slots=stage.slots,
        **stage.amounts._asdict(),
        batches=stage.batches,
        work_core_s=stage.work_core_s(None if container_core_s is None else container_core_s.get(stage.key, 0.0)),
        run_s=stage.run_ms / 1e3,
        task_s=mean_ms / 1e3,
        task_cv=math.sqrt(variance) / mean_ms if mean_ms else 0.0,
        skew=stage.longest_run_ms / mean_ms if mean_ms else 1.0,
        duration_s=_seconds((stage.completed_ms or stage.submitted_ms) - stage.submitted_ms),
        cores_s=allocated_core_s.get(stage.key),
        throttled_s=throttled_s.get(stage.key),
        start_s=_seconds(stage.submitted_ms - started_ms),
        gap_s=_seconds(stage.submitted_ms - ready_ms),
        teaches=stage.teaches,
    )


def _seconds(ms: int) -> float:
    """Milliseconds as seconds; a clock that was set back gives no negative time."""
    return max(0, ms) / 1e3
