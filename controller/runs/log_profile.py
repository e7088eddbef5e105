"""A profile of what event logs teach, for a plan without a cluster: every log is a run of one application.

Not covered: opening logs (`eventlog_files`), what they lack (`stage_model.history.gaps`), keeping profiles (`profile_store`).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from controller.runs.eventlog_files import read_event_log_file
from stage_model.errors import BadInput
from stage_model.forecast.fixed import with_cores
from stage_model.history.gaps import log_gaps, remarks, why_incomplete, why_unusable
from stage_model.history.like_named import like_named
from stage_model.history.profile import Profile, RunRecord, parse_profile, profile, profile_json, profile_key


class LoggedRun(NamedTuple):
    """The run in a log, with a clause for each kind of gap and for each remark."""

    record: RunRecord
    gaps: tuple[str, ...]
    remarks: tuple[str, ...]


def logged_run(file: Path) -> LoggedRun:
    """Return the run in the log at `file`. Raise `BadInput` for a log that cannot be read, or of a run from which nothing can
    be learned."""
    log = read_event_log_file(file)
    if not (log.run.complete and log.run.seems_well):
        raise BadInput(
            f"event log {file} is of a run that failed or was cut short ({why_incomplete(log.run)}); "
            "give one of a run that succeeded"
        )
    if why := why_unusable(log):
        raise BadInput(f"event log {file} tells {why}")
    record = log.record()
    try:
        msgspec.convert(msgspec.to_builtins(record), RunRecord)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"event log {file} is corrupt: its times or amounts cannot be ({error}); give one as Spark writes it"
        ) from error
    return LoggedRun(record, log_gaps(log), remarks(log.run, record))


def logged_profile(files: Sequence[Path], cores: float | None) -> tuple[Profile, tuple[str, ...]]:
    """Return the profile of the runs in these logs, the last 20, and a sentence for each gap and remark. `cores`: what those
    runs could use, where that was less than their executors' cores. Raise `BadInput`, also for logs of different
    applications."""
    runs: list[RunRecord] = []
    notes: list[str] = []
    for file in files:
        run, gaps, more = logged_run(file)
        if runs and _key(run) != _key(runs[0]):
            raise BadInput(
                f"event log {file} is of application {_key(run)!r}, {files[0]} of {_key(runs[0])!r}; "
                f"give logs of one application{_or_one_name(run, runs[0])}"
            )
        runs.append(run if cores is None else _slowed(run, cores, file))
        notes += (f"event log {file} has gaps: {clause}" for clause in gaps)
        notes += (f"in event log {file} {clause}" for clause in more)
    content = profile_json(profile(_key(runs[0]), runs))
    return parse_profile(content, source=f"what {', '.join(map(str, files))} would teach"), tuple(notes)


def _key(run: RunRecord) -> str:
    return profile_key(None, run.name, run.main)


def _or_one_name(run: RunRecord, first: RunRecord) -> str:
    """Return advice for two runs whose names may belong to one job; else empty."""
    if not like_named(_key(run), [_key(first)]):
        return ""
    name = shlex.quote(_key(first))
    return f", or, if both are runs of one job, teach each by `sparkpace profile learn --name {name} EVENTLOG`"


def _slowed(run: RunRecord, cores: float, file: Path) -> RunRecord:
    if cores > run.cores:
        raise BadInput(f"--log-cores {cores:g} are more than event log {file} has; accepted: at most {run.cores:g}")
    return with_cores(run, cores)
