"""Profiles from event logs, for a plan without a cluster: every log is a run of an application.

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
from stage_model.history.held import Held, cores_held
from stage_model.history.profile import Profile, RunRecord, like_named, parse_profile, profile, profile_json, profile_key


class LoggedRun(NamedTuple):
    """The run in the log at `file`, with what its executors held, and a clause for each kind of gap and for each remark."""

    file: Path
    record: RunRecord
    held: Held
    gaps: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def key(self) -> str:
        """The key of the profile to which the run belongs by its names."""
        return profile_key(None, self.record.name, self.record.main)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each gap and remark."""
        return (
            *(f"event log {self.file} has gaps: {clause}" for clause in self.gaps),
            *(f"in event log {self.file} {clause}" for clause in self.remarks),
        )


def logged_run(file: Path) -> LoggedRun:
    """Return the run in the log at `file`. Raise `BadInput` for a log that cannot be read, and for a run that teaches
    nothing."""
    log = read_event_log_file(file)
    if not (log.run.complete and log.run.seems_well):
        raise BadInput(
            f"event log {file} is of a run that failed or was cut short ({why_incomplete(log.run)}); "
            "give one of a run that succeeded"
        )
    if why := why_unusable(log):
        raise BadInput(f"event log {file} has {why}")
    record = log.record()
    try:
        msgspec.convert(msgspec.to_builtins(record), RunRecord)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"event log {file} is corrupt: it has impossible times or amounts ({error}); give one as Spark writes it"
        ) from error
    held = cores_held(log.cores_held, record.when_ms, record.duration_s)
    return LoggedRun(file, record, held, log_gaps(log), remarks(log.run, record))


def logged_profile(runs: Sequence[LoggedRun]) -> Profile:
    """Return the profile of these runs of one application, at least one, of which the last 20 count. Raise `BadInput`."""
    content = profile_json(profile(runs[0].key, [run.record for run in runs]))
    return parse_profile(content, source=f"what {', '.join(str(run.file) for run in runs)} would teach")


def another_application(runs: Sequence[LoggedRun]) -> str:
    """Return a clause that names two runs of different applications; empty: all runs are of one application."""
    for run in runs:
        if run.key != runs[0].key:
            return f"event log {run.file} is of application {run.key!r}, {runs[0].file} of {runs[0].key!r}"
    return ""


def maybe_one_job(runs: Sequence[LoggedRun]) -> str:
    """Return a sentence on two runs of different applications whose names differ by numbers and ids only; empty: there are no
    such runs."""
    keys: dict[str, str] = {}
    for run in runs:
        name = profile_key(None, run.record.name, None)
        if alike := [key for other, key in keys.items() if like_named(name, [other])]:
            return (
                f"if {alike[0]!r} and {run.key!r} are runs of one job, teach each by "
                f"`sparkpace profile learn --name {shlex.quote(alike[0])} EVENTLOG`, and plan that profile"
            )
        keys[name] = run.key
    return ""


def slowed(run: LoggedRun, cores: float) -> LoggedRun:
    """Return the run if a quota left it these cores, which its log does not show. Raise `BadInput` for more than it had."""
    if cores > run.record.cores:
        raise BadInput(
            f"--log-cores {cores:g} are more than event log {run.file} has; accepted: at most {run.record.cores:g}"
        )
    return run._replace(record=with_cores(run.record, cores), held=run.held.at_most(cores))
