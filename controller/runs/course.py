"""Course of a run, from its folder: what was recorded behind an offset, and all ended runs in short.

The master reads it for the live page. Not covered: the files themselves (`run_folder`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from controller.runs.run_folder import quotas_from, read_stages, read_summary, samples_from
from controller.runs.run_folders import dated_records
from controller.wire.course import COURSE_BYTES, MOST_STAGES, Course, EndedRun, StageCourse
from stage_model.errors import BadInput

log = logging.getLogger("sparkpace.master")


def read_course(
    run_dir: Path, samples: int, quotas: int, since_s: float, stages: Sequence[StageCourse] | None, most: int = COURSE_BYTES
) -> Course:
    """Return the course of a run. `stages` None: those of the folder. Raise `BadInput`."""
    rows, samples_next = samples_from(run_dir, samples, most)
    ordered, quotas_next = quotas_from(run_dir, quotas, most)
    spans = read_stages(run_dir) if stages is None else stages
    return Course(
        samples=tuple(rows),
        samples_next=samples_next,
        quotas=tuple(ordered),
        quotas_next=quotas_next,
        stages=tuple(_since(spans, since_s))[-MOST_STAGES:],
        # an answer that is almost full may have left something out
        more=max(samples_next - samples, quotas_next - quotas) > most // 2,
    )


def _since(spans: Iterable[StageCourse], since_s: float) -> Iterable[StageCourse]:
    for span in spans:
        if span.end_s is None or span.end_s >= since_s:
            yield span


def ended_runs(runs: Path) -> tuple[EndedRun, ...]:
    """Return the ended runs in the order in which they ended. A record that cannot be read is left out, and the log says
    so."""
    found = (_ended_run(folder) for _, folder in dated_records(runs))
    return tuple(run for run in found if run is not None)


def _ended_run(run_dir: Path) -> EndedRun | None:
    try:
        return msgspec.convert({**read_summary(run_dir), "app_id": run_dir.name}, EndedRun)
    except (BadInput, msgspec.ValidationError) as error:
        log.warning("the record of run %s is not shown: %s", run_dir.name, error)
        return None
