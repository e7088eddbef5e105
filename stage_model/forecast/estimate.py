"""What to expect of an application, derived from its profile: order, work, gaps and fixed times of its stages.

The order is that of the most recent complete run, every number a median over the runs (another input size:
`scaling`). Container CPU counts where a run has it; other runs then only teach times and counts. Not covered:
comparing with a live run (`match`), how many cores that needs (`virtual_time`, `laws`). See docs/profiles.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import msgspec

from stage_model.errors import BadInput
from stage_model.forecast.fixed import explained_s
from stage_model.forecast.same_stage import Traits, same_stages
from stage_model.forecast.scaling import at_size
from stage_model.history.profile import CpuSource, Profile, RunRecord, StageRecord

_Seen = Sequence[tuple[StageRecord, RunRecord]]


class StageEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One stage to expect. Work in core-seconds, times in seconds.

    `index` is its place in the order and `parents` are the places of what it waits for; `job` and `sql` are the ordinals
    of its job and SQL execution in the reference run. `records` None: it reads none. `fixed_s` = what cores do not shorten,
    `gap_s` = driver time before it, `start_s` = when it starts after submission if all goes as profiled.
    """

    index: int
    signature: str
    name: str
    job: int
    tasks: int
    records: float | None
    work_core_s: float
    task_cv: float
    fixed_s: float
    gap_s: float
    duration_s: float
    start_s: float
    parents: tuple[int, ...] = ()
    sql: int | None = None

    @property
    def task_sd_s(self) -> float:
        """Standard deviation of a task's seconds on a core of its own."""
        return self.task_cv * self.work_core_s / max(1, self.tasks)


class ApplicationEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """`startup_s` before the first stage, `tail_s` after the last one, `stages` in order of submission."""

    startup_s: float
    tail_s: float
    stages: tuple[StageEstimate, ...]
    cpu_source: CpuSource = "container"


def reference_run(profile: Profile, arguments: tuple[str, ...] | None = None) -> RunRecord:
    """The most recent complete run, of those with the same arguments if there are any. Raises `BadInput` if none is."""
    runs = [run for run in profile.runs if run.complete]
    if not runs:
        raise BadInput(f"profile {profile.key!r} holds no complete run; accepted: one with at least one complete run")
    same = [run for run in runs if arguments is not None and run.arguments == arguments]
    return (same or runs)[-1]


def estimate(profile: Profile, input_scale: float = 1.0, arguments: tuple[str, ...] | None = None) -> ApplicationEstimate:
    """The estimate for an input `input_scale` times that of the reference run, the most recent complete one (of those
    with the same `arguments`, if given and any). Raises `BadInput` for a profile without a complete run."""
    runs = [run for run in profile.runs if run.complete]
    reference = reference_run(profile, arguments)
    seen: list[list[tuple[StageRecord, RunRecord]]] = [[] for _ in reference.stages]
    expected = record_traits(reference)
    for run in runs:
        for record, place in zip(run.stages, same_stages(expected, record_traits(run)), strict=True):
            if place is not None:
                seen[place].append((record, run))
    places = {record.signature: place for place, record in enumerate(reference.stages)}
    startup_s = median(run.startup_s for run in runs)
    stages: list[StageEstimate] = []
    for record in reference.stages:
        stage = _stage(record, seen[len(stages)], reference, input_scale)
        parents = tuple(sorted(places[parent] for parent in record.parents))
        ready_s = max((stages[p].start_s + stages[p].duration_s for p in parents), default=None)
        own_start_s = startup_s + max(0.0, record.start_s - reference.startup_s)
        start_s = own_start_s if ready_s is None else ready_s + stage.gap_s
        place = len(stages)
        stages.append(msgspec.structs.replace(stage, index=place, parents=parents, start_s=start_s))
    return ApplicationEstimate(
        startup_s=startup_s,
        tail_s=median(run.tail_s for run in runs),
        stages=tuple(stages),
        cpu_source="container" if any(run.cpu_source == "container" for run in runs) else "executor",
    )


def record_traits(run: RunRecord) -> list[Traits]:
    places = {record.signature: place for place, record in enumerate(run.stages)}
    return [
        Traits(
            signature=record.signature,
            tasks=record.tasks,
            parents=tuple(places[parent] for parent in record.parents if run.stages[places[parent]].job == record.job),
            sql=record.sql,
            records_per_task=record.records / record.tasks if record.records and record.tasks else None,
            start_s=record.start_s,
            end_s=record.start_s + record.duration_s,
        )
        for record in run.stages
    ]


def _stage(record: StageRecord, seen: _Seen, reference: RunRecord, scale: float) -> StageEstimate:
    """Estimate of one stage, not placed yet. `seen` are its records with their runs."""
    taught = [(r, run) for r, run in seen if r.teaches] or [(record, reference)]
    measured = [(r, run) for r, run in taught if run.cpu_source == "container"] or taught
    size = reference.input_records * scale

    def expected(of: Callable[[StageRecord], float], among: _Seen) -> float:
        return at_size([of(r) for r, _ in among], [run.input_records for _, run in among], size, scale)

    work_core_s = expected(lambda r: r.work_core_s, measured)
    records = expected(lambda r: r.records, taught) or None
    fixed_s = median(max(0.0, r.duration_s - explained_s(r, run)) for r, run in measured)
    return StageEstimate(
        index=0,
        signature=record.signature,
        name=record.name,
        job=record.job,
        sql=record.sql,
        tasks=record.tasks,
        records=records,
        work_core_s=work_core_s,
        task_cv=median(r.task_cv for r, _ in taught),
        fixed_s=fixed_s,
        gap_s=median(r.gap_s for r, _ in taught),
        duration_s=max(fixed_s, expected(lambda r: r.duration_s, taught)),
        start_s=0.0,
    )
