"""The making of a run record, which teaches, from a run that was folded: the same for live runs and event logs.

Not covered: measuring container CPU and allocation (the agents), what is derived from records (`estimate`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct, structs

from stage_model.history.all_attempts import AllAttempts, kept_stages
from stage_model.history.profile import CoresThere, RunRecord, StageRecord
from stage_model.history.run import Run
from stage_model.history.stage_run import StageKey, StageRun


class RunFacts(Struct, frozen=True, kw_only=True):
    """Facts of a run that are not in its events, as in `RunRecord`. `started_ms` is the application's start (its submission)
    on the driver's clock, as the events' times are; `when_ms` is the wall clock's. The first task began at `first_task_s`
    (None: not known), and there was room for an executor from `room_s` on, in seconds after submission."""

    id: str
    name: str
    main: str | None
    when_ms: int
    spark_version: str
    cores: float
    slots: int
    executors: int
    started_ms: int
    first_task_s: float | None = None
    room_s: float = 0.0
    arguments: tuple[str, ...] | None = None
    cores_there: tuple[CoresThere, ...] = ()


class ContainerUse(Struct, frozen=True, kw_only=True):
    """Measurements of the containers by stage attempt: core-seconds used and allocated, seconds that quotas held threads
    back, and core-seconds of the cold part. `container_core_s` None: the executors' own CPU counts. `used_core_s` is the CPU
    of all executors from their starts on, in stages or not."""

    container_core_s: Mapping[StageKey, float] | None = None
    allocated_core_s: Mapping[StageKey, float] = {}
    throttled_s: Mapping[StageKey, float] = {}
    cold_core_s: Mapping[StageKey, float] = {}
    used_core_s: float | None = None


UNKNOWN_USE = ContainerUse()


def to_record(run: Run, facts: RunFacts, use: ContainerUse = UNKNOWN_USE, *, ended_well: bool = True) -> RunRecord:
    """Return the record of `run`. `ended_well`: the driver ended well; else nothing is learned from the run.

    Stages that were cut off (`Run.cut_off`) are left out: a later run may be cut off elsewhere, or not at all. Their time
    counts as time of the driver, which had its own reasons to wait. A stage that was tried again is recorded as if all its
    attempts had followed each other, and stages that need its output had waited for all of them.
    """
    stages = kept_stages(run)
    records = _stage_records(run, stages, facts.started_ms, use)
    first_ms = min((stage.first.submitted_ms for stage in stages), default=facts.started_ms)
    last_ms = max((s.last_ms for s in run.attempts.values() if not run.cut_off(s)), default=facts.started_ms)
    end_ms = run.ended_ms if run.ended_ms is not None else last_ms
    startup_s = _seconds(first_ms - facts.started_ms)
    known = structs.asdict(facts)
    del known["started_ms"], known["first_task_s"], known["room_s"]
    return RunRecord(
        **known,
        startup_s=startup_s,
        launch_s=None
        if facts.first_task_s is None
        else round(max(0.0, facts.first_task_s - max(startup_s, facts.room_s)), 3),
        tail_s=_seconds(end_ms - last_ms),
        duration_s=_seconds(end_ms - facts.started_ms),
        input_records=sum(stage.input_records for stage in records),
        cpu_source="executor" if use.container_core_s is None else "container",
        used_core_s=use.used_core_s,
        complete=run.complete and ended_well,
        stages=records,
    )


def _stage_records(run: Run, stages: Sequence[AllAttempts], started_ms: int, use: ContainerUse) -> tuple[StageRecord, ...]:
    parents = _parents(run)
    kept, ends, retried = list[StageRecord](), dict[int, float](), any(stage.retried for stage in stages)
    for stage in stages:
        waits = parents[stage.first.info.stage]
        record = _stage(run, stage, waits, started_ms, use)
        ready_s = max((ends[parent.info.stage] for parent in waits), default=0.0)
        if retried and ready_s > record.start_s:
            record = structs.replace(record, start_s=ready_s + record.gap_s)
        ends[stage.first.info.stage] = record.start_s + record.duration_s
        kept.append(record)
    return tuple(kept)


def _parents(run: Run) -> dict[int, tuple[StageRun, ...]]:
    """Return the stages that each stage waited for. The stages that a cut off stage waited for replace it."""
    first = {stage.info.stage: stage for stage in run.first_attempts()}
    found: dict[int, tuple[StageRun, ...]] = {}
    for name, stage in first.items():
        waits = [
            parent
            for earlier in stage.waited_for
            for parent in (found[earlier] if run.cut_off(first[earlier]) else (first[earlier],))
        ]
        found[name] = tuple(dict.fromkeys(waits))
    return found


def _stage(run: Run, stage: AllAttempts, parents: tuple[StageRun, ...], started_ms: int, use: ContainerUse) -> StageRecord:
    first, mean_ms = stage.first, stage.mean_ms
    ready_ms = first.submitted_ms if first.ready_ms is None else first.ready_ms
    if {parent.info.stage for parent in parents} != set(first.waited_for):  # some of them were cut off
        ready_ms = max((parent.last_ms for parent in parents), default=started_ms)
    job = run.jobs.get(first.job) if first.job is not None else None
    return StageRecord(
        signature=first.signature,
        structure=first.structure,
        name=first.info.name,
        job=job.ordinal if job else 0,
        sql=job.sql if job else None,
        parents=tuple(parent.signature for parent in parents),
        tasks=stage.tasks,
        slots=first.slots,
        **stage.amounts._asdict(),
        batches=first.batches,
        work_core_s=stage.work_core_s(use.container_core_s),
        run_s=stage.run_s,
        task_s=mean_ms / 1e3,
        task_cv=math.sqrt(stage.variance_ms2) / mean_ms if mean_ms else 0.0,
        skew=stage.longest_ms / mean_ms if mean_ms else 1.0,
        duration_s=_seconds(stage.lasted_ms),
        cores_s=stage.sum_of(use.allocated_core_s),
        throttled_s=stage.sum_of(use.throttled_s),
        cold_core_s=use.cold_core_s.get(first.key),
        waits=stage.waits,
        start_s=_seconds(first.submitted_ms - started_ms),
        gap_s=_seconds(first.submitted_ms - ready_ms),
        teaches=stage.teaches,
    )


def _seconds(ms: int) -> float:
    """Return the milliseconds as seconds; a clock that was set back gives no negative time."""
    return max(0, ms) / 1e3
