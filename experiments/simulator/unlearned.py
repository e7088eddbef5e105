"""The record that a run which taught nothing would have taught, from its folder and an earlier run of its application.

A run folder has only the times, the numbers of tasks and the call sites of stages. The rest of Spark's knowledge of
a stage is taken from an alike stage of the earlier run that follows an alike stage, so a stream with more batches repeats the
earlier run's stages.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from msgspec import structs

from controller.wire.course import StageCourse
from experiments.simulator.calibrate import Recorded, works_of
from stage_model.errors import BadInput
from stage_model.history.profile import RunRecord, StageRecord
from stage_model.history.signature import call_site, kind

Quotas = Mapping[str, Sequence[tuple[float, float]]]
"""Quotas by executor: from which second on, and cores."""


def as_record(
    recorded: Recorded, quotas: Quotas, before: Sequence[RunRecord], arguments: tuple[str, ...] | None
) -> RunRecord:
    """Return the record of the run. `quotas` are in order of time. `arguments` are the program's own words, which a run
    folder does not hold. Stages are taken to have run one after the other. Raise `BadInput` where no earlier run has stages
    alike."""
    summary, spans = recorded.summary, recorded.stages
    if not before:
        raise BadInput(f"run {summary['app_id']} taught nothing and none before it did; name a profile with an earlier run")
    ended = sorted((s for s in spans if s.end_s is not None and s.tasks), key=lambda span: span.start_s)
    works = works_of(recorded, ended)
    stages, last = list[StageRecord](), None
    equals: dict[str, int] = {}
    for span, work_core_s in zip(ended, works, strict=True):
        place = _alike(span, before[-1].stages, last)
        like, end_s = before[-1].stages[place], span.end_s or span.start_s
        equals[kind(like.signature)] = equals.get(kind(like.signature), 0) + 1
        begins = not stages or last is None or like.job != before[-1].stages[last].job
        ready_s = stages[-1].start_s + stages[-1].duration_s if stages else span.start_s
        duration_s = end_s - span.start_s
        stages.append(
            structs.replace(
                like,
                signature=f"{kind(like.signature)}-{equals[kind(like.signature)]}",
                job=len(stages) and stages[-1].job + begins,
                sql=None if like.sql is None else (len(stages) and (stages[-1].sql or 0) + begins),
                parents=(stages[-1].signature,) if stages else (),
                work_core_s=work_core_s,
                run_s=duration_s * min(span.tasks, before[-1].slots),
                task_s=duration_s * min(span.tasks, before[-1].slots) / span.tasks,
                duration_s=duration_s,
                cores_s=_held_core_s(quotas, span, end_s),
                start_s=span.start_s,
                gap_s=max(0.0, span.start_s - ready_s),
            )
        )
        last = place
    return structs.replace(
        before[-1],
        id=summary["app_id"],
        arguments=arguments,
        when_ms=round(1000 * summary["submitted_epoch_s"]),
        startup_s=stages[0].start_s,
        tail_s=max(0.0, summary["end_s"] - ready_at(stages)),
        duration_s=summary["end_s"],
        input_records=sum(stage.input_records for stage in stages),
        complete=False,
        stages=tuple(stages),
    )


def _held_core_s(quotas: Quotas, span: StageCourse, end_s: float) -> float:
    """Return the core-seconds of the executors that ran the stage: if it has fewer tasks than there are executors, of the
    executors that had most."""
    held = sorted((_between(of, span.start_s, end_s) for of in quotas.values()), reverse=True)
    return math.fsum(held[: span.tasks])


def _between(changes: Sequence[tuple[float, float]], from_s: float, to_s: float) -> float:
    """Return the core-seconds that one executor had between two times."""
    until = [time_s for time_s, _ in changes[1:]] + [math.inf]
    spans = ((max(from_s, at_s), min(to_s, end_s), cores) for (at_s, cores), end_s in zip(changes, until, strict=True))
    return math.fsum(cores * max(0.0, end_s - begun_s) for begun_s, end_s, cores in spans)


def ready_at(stages: Sequence[StageRecord]) -> float:
    """Return the end of the last stage, seconds after submission."""
    return max(stage.start_s + stage.duration_s for stage in stages)


def _alike(span: StageCourse, stages: Sequence[StageRecord], last: int | None) -> int:
    """Return the place of a stage that is alike and follows a stage like `last`; the stage right after `last` comes first."""
    same = [n for n, s in enumerate(stages) if s.tasks == span.tasks and call_site(s.name) == call_site(span.name)]
    same = same or [n for n, s in enumerate(stages) if s.tasks == span.tasks]
    if last is not None:
        after = [n for n in same if n and kind(stages[n - 1].signature) == kind(stages[last].signature)]
        same = [n for n in after if n == last + 1] or after or same
    if not same:
        raise BadInput(f"stage {span.stage} ({span.name}) is like no stage of the earlier run; name another profile")
    return same[0]
