"""Stage and run records, and the facts of a run, with plain numbers, of which a test changes what it is about."""

from __future__ import annotations

import msgspec

from stage_model.history.profile import RunRecord, StageRecord
from stage_model.history.run_record import RunFacts


def stage(signature: str, **changed: object) -> StageRecord:
    plain = StageRecord(
        signature=signature, job=0, tasks=4, records=1000, input_records=1000, work_core_s=10.0, run_s=11.0, task_s=2.75,
        task_cv=0.1, skew=1.2, duration_s=6.0, start_s=2.0, gap_s=0.0,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **changed)


def run(name: str, when_ms: int = 0, *stages: StageRecord, **changed: object) -> RunRecord:
    plain = RunRecord(
        id=name, name="app", main="app.py", when_ms=when_ms, cores=2.0, slots=2, executors=1, startup_s=2.0, tail_s=0.5,
        duration_s=8.5, input_records=sum(s.input_records for s in stages), cpu_source="container", stages=stages,
    )  # fmt: skip
    return msgspec.structs.replace(plain, **changed)


def facts(**changed: object) -> RunFacts:
    plain = RunFacts(
        id="run", name="app", main="app.py", when_ms=0, spark_version="4.3.0", cores=2.0, slots=2, executors=1, started_ms=0
    )
    return msgspec.structs.replace(plain, **changed)
