"""The estimate of an application, derived from its profile: order, work, gaps and fixed times of its stages.

The order and sizes are those of the most recent complete run, every other number a median over the runs that did alike (of
other sizes: `scaling`), because two programs with the same name and file name have one profile. Container CPU counts where a
run has it; other runs then only teach times and counts. Not covered: comparing with a live run (`match`), how many cores that
needs (`virtual_time`, `laws`). See docs/profiles.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from statistics import median

import msgspec

from stage_model.errors import BadInput
from stage_model.forecast.expected import Expected, ProfiledTraits
from stage_model.forecast.fixed import fixed_times, mean_cores, side_by_side_s
from stage_model.forecast.further import Grounds, grounds, marks
from stage_model.forecast.overlap import overlapping
from stage_model.forecast.same_stage import same_stages
from stage_model.forecast.scaling import Fitted, at_size, lowest_below
from stage_model.forecast.virtual_time import spread
from stage_model.forecast.waiting import HELD_BACK, Shown, held_share, split
from stage_model.history.amounts import Amounts
from stage_model.history.profile import CpuSource, Profile, RunRecord, StageRecord, StageWaits
from stage_model.history.signature import Names, kind, stage_names

LEAST_ALIKE = 0.25
"""Share of the work of a run or of the reference run: a run that has less of it in common is one of another program."""

BLURRED_CORE_S = 0.25
"""Core-seconds by which the CPU of a stage may be counted to a stage next to it, because agents read CPU once a second."""

_Seen = Sequence[tuple[StageRecord, RunRecord]]
_Fixed = Mapping[str, Mapping[str, float]]


class StageEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One stage to expect. Work in core-seconds, times in seconds.

    `index` is its place in the order and `parents` are the places of the stages it waits for; `job` and `sql` are the
    ordinals of its job and SQL execution in the reference run. `records` None: it reads none. `amounts` is what it reads and
    writes, counted `in_bytes` or in records; `slots` were there when it was submitted, 0 where that is not known. `growth` is
    the share of its work that grows with what it reads; `moving_core_s` is by how much one of the runs had less work here
    than follows from what it read, if that is more than `BLURRED_CORE_S`; `cold_core_s` is the part of its work that comes
    with its first records, because code is cold (`history.cold`). `fixed_s` = time that cores do not shorten, of which
    `waiting_s` is hidden where a quota holds the stage back; `waits` are Spark's metrics of its waiting (None: not
    known); `gap_s` = driver time before it, `start_s` = when it starts after submission if all goes as profiled.
    """

    index: int
    signature: str
    structure: str = ""
    name: str
    job: int
    tasks: int
    records: float | None
    amounts: Amounts = Amounts()
    in_bytes: bool = False
    slots: int = 0
    growth: float = 1.0
    work_core_s: float
    moving_core_s: float = 0.0
    cold_core_s: float = 0.0
    task_cv: float
    skew: float = 1.0
    fixed_s: float
    waiting_s: float = 0.0
    waits: StageWaits | None = None
    gap_s: float
    duration_s: float
    start_s: float
    parents: tuple[int, ...] = ()
    sql: int | None = None

    @property
    def action(self) -> tuple[str, int]:
        """The stage's SQL execution, which may have several jobs, else its job."""
        return ("job", self.job) if self.sql is None else ("sql", self.sql)

    @property
    def task_sd_s(self) -> float:
        """Seconds, on a core of its own, by which the last task may differ from the mean (`spread`)."""
        return spread(self.task_cv, self.skew, self.tasks) * self.work_core_s / max(1, self.tasks)

    def times(self, share: float) -> StageEstimate:
        """Return the estimate of the stage when it reads `share` of what it read."""
        return self if share == 1 else self.part(share, max(0.0, 1 + self.growth * (share - 1)))

    def part(self, records: float, work: float) -> StageEstimate:
        """Return the estimate of a part of the stage, with these shares of its records and its work."""
        return msgspec.structs.replace(
            self,
            records=None if self.records is None else self.records * records,
            work_core_s=self.work_core_s * work,
            moving_core_s=self.moving_core_s * work,
            cold_core_s=self.cold_core_s * min(1.0, work),
            duration_s=self.fixed_s + (self.duration_s - self.fixed_s) * work,
        )

    def after(self, before: Sequence[StageEstimate]) -> StageEstimate:
        """Return the estimate of the stage when it starts as soon as its parents, which are among those `before` it, let
        it."""
        ready_s = max((before[p].start_s + before[p].duration_s for p in self.parents), default=None)
        if ready_s is None or self.start_s == ready_s + self.gap_s:
            return self
        return msgspec.structs.replace(self, start_s=ready_s + self.gap_s)


class ApplicationEstimate(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """`startup_s` before the first stage, `launch_s` from there to its first task (None: not known, and part of the first
    stage's fixed time), `tail_s` after the last stage, `stages` in order of submission. `used_core_s` is the container CPU of
    the whole run, in stages or not (None: known of no run with these arguments), and one of the runs used `less_core_s` less
    than follows from what it read; `grounds` are the runs that the estimate rests on. `rest_s` are the seconds that a run
    took beyond what all of these explain with the cores that it had (below 0: it took less); it is 0 where quotas moved the
    cores."""

    startup_s: float
    launch_s: float | None = None
    tail_s: float
    stages: tuple[StageEstimate, ...]
    cpu_source: CpuSource = "container"
    grounds: Grounds
    used_core_s: float | None = None
    less_core_s: float = 0.0
    rest_s: float = 0.0

    @property
    def first_task_s(self) -> float:
        """The time of the first task as far as it is known, in seconds after submission."""
        return self.startup_s + (self.launch_s or 0.0)

    @cached_property
    def expected(self) -> Expected:
        """The stages, among which those of a run are looked for."""
        return Expected(_traits(self.stages, [stage.parents for stage in self.stages]))

    @cached_property
    def marks(self) -> frozenset[int]:
        """Places of the stages that show how far a run has come (`further.marks`)."""
        return marks(stage.name for stage in self.stages)


def reference_run(profile: Profile, arguments: tuple[str, ...] | None = None) -> RunRecord:
    """Return the most recent complete run, of those with the same arguments if there are any. Raise `BadInput` if no run is
    complete."""
    runs = [run for run in profile.runs if run.complete]
    if not runs:
        raise BadInput(f"profile {profile.key!r} holds no complete run; give one with a complete run")
    same = [run for run in runs if arguments is not None and run.arguments == arguments]
    return (same or runs)[-1]


def estimate(profile: Profile, arguments: tuple[str, ...] | None = None) -> ApplicationEstimate:
    """Return the estimate for what the reference run read: the most recent complete one (of those with the same `arguments`,
    if given and any). A run shows how much it reads only while it runs (`nominal`). Runs with other stages count only in the
    reserve for arguments that no run had. Raise `BadInput` for a profile without a complete run."""
    complete = [run for run in profile.runs if run.complete]
    reference = reference_run(profile, arguments)
    seen: list[list[tuple[StageRecord, RunRecord]]] = [[] for _ in reference.stages]
    expected = Expected(record_traits(reference))
    runs: list[RunRecord] = []
    for run in complete:
        same = same_stages(expected, record_traits(run))
        if not _is_like(run, reference, same.places):
            continue
        runs.append(run)
        for record, place in zip(run.stages, same.places, strict=True):
            if place is not None and place not in same.alike:
                seen[place].append((record, run))
    startup_s, fixed = median(run.startup_s for run in runs), {run.id: fixed_times(run) for run in runs}
    launches = [run.launch_s for run in runs if run.launch_s is not None]
    measured = any(run.cpu_source == "container" for run in runs)
    counted = runs if arguments is None or reference.arguments == arguments else complete
    disturbed = sum(1 for records in seen if not any(record.teaches for record, _ in records))
    used_core_s, less_core_s = _used_core_s(runs, reference, arguments)
    stages = _placed(reference, seen, startup_s, fixed)

    def rest_s(run: RunRecord) -> float:
        own = [[(record, run)] for record in run.stages]
        return _rest_s(run, stages if own == seen else _placed(run, own, run.startup_s, fixed))

    return ApplicationEstimate(
        startup_s=startup_s,
        launch_s=median(launches) if launches else None,
        tail_s=median(run.tail_s for run in runs),
        stages=stages,
        cpu_source="container" if measured else "executor",
        grounds=msgspec.structs.replace(
            grounds(counted, reference, arguments), disturbed=disturbed, others=len(complete) - len(counted)
        ),
        used_core_s=used_core_s,
        less_core_s=less_core_s,
        rest_s=0.0 if measured else median(rest_s(run) for run in runs),
    )


def _is_like(run: RunRecord, reference: RunRecord, places: Sequence[int | None]) -> bool:
    """Return True if `LEAST_ALIKE` of the work of one of the two runs is in stages that both have: a run with other arguments
    may have a few rounds of many. `places` are those of the run's stages in the reference run."""
    both = [(record, reference.stages[place]) for record, place in zip(run.stages, places, strict=True) if place is not None]
    shared = math.fsum(record.work_core_s for record, _ in both), math.fsum(stage.work_core_s for _, stage in both)
    return shared[0] >= LEAST_ALIKE * run.work_core_s or shared[1] >= LEAST_ALIKE * reference.work_core_s


def _placed(reference: RunRecord, seen: Sequence[_Seen], startup_s: float, fixed: _Fixed) -> tuple[StageEstimate, ...]:
    """Return the estimates of the stages of the reference run, in its order. `seen` are the records of each of them."""
    places = {record.signature: place for place, record in enumerate(reference.stages)}
    stages: list[StageEstimate] = []
    for record in reference.stages:
        stage = _stage(record, seen[len(stages)], reference, fixed)
        parents = tuple(sorted(places[parent] for parent in record.parents))
        start_s = startup_s + max(0.0, record.start_s - reference.startup_s)
        placed = msgspec.structs.replace(stage, index=len(stages), parents=parents, start_s=start_s)
        stages.append(placed.after(stages))
    return tuple(stages)


def _rest_s(run: RunRecord, stages: Sequence[StageEstimate]) -> float:
    """Return the seconds that the run took beyond what the estimates of its own stages explain with the cores that it had."""
    said_s = run.startup_s + run.tail_s
    for group in overlapping(stages):
        works = [(stage.tasks, stage.work_core_s, stage.task_cv) for stage in group]
        since_s = run.stages[group[0].index].start_s
        said_s += group[0].gap_s + side_by_side_s(works, since_s, run) + max(stage.fixed_s for stage in group)
    return run.duration_s - said_s


def _used_core_s(
    runs: Sequence[RunRecord], reference: RunRecord, arguments: tuple[str, ...] | None
) -> tuple[float | None, float]:
    """Return the container CPU of the whole application in core-seconds, if its input is the reference run's, and by how much
    one of the runs used less. Only runs with its arguments count, because others may have done something else."""
    if arguments is not None and reference.arguments != arguments:
        return None, 0.0
    alike = [run for run in runs if run.used_core_s is not None and run.arguments == reference.arguments]
    if not alike:
        return None, 0.0
    used, read = [run.used_core_s or 0.0 for run in alike], [run.input_records for run in alike]
    whole = at_size(used, read, reference.input_records)
    return whole.amount, lowest_below(whole, used, read, reference.input_records)


def record_traits(run: RunRecord) -> list[ProfiledTraits]:
    places = {record.signature: place for place, record in enumerate(run.stages)}
    return _traits(run.stages, [[places[parent] for parent in record.parents] for record in run.stages])


def _traits(stages: Sequence[StageRecord | StageEstimate], parents: Sequence[Sequence[int]]) -> list[ProfiledTraits]:
    """Return the traits of the stages. `parents` are the places of the stages that each stage waits for. The result stage of
    a job is the last one of the job to be submitted."""
    last = {stage.job: place for place, stage in enumerate(stages)}
    known = [_names(stage, result=last[stage.job] == place) for place, stage in enumerate(stages)]
    return [
        ProfiledTraits(
            names=known[place],
            tasks=stage.tasks,
            parents=tuple(parent for parent in parents[place] if stages[parent].job == stage.job),
            job=stage.job,
            result=known[last[stage.job]],
            sql=stage.sql,
            amounts=stage.amounts,
            counted=max(1, stage.tasks),
            start_s=stage.start_s,
            end_s=stage.start_s + stage.duration_s,
        )
        for place, stage in enumerate(stages)
    ]


def _names(stage: StageRecord | StageEstimate, *, result: bool) -> Names:
    return stage_names(kind(stage.signature), stage.structure, stage.name, result=result)


def _shown(record: StageRecord, run: RunRecord, fixed_s: float) -> Shown:
    """Return the figures of one run of a stage from which `split` finds its waiting."""
    held_s = record.throttled_s or 0.0
    waited_s = max(0.0, record.run_s - record.work_core_s - held_s) / max(1, min(record.tasks, run.slots))
    return Shown(fixed_s, mean_cores((record,), record.duration_s, run), record.work_core_s, record.throttled_s, waited_s)


def _cold_core_s(seen: Sequence[StageRecord]) -> float:
    """Return the least cold part that a run of the stage is known to have had, because which of several stages runs cold code
    first may differ from run to run; 0 if no run shows more than is blurred."""
    least_core_s = min((r.cold_core_s for r in seen if r.cold_core_s is not None), default=0.0)
    return least_core_s if least_core_s > BLURRED_CORE_S else 0.0


def _waits(seen: Sequence[StageRecord]) -> StageWaits | None:
    """Return the newest metrics of a stage's waiting in runs that no quota held back by much, because being held back looks
    like waiting; None if there is no such run, or its metrics are not known."""
    unheld = (r.waits for r in reversed(seen) if held_share(r.throttled_s or 0.0, r.work_core_s) < HELD_BACK)
    return next((waits for waits in unheld if waits is not None), None)


def _stage(record: StageRecord, seen: _Seen, reference: RunRecord, fixed: _Fixed) -> StageEstimate:
    """Return the estimate of one stage, not placed yet. `seen` are its records with their runs, `fixed` are `fixed_times` by
    run id."""
    taught = [(r, run) for r, run in seen if r.teaches] or [(record, reference)]
    measured = [(r, run) for r, run in taught if run.cpu_source == "container"] or taught
    in_bytes = (record.batches and record.bytes > 0) or not (record.records or record.written_records)

    def expected(of: Callable[[StageRecord], float], among: _Seen) -> Fitted:
        sizes = [r.amounts.read(in_bytes) for r, _ in among]
        return at_size([of(r) for r, _ in among], sizes, record.amounts.read(in_bytes))

    works, read = [r.work_core_s for r, _ in measured], [r.amounts.read(in_bytes) for r, _ in measured]
    work = at_size(works, read, record.amounts.read(in_bytes))
    short_core_s = lowest_below(work, works, read, record.amounts.read(in_bytes))
    fixed_s, waiting_s = split([_shown(r, run, fixed[run.id][r.signature]) for r, run in measured])
    return StageEstimate(
        index=0,
        signature=record.signature,
        structure=record.structure,
        name=record.name,
        job=record.job,
        sql=record.sql,
        tasks=record.tasks,
        records=expected(lambda r: r.records, taught).amount or None,
        amounts=record.amounts,
        in_bytes=in_bytes,
        slots=record.slots,
        growth=work.growth,
        work_core_s=work.amount,
        moving_core_s=short_core_s if short_core_s > BLURRED_CORE_S else 0.0,
        cold_core_s=_cold_core_s([r for r, _ in measured]),
        task_cv=median(r.task_cv for r, _ in taught),
        skew=median(r.skew for r, _ in taught),
        fixed_s=fixed_s,
        waiting_s=waiting_s,
        waits=_waits([r for r, _ in measured]),
        gap_s=median(r.gap_s for r, _ in taught),
        duration_s=max(fixed_s, expected(lambda r: r.duration_s, taught).amount),
        start_s=0.0,
    )
