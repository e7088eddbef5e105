"""Search for a run's folder under the home directory, also for applications that no master remembers; the course of a run
from its folder, and all ended runs in short, which the master reads for the live page.

Not covered: the files themselves (`run_folder`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from controller.runs.run_folder import SUMMARY, quotas_from, read_stages, read_summary, samples_from
from controller.wire.course import COURSE_BYTES, MOST_STAGES, Course, EndedRun, StageCourse
from stage_model.errors import BadInput
from stage_model.nearest import nearest_applications

log = logging.getLogger("sparkpace.master")


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run's folder. `summary` is empty while the run goes on."""

    path: Path
    summary: dict[str, Any]

    @property
    def application_id(self) -> str:
        return self.path.name

    @property
    def names(self) -> tuple[str, ...]:
        """Name of the application, and the name given at submission if that differs; none while the run goes on."""
        return tuple(str(self.summary[key]) for key in ("name", "submitted_name") if self.summary.get(key))


def find_run(runs: Path, wanted: str, *, ended: bool = False) -> RunFolder:
    """Return the folder that `wanted` names: `last`, an application id, a unique start of an id, or a name, which means the
    newest run that has it or was submitted with it. `ended`: `last` is the last run that has ended.

    Raises `BadInput` without such a run, or if several ids begin so.
    """
    folders = sorted((path for path in runs.glob("*") if path.is_dir()), key=_date)
    if wanted == "last" and folders:
        if found := [path for path in folders if not ended or (path / SUMMARY).exists()]:
            return _load(found[-1])
        raise BadInput(f"no run in {runs} has ended yet; give `last` again once one has, or look at `sparkpace ps`")
    begins = [path for path in folders if wanted and path.name.startswith(wanted)]
    exact = [path for path in begins if path.name == wanted]
    if exact or len(begins) == 1:
        return _load((exact or begins)[0])
    loaded = [_load(path) for path in folders]
    named = [run for run in loaded if wanted in run.names]
    if named:
        return named[-1]
    if begins:
        ids = ", ".join(path.name for path in begins[:5])
        raise BadInput(f"run {wanted!r} could be any of {ids}; give more of the id")
    known = [name for run in loaded for name in run.names]
    names = nearest_applications(wanted, [path.name for path in folders], known)
    raise BadInput(f"there is no run {wanted[:80]!r} in {runs}; {names}; an id or `last` is accepted, too")


def find_ended_run(runs: Path, wanted: str) -> RunFolder:
    """Return an ended run like `find_run`. Raise `BadInput`, also while the run has no summary yet."""
    run = find_run(runs, wanted, ended=True)
    if not run.summary:
        raise BadInput(f"run {run.application_id} has no {SUMMARY} yet; it is written when the application has ended")
    return run


def dated_records(runs: Path) -> list[tuple[float, Path]]:
    """Return when the record of each run that has ended was written, and the run's folder, in the order of their ends."""
    dated: list[tuple[float, Path]] = []
    for file in runs.glob(f"*/{SUMMARY}"):
        with suppress(FileNotFoundError):  # the record of an old run has just been removed
            dated.append((file.stat().st_mtime, file.parent))
    return sorted(dated)


def ended_folders(runs: Path) -> list[RunFolder]:
    """Return the folders of all runs that have ended, in the order in which they ended. Raise `BadInput` for a record that
    cannot be read."""
    return [_load(path) for _, path in dated_records(runs)]


def _date(path: Path) -> float:
    """Return when a run's record was written, which orders runs that ended; for a run that goes on, return when its folder
    changed last."""
    summary = path / SUMMARY
    return (summary if summary.exists() else path).stat().st_mtime


def _load(path: Path) -> RunFolder:
    return RunFolder(path, read_summary(path) if (path / SUMMARY).exists() else {})


def read_course(run_dir: Path, samples: int, quotas: int, since_s: float, stages: Sequence[StageCourse] | None) -> Course:
    """Return the course of a run: its records behind these offsets, and its stages that did not end before `since_s`.
    `stages` None: the stages of the folder. Raise `BadInput`."""
    rows, samples_next = samples_from(run_dir, samples, COURSE_BYTES)
    ordered, quotas_next = quotas_from(run_dir, quotas, COURSE_BYTES)
    spans = read_stages(run_dir) if stages is None else stages
    return Course(
        samples=tuple(rows),
        samples_next=samples_next,
        quotas=tuple(ordered),
        quotas_next=quotas_next,
        stages=tuple(span for span in spans if span.end_s is None or span.end_s >= since_s)[-MOST_STAGES:],
        # an answer that is almost full may have left something out
        more=max(samples_next - samples, quotas_next - quotas) > COURSE_BYTES // 2,
    )


def ended_runs(runs: Path) -> tuple[EndedRun, ...]:
    """Return the ended runs in the order in which they ended. A record that cannot be read is left out, and the log says
    so."""
    found = []
    for _, folder in dated_records(runs):
        try:
            found.append(msgspec.convert({**read_summary(folder), "app_id": folder.name}, EndedRun))
        except (BadInput, msgspec.ValidationError) as error:
            log.warning("the record of run %s is not shown: %s", folder.name, error)
    return tuple(found)
